//! Restarts static pods that read files only when they start.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use kubexm_engine::plan::{
    About, Check, Condition, Describe, Ensure, Step, StepContext, StepError, Task, Wait,
};
use kubexm_engine::steps::{diagnosis, unanswered};
use kubexm_engine::{Command, Host, HostError, Limit, Output};
use kubexm_scripts::kubeadm::PROGRAMS;
use kubexm_types::{HostName, Message};

/// How long a program may take until it runs again: after a failure, the kubelet waits up to five minutes before it starts a
/// container. The API server looks for new files every minute.
const RESTART: Duration = Duration::from_secs(360);
/// How long the container runtime and an API server may take to answer.
const ANSWER: Limit = Limit::new(Duration::from_secs(60), "answers about running programs");
/// How long programs may take to end.
const END: Limit = Limit::new(Duration::from_secs(180), "the end of programs");
/// What steps do before they end programs.
const LOOK: &str = "list the running containers";

pub(super) const API_SERVER: &str = "kube-apiserver";

/// Static pods, in the order in which their programs end, with the files that these read when they start.
#[derive(Clone)]
pub(crate) struct Programs(pub(crate) Vec<(&'static str, Vec<String>)>);

/// Adds the steps after which the programs of a control plane use the files of a renewal, one after another. API server and
/// etcd read them without a restart. The other two read the certificate in their kubeconfig when they start.
pub(super) fn after_renewal(task: Task) -> Task {
    let serves = ProgramsRestarted {
        id: "kubeadm certificate API server",
        programs: Programs(vec![(API_SERVER, Vec::new())]),
    };
    let of =
        |name, file: &str| Programs(vec![(name, vec![format!("/etc/kubernetes/{file}.conf")])]);
    let manager = of("kube-controller-manager", "controller-manager");
    let scheduler = of("kube-scheduler", "scheduler");
    let task = manager.restart(
        "kubeadm certificate controller manager",
        "Restart the controller manager, which reads its kubeconfig only when it starts",
        task.step(serves),
    );
    scheduler.restart(
        "kubeadm certificate scheduler",
        "Restart the scheduler, which reads its kubeconfig only when it starts",
        task,
    )
}

/// A running container, as `crictl ps -o json` prints it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    id: String,
    metadata: Named,
    labels: Labels,
    /// In nanoseconds since 1970.
    created_at: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "io.kubernetes.pod.name")]
    pod: String,
}

#[derive(Deserialize)]
struct Containers {
    containers: Vec<Container>,
}

/// A program that does not run with its present files.
#[derive(Debug, PartialEq, Eq)]
struct Outdated {
    name: &'static str,
    /// Its running containers that started before its files changed.
    containers: Vec<String>,
}

impl Outdated {
    fn reason(&self) -> String {
        let name = self.name;
        if self.containers.is_empty() {
            format!("no container of {name} runs")
        } else {
            format!("{name} started before its files changed")
        }
    }
}

impl Container {
    /// Returns whether it is the main container of a static pod on a host, to whose name the kubelet adds that of the node. The
    /// second pod of kube-vip has the container of the first one.
    fn is_of(&self, pod: &str, host: &HostName) -> bool {
        pod.starts_with(&self.metadata.name) && self.labels.pod == format!("{pod}-{host}")
    }

    /// Returns whether it was created after a time in seconds since 1970. Times of files have whole seconds.
    fn is_newer_than(&self, seconds: u64) -> bool {
        let nanoseconds: Option<u64> = self.created_at.parse().ok();
        nanoseconds.is_some_and(|created| created / 1_000_000_000 > seconds)
    }
}

impl Programs {
    /// Adds the step that ends programs whose files have changed, and the one that waits until the kubelet has started them.
    pub(crate) fn restart(self, id: &'static str, title: &'static str, task: Task) -> Task {
        let programs = self.clone();
        let end = EndPrograms {
            id,
            title,
            programs,
        };
        self.restarted(id, task.step(end))
    }

    /// Adds the step that waits until the kubelet has started programs whose files have changed.
    pub(crate) fn restarted(self, id: &'static str, task: Task) -> Task {
        let programs = self;
        task.step(ProgramsRestarted { id, programs })
    }

    async fn look(&self, host: &dyn Host) -> Result<Output, HostError> {
        let files = self.0.iter().flat_map(|(_, files)| files);
        let command = Command::from_script(PROGRAMS.verb("look"), files);
        host.run(command.describe(LOOK).limit(ANSWER)).await
    }

