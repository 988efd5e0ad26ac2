//! The settings of a static pod.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use kubexm_engine::plan::{Check, Condition, Describe, Ensure, Step, StepContext, StepError, Task};
use kubexm_engine::steps::{POLL, unanswered};
use kubexm_engine::{Host, HostError, Limit, Output};
use kubexm_scripts::kubeadm::Settings;

use super::confirmed::{Confirmed, Undoable, Works};
use super::look::{Changed, FORMERS, Generated, MANIFESTS, call, is_ready, needed};
use crate::kubernetes::kubeadm::restarts::API_SERVER;

/// How long a program may take until it is ready.
const READY: Duration = Duration::from_secs(300);
/// A manifest of the same meaning has the same hash, so its pod is not replaced: after this time, in seconds, the kubelet has
/// read it.
const READ: u64 = 40;
/// How often a container fails until kubexm does not wait for it any more, and the age of its manifest in seconds.
const FAILURES: (u64, u64) = (3, 20);

/// A program that kubeadm runs as a static pod.
#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Words of the phase of `kubeadm init` that generates its manifest.
    pub(super) phase: &'static str,
}

pub(super) const PROGRAMS: [Program; 3] = [
    Program {
        name: API_SERVER,
        phase: "control-plane apiserver",
    },
    Program {
        name: "kube-controller-manager",
        phase: "control-plane controller-manager",
    },
    Program {
        name: "kube-scheduler",
        phase: "control-plane scheduler",
    },
];

/// The change of the manifest of a program.
pub(super) struct StaticPod {
    program: Program,
    node: String,
    config: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether this run changes the manifest, or goes on with a change.
    is_pending: bool,
    wanted: Option<Changed>,
    /// The hash of the former manifest; `None` if an earlier run has replaced it.
    former: Option<String>,
}

/// Adds the steps that apply the settings of a program, wait for it, and keep its former manifest.
pub(super) fn applied(program: Program, node: &str, config: &str, task: Task) -> Task {
    let pod = Arc::new(StaticPod {
        program,
        node: node.to_owned(),
        config: config.to_owned(),
        state: Mutex::default(),
    });
    task.step(Written(Arc::clone(&pod)))
        .step(Works(Arc::clone(&pod)))
        .step(Confirmed(pod))
}

impl StaticPod {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn title(&self) -> String {
        format!("Apply the settings of {}", self.program.name)
    }

    fn of_name(&self) -> Settings {
        Settings {
            name: self.program.name.to_owned(),
            node: self.node.clone(),
            path: self.places().path,
            ..Settings::default()
        }
    }

    async fn ask(&self, host: &dyn Host, verb: &'static str) -> Result<Output, HostError> {
        call(host, &self.title(), verb, POLL, self.of_name()).await
    }

    /// Returns the hash of the manifest that the kubelet runs, if the program is ready with it.
    async fn ready_hash(&self, host: &dyn Host) -> Result<Option<String>, HostError> {
        let is_api_server = self.program.name == API_SERVER;
        if is_api_server && !self.ask(host, "readyz").await?.success() {
            return Ok(None);
        }
        let pod = pod(&self.ask(host, "pod").await?.text());
        Ok(pod.filter(|(_, is_ready)| *is_ready).map(|(hash, _)| hash))
    }

    async fn latest(&self, host: &dyn Host) -> Result<Option<Latest>, HostError> {
        let output = self.ask(host, "latest").await?;
        Ok(Latest::parse(&output.text()))
    }

    /// Returns whether the program is ready with its present manifest.
    async fn settled(&self, host: &dyn Host) -> Result<Condition, HostError> {
        let former = self.state().former.clone();
        let hash = self.ready_hash(host).await?;
        let is_replaced = |hash: &String| former.as_ref().is_some_and(|former| former != hash);
        if hash.as_ref().is_some_and(is_replaced) {
            return Ok(Condition::Met);
        }
        let latest = self.latest(host).await?;
        if hash.is_some() && latest.as_ref().is_some_and(|latest| latest.age > READ) {
            return Ok(Condition::Met);
        }
        let name = self.program.name;
        Ok(if latest.is_some_and(|latest| latest.fails()) {
            Condition::Failed(format!("{name} ends again and again"))
        } else {
            Condition::Unmet(format!("{name} is not ready"))
        })
    }
}

