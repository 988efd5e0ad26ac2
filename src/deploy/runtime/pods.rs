//! Pods of a host whose containerd gets another major or minor version: all of them end before.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use kubexm_engine::plan::{Condition, Describe, Step, StepError, Task, Wait};
use kubexm_engine::steps::{POLL, RunScript, unanswered};
use kubexm_engine::{Command, Host, Limit};
use kubexm_scripts::Script;
use kubexm_scripts::runtime::{CONTAINERD_PODS, CONTAINERD_SHIMS};
use kubexm_types::Version;

/// How long pods may take to end. The kubelet starts after pods that an interrupted run still ends.
const END: Limit = Limit::new(Duration::from_secs(900), "the end of all pods of a host");
const STARTED: &str = "kubelet after containerd";
/// How long kubexm waits for static pods. Later steps report those that do not answer.
const RETURN: Duration = Duration::from_secs(240);
/// Time between two polls of a host that has no plan.
const PAUSE: Duration = Duration::from_secs(2);

/// Lets the task that installs containerd end all pods of the host before, and start the kubelet afterwards. Both happen only
/// if the host has another major or minor version.
pub(super) fn end_around(version: &Version, task: &mut Task) {
    let step = |id, title, [check, apply]: [Script; 2]| {
        let step = RunScript::new(id, title, check, apply);
        step.arguments([version.to_string()]).limit(END).into()
    };
    let ended = CONTAINERD_SHIMS.verb("ended");
    let title = "End all pods if containerd gets another minor version";
    let end = step("end pods", title, [ended, CONTAINERD_PODS.verb("end")]);
    let title = "Stop containerd and what is left of its pods if it gets another minor version";
    let stop = step("end shims", title, [ended, CONTAINERD_SHIMS.verb("end")]);
    task.steps.splice(0..0, [end, stop]);
    let verbs = ["started", "start"].map(|verb| CONTAINERD_PODS.verb(verb));
    let start = step(STARTED, "Start the kubelet after containerd", verbs);
    let verbs = ["settled", "settle"].map(|verb| CONTAINERD_PODS.verb(verb));
    let title = "Record that the kubelet has started after containerd";
    let settle = step("pods after containerd", title, verbs);
    let wait = Step::Wait(Box::new(Return::default()));
    task.steps.extend([start, wait, settle]);
}

/// Starts what a run that was killed has left stopped on a host, and waits for its static pods: the next run asks the API
/// server, which may be the only one. Returns whether there was something.
///
/// # Errors
/// The host was lost.
pub async fn resume(host: &dyn Host) -> Result<bool, StepError> {
    let run = async |verb| {
        let command = Command::from_script(CONTAINERD_PODS.verb(verb), [""; 0]);
        let title = "start the kubelet that an interrupted run has stopped";
        host.run(command.describe(title).limit(END)).await
    };
    let is_started = run("resume").await?.text().trim() == "started";
    if is_started {
        let wait = Return::default();
        while wait.poll(host).await? != Condition::Met {
            sleep(PAUSE).await;
        }
        run("settle").await?;
    }
    Ok(is_started)
}

/// Waits until the node of a kubelet that has started after containerd is ready, with the static pods that kubeadm needs: the
/// API server of the host with its etcd, or the load balancer by which the kubelet connects.
#[derive(Default)]
struct Return {
    began: OnceLock<Instant>,
}

impl Describe for Return {
    fn id(&self) -> String {
        format!("wait {STARTED}")
    }

    fn describe(&self) -> String {
        "Wait until the static pods answer after containerd".to_owned()
    }
}

/// Returns whether a node is ready, from the time when its kubelet started and the node. What the former kubelet said stays
/// for most of a minute. Nothing is printed if no kubelet was stopped.
fn is_ready(printed: &str) -> bool {
    let Some((started, node)) = printed.split_once('\n') else {
        return true;
    };
    let node: Value = serde_json::from_str(node).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| {
        let said = one["lastHeartbeatTime"].as_str();
        one["type"] == "Ready" && one["status"] == "True" && said.is_some_and(|at| at >= started)
    })
}

#[async_trait]
impl Wait for Return {
    /// Longer than the polls: the end of [`RETURN`] does not fail the step.
    fn limit(&self) -> Duration {
        RETURN * 2
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        if self.began.get_or_init(Instant::now).elapsed() >= RETURN {
            return Ok(Condition::Met);
        }
        let life = Command::from_script(CONTAINERD_PODS.verb("life"), [host.name().as_str()]);
        match host.run(life.describe(self.describe()).limit(POLL)).await {
            Ok(output) if output.success() && is_ready(&output.text()) => Ok(Condition::Met),
            Ok(_) => Ok(Condition::Unmet(
                "the node is not ready with its static pods".to_owned(),
            )),
            Err(error) => unanswered(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{printed, words};
    use kubexm_engine::{HostError, Output};
    use kubexm_types::HostName;

    const NODE: &str = r#"{"status": {"conditions": [
        {"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "2026-01-31T09:30:00Z"},
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-31T09:20:00Z"}]}}"#;

    /// A host that prints this for the verb `life`, and what ran there.
    struct Node(HostName, String, std::sync::Mutex<Vec<String>>);

    #[async_trait]
    impl Host for Node {
        fn name(&self) -> &HostName {
            &self.0
        }

        async fn run(&self, command: Command) -> Result<Output, HostError> {
            let verb = words(command).swap_remove(0);
            let text = match verb.as_str() {
                "resume" => "started\n",
                "life" => &self.1,
                _ => "",
            };
            self.2.lock().unwrap().push(verb);
            Ok(printed(0, text.to_owned()))
        }
    }

    async fn resumed(life: String) -> (usize, Duration) {
        let began = Instant::now();
        let node = Node("node1".parse().unwrap(), life, Default::default());
        assert!(resume(&node).await.unwrap());
        let ran = node.2.into_inner().unwrap();
        assert_eq!(ran.last().map(String::as_str), Some("settle"));
        (ran.len() - 2, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn node_is_ready_if_its_new_kubelet_has_said_so() {
        let after = |started: &str| resumed(format!("{started}\n{NODE}"));
        assert_eq!(after("2026-01-31T09:20:00Z").await.0, 1);
        let (polls, waited) = after("2026-01-31T09:20:01Z").await;
        // Later steps report it.
        assert!(polls > 100 && waited == RETURN, "{polls} {waited:?}");
        assert_eq!(resumed(String::new()).await.0, 1);
    }
}
