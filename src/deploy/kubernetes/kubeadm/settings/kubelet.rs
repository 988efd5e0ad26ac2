//! The settings of a kubelet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Deserializer, Value};

use kubexm_engine::plan::{Check, Condition, Describe, Ensure, Step, StepContext, StepError, Task};
use kubexm_engine::steps::{POLL, unanswered};
use kubexm_engine::{Host, HostError, Limit};
use kubexm_scripts::Parameters;
use kubexm_scripts::kubeadm::Settings;

use super::confirmed::{Confirmed, Undoable, Works, interrupted};
use super::look::{Changed, FORMERS, Generated, call, is_ready, needed};

/// How long a kubelet may take until it has renewed its lease.
const HEALTHY: Duration = Duration::from_secs(120);
const TITLE: &str = "Apply the kubelet's settings";

/// The change of the files of a kubelet.
pub(super) struct Kubelet {
    node: String,
    config: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether this run changes the files, or goes on with a change.
    is_pending: bool,
    wanted: Vec<Changed>,
    /// All files that kubeadm generates.
    paths: Vec<String>,
    /// Whether the node was ready before.
    was_ready: bool,
    /// When the kubelet restarted, as RFC 3339 without a zone, in UTC.
    restarted: String,
}

/// A sign of life of a kubelet.
#[derive(Debug, PartialEq, Eq)]
struct Life {
    is_active: bool,
    /// When it renewed its lease last.
    renewed: String,
    is_ready: bool,
}

impl Life {
    /// Parses the state of the unit, a lease and a node.
    fn parse(text: &str) -> Option<Self> {
        let (state, objects) = text.split_once('\n')?;
        let mut objects = Deserializer::from_str(objects).into_iter::<Value>();
        let (lease, node) = (objects.next()?.ok()?, objects.next()?.ok()?);
        Some(Self {
            is_active: state == "active",
            renewed: lease["spec"]["renewTime"].as_str()?.to_owned(),
            is_ready: is_ready(&node),
        })
    }

    /// Returns whether the kubelet that started at this time works, and its node is as ready as before.
    fn is_healthy(&self, restarted: &str, was_ready: bool) -> bool {
        self.is_active && self.renewed.as_str() >= restarted && (self.is_ready || !was_ready)
    }
}

impl Kubelet {
    fn new(node: &str, config: String) -> Arc<Self> {
        Arc::new(Self {
            node: node.to_owned(),
            config,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn life(&self, host: &dyn Host) -> Result<Option<Life>, HostError> {
        let of_node = Settings {
            node: self.node.clone(),
            ..Settings::default()
        };
        let output = call(host, TITLE, "life", POLL, of_node).await?;
        Ok(output
            .success()
            .then(|| Life::parse(&output.text()))
            .flatten())
    }

    /// Compares the files. `restarts` is whether a kubelet that an earlier run has not confirmed must restart.
    async fn compare(&self, host: &dyn Host, restarts: bool) -> Result<Check, StepError> {
        let former = self.places().former;
        let generated = Generated::KUBELET;
        let look = generated.look(host, TITLE, &self.config, former).await?;
        let mut state = self.state();
        state.is_pending = look.has_former;
        state.wanted = generated.changed(&look);
        state.paths = generated.paths(&look);
        let is_interrupted = look.has_former && restarts && state.restarted.is_empty();
        let interrupted = is_interrupted.then(|| interrupted(self));
        Ok(needed(interrupted, &state.wanted))
    }

    /// Replaces the files that differ, and keeps the former ones.
    async fn write(&self, host: &dyn Host) -> Result<(), StepError> {
        let done = |output| StepError::unless_done(TITLE, output);
        let (wanted, paths) = {
            let state = self.state();
            (state.wanted.clone(), state.paths.clone())
        };
        let former = Settings {
            former: self.places().former,
            ..Settings::default()
        };
        let parameters = former.clone().and(paths);
        done(call(host, TITLE, "save", Limit::DEFAULT, parameters).await?)?;
        for file in wanted {
            let parameters = Settings {
                path: file.path,
                content: file.content,
                ..former.clone()
            };
            done(call(host, TITLE, "put", Limit::DEFAULT, parameters).await?)?;
        }
        Ok(())
    }

    async fn restart(&self, host: &dyn Host) -> Result<(), StepError> {
        let output = call(host, TITLE, "restart", Limit::CHANGE, Settings::default()).await?;
        let output = StepError::unless_done(TITLE, output)?;
        self.state().restarted = output.text().trim().to_owned();
        Ok(())
    }
}

#[async_trait]
impl Undoable for Kubelet {
    fn program(&self) -> &'static str {
        "the kubelet"
    }

    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn goal(&self) -> &'static str {
        "healthy"
    }

    fn places(&self) -> Settings {
        Settings {
            former: format!("{}/kubelet", FORMERS),
            path: Generated::KUBELET.folder.to_owned(),
            ..Settings::default()
        }
    }

    fn is_pending(&self) -> bool {
        self.state().is_pending
    }

    fn limit(&self) -> Duration {
        HEALTHY
    }

    async fn begin_again(&self, host: &dyn Host) -> Result<(), StepError> {
        self.restart(host).await
    }

    /// The kubelet has renewed its lease.
    async fn condition(&self, host: &dyn Host) -> Result<Condition, StepError> {
        let life = match self.life(host).await {
            Ok(life) => life,
            Err(error) => return unanswered(error),
        };
        let state = self.state();
        let is_healthy = |life: Life| life.is_healthy(&state.restarted, state.was_ready);
        Ok(if life.is_some_and(is_healthy) {
            Condition::Met
        } else {
            Condition::Unmet("the kubelet is not healthy".to_owned())
        })
    }
}

/// Adds the steps that apply the settings of the kubelet of a node.
pub(in super::super) fn of_kubelet(node: &str, config: String, task: Task) -> Task {
    let kubelet = Kubelet::new(node, config);
    let written = Written {
        kubelet: Arc::clone(&kubelet),
        restarts: true,
    };
    task.step(written)
        .step(Works(Arc::clone(&kubelet)))
        .step(Confirmed(kubelet))
}

/// Returns the step that writes them into its files, before another step restarts it.
pub(in super::super) fn files_of_kubelet(node: &str, config: String) -> impl Into<Step> {
    Written {
        kubelet: Kubelet::new(node, config),
        restarts: false,
    }
}

/// Writes the files of a kubelet.
struct Written {
    kubelet: Arc<Kubelet>,
    /// Whether it restarts the kubelet, too.
    restarts: bool,
}

impl Describe for Written {
    fn id(&self) -> String {
        let id = if self.restarts {
            "kubelet settings"
        } else {
            "kubelet files"
        };
        id.to_owned()
    }

    fn describe(&self) -> String {
        let title = if self.restarts {
            TITLE
        } else {
            "Write the kubelet's settings, which it reads when it starts"
        };
        title.to_owned()
    }
}

#[async_trait]
impl Ensure for Written {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        self.kubelet.compare(host, self.restarts).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (kubelet, host) = (&*self.kubelet, context.host);
        if !self.restarts {
            return kubelet.write(host).await;
        }
        let was = kubelet.life(host).await?;
        kubelet.state().was_ready = was.is_some_and(|life| life.is_ready);
        kubelet.state().is_pending = true;
        kubelet.write(host).await?;
        kubelet.restart(host).await
    }
}

impl From<Written> for Step {
    fn from(step: Written) -> Self {
        Self::Ensure(Box::new(step))
    }
}