/// Returns the hash of the manifest of a pod, and whether the pod is ready.
fn pod(json: &str) -> Option<(String, bool)> {
    let pod: Value = serde_json::from_str(json).ok()?;
    let hash = pod["metadata"]["annotations"]["kubernetes.io/config.hash"].as_str()?;
    Some((hash.to_owned(), is_ready(&pod)))
}

/// The age of a manifest, and the latest container of its program.
#[derive(Debug, PartialEq, Eq)]
struct Latest {
    /// In seconds.
    age: u64,
    /// How often the container has restarted; `None` if it is older than the manifest, or if there is none.
    attempt: Option<u64>,
}

impl Latest {
    /// Parses the present time, the time of the manifest, and a list of crictl, which may be missing.
    fn parse(text: &str) -> Option<Self> {
        let (times, json) = text.split_at(text.find('{').unwrap_or(text.len()));
        let mut times = times.lines().map(|line| line.trim().parse::<u64>());
        let (now, changed) = (times.next()?.ok()?, times.next()?.ok()?);
        let found: Value = serde_json::from_str(json).unwrap_or_default();
        let container = &found["containers"][0];
        let created: Option<u64> = container["createdAt"]
            .as_str()
            .and_then(|text| text.parse().ok());
        // The former pod runs on until it has answered its requests, and may have restarted often, too.
        let is_new = created.is_some_and(|created| created / 1_000_000_000 >= changed);
        let attempt = container["metadata"]["attempt"].as_u64();
        Some(Self {
            age: now.saturating_sub(changed),
            attempt: attempt.filter(|_| is_new),
        })
    }

    /// Returns whether the new container has failed again and again.
    fn fails(&self) -> bool {
        self.attempt.is_some_and(|attempt| attempt >= FAILURES.0) && self.age > FAILURES.1
    }
}

#[async_trait]
impl Undoable for StaticPod {
    fn program(&self) -> &'static str {
        self.program.name
    }

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn goal(&self) -> &'static str {
        "ready"
    }

    fn places(&self) -> Settings {
        let file = format!("{}.yaml", self.program.name);
        Settings {
            former: format!("{}/control-plane/{file}", FORMERS),
            path: format!("{}/{file}", MANIFESTS),
            ..Settings::default()
        }
    }

    fn is_pending(&self) -> bool {
        self.state().is_pending
    }

    fn limit(&self) -> Duration {
        READY
    }

    async fn begin_again(&self, _: &dyn Host) -> Result<(), StepError> {
        Ok(())
    }

    async fn condition(&self, host: &dyn Host) -> Result<Condition, StepError> {
        self.settled(host).await.or_else(unanswered)
    }

    async fn works_again(&self, host: &dyn Host) -> Result<bool, StepError> {
        match self.ready_hash(host).await {
            Ok(hash) => Ok(hash.is_some()),
            Err(error) => unanswered(error).map(|_| false),
        }
    }
}

/// Writes the manifest.
struct Written(Arc<StaticPod>);

impl Describe for Written {
    fn id(&self) -> String {
        format!("{} settings", self.0.program.name)
    }

    fn describe(&self) -> String {
        self.0.title()
    }
}

#[async_trait]
impl Ensure for Written {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let pod = &*self.0;
        let former = pod.places().former;
        let generated = Generated {
            phase: pod.program.phase,
            folder: MANIFESTS,
        };
        let look = generated
            .look(host, &self.describe(), &pod.config, former)
            .await?;
        let wanted = generated.changed(&look).into_iter().next();
        let check = needed(None, wanted.as_slice());
        let mut state = pod.state();
        state.is_pending = look.has_former;
        state.wanted = wanted;
        Ok(check)
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (pod, title) = (&*self.0, self.describe());
        pod.state().is_pending = true;
        let Some(wanted) = pod.state().wanted.clone() else {
            return Ok(());
        };
        let former = self::pod(&pod.ask(context.host, "pod").await?.text()).map(|(hash, _)| hash);
        let parameters = Settings {
            content: wanted.content,
            ..pod.places()
        };
        let put = call(context.host, &title, "put", Limit::DEFAULT, parameters).await?;
        StepError::unless_done(&title, put)?;
        pod.state().former = former;
        Ok(())
    }
}

impl From<Written> for Step {
    fn from(step: Written) -> Self {
        Self::Ensure(Box::new(step))
    }
}