    /// Returns the programs that do not run with their present files, from what [`Self::look`] printed: a line for each file
    /// with the time of its last change, and the containers.
    fn outdated(&self, host: &HostName, printed: &str) -> Result<Vec<Outdated>, StepError> {
        let unreadable =
            || StepError::Other(Message::new(format!("{LOOK}: the output is unreadable")));
        let (times, json) = printed.split_at(printed.find('{').unwrap_or(printed.len()));
        let found: Containers = serde_json::from_str(json).map_err(|_| unreadable())?;
        let mut times = times.lines();
        let mut outdated = Vec::new();
        for (name, files) in &self.0 {
            let mut changed = 0;
            for _ in files {
                let time = times.next().and_then(|line| line.trim().parse().ok());
                changed = time
                    .map(|time: u64| time.max(changed))
                    .ok_or_else(unreadable)?;
            }
            let own = found.containers.iter();
            let own = own.filter(|one| one.is_of(name, host));
            let (new, former): (Vec<_>, Vec<_>) = own.partition(|one| one.is_newer_than(changed));
            if new.is_empty() || !former.is_empty() {
                let containers = former.into_iter().map(|one| one.id.clone()).collect();
                outdated.push(Outdated { name, containers });
            }
        }
        Ok(outdated)
    }

    /// Returns the programs whose containers must end.
    async fn former(&self, host: &dyn Host) -> Result<Vec<Outdated>, StepError> {
        let output = StepError::unless_done(LOOK, self.look(host).await?)?;
        let mut found = self.outdated(host.name(), &output.text())?;
        found.retain(|one| !one.containers.is_empty());
        Ok(found)
    }
}

/// Ends the containers that started before their files changed. A program that does not run reads them when it starts.
struct EndPrograms {
    id: &'static str,
    title: &'static str,
    programs: Programs,
}

impl Describe for EndPrograms {
    fn id(&self) -> String {
        self.id.to_owned()
    }

    fn describe(&self) -> String {
        self.title.to_owned()
    }
}

#[async_trait]
impl Ensure for EndPrograms {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let former = self.programs.former(host).await?;
        Ok(if former.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(reasons(&former))
        })
    }

    /// Ends exactly the containers that it has seen: the kubelet may have started another one since.
    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let former = self.programs.former(context.host).await?;
        let containers = former.into_iter().flat_map(|one| one.containers);
        let command = Command::from_script(PROGRAMS.verb("stop"), containers);
        let command = command.describe(self.title).limit(END);
        StepError::unless_done(self.title, context.host.run(command).await?)?;
        Ok(())
    }
}

fn reasons(outdated: &[Outdated]) -> String {
    let reasons: Vec<String> = outdated.iter().map(Outdated::reason).collect();
    reasons.join("\n")
}

impl From<EndPrograms> for Step {
    fn from(step: EndPrograms) -> Self {
        Self::Ensure(Box::new(step))
    }
}

/// Waits until programs run with their present files. An API server among them must serve its certificate.
struct ProgramsRestarted {
    id: &'static str,
    programs: Programs,
}

impl ProgramsRestarted {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.programs.0.iter().map(|(name, _)| *name)
    }
}

impl Describe for ProgramsRestarted {
    fn id(&self) -> String {
        format!("wait {}", self.id)
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        format!("Wait until these use their new files: {}", names.join(", "))
    }
}

#[async_trait]
impl Wait for ProgramsRestarted {
    fn limit(&self) -> Duration {
        RESTART
    }

    async fn poll(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let output = match self.programs.look(host).await {
            Ok(output) => output,
            Err(error) => return unanswered(error),
        };
        if !output.success() {
            let complaint = output.complaint();
            return Ok(Condition::Unmet(format!("cannot {LOOK}: {complaint}")));
        }
        let outdated = self.programs.outdated(host.name(), &output.text())?;
        if !outdated.is_empty() {
            return Ok(Condition::Unmet(reasons(&outdated)));
        }
        if !self.names().any(|name| name == API_SERVER) {
            return Ok(Condition::Met);
        }
        let serves = Command::from_script(PROGRAMS.verb("serves"), [""; 0]);
        match host
            .run(serves.describe(self.describe()).limit(ANSWER))
            .await
        {
            Ok(output) if output.success() => Ok(Condition::Met),
            Ok(_) => Ok(Condition::Unmet(format!(
                "{API_SERVER} is not ready with its new certificate"
            ))),
            Err(error) => unanswered(error),
        }
    }

    fn about(&self) -> About {
        About::OwnKubelet
    }

    async fn diagnose(&self, host: &dyn Host) -> Result<String, StepError> {
        diagnosis(host, &PROGRAMS.verb("logs").with(self.names())).await
    }
}

impl From<ProgramsRestarted> for Step {
    fn from(step: ProgramsRestarted) -> Self {
        Self::Wait(Box::new(step))
    }
}

#[cfg(test)]
mod tests;
