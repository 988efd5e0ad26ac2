//! Keeps a systemd unit enabled and running with the current content of its files.

use std::time::Duration;

use async_trait::async_trait;

use super::{Undo, run_check, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host, Limit};
use kubexm_scripts::undo::UNIT_STOP;
use kubexm_scripts::{Parameters, systemd};
use kubexm_types::HostPath;

/// How long a unit may take to stop and to start. A runtime reads all of its containers before it is ready.
const START: Limit = Limit::new(Duration::from_secs(600), "starts of units");

/// A unit that must be enabled and, unless `start` is false, run with the current content of its files.
pub struct ManageUnit {
    /// The name of the unit, as in `containerd.service`.
    pub name: String,
    /// Files that the unit reads when it starts. The step restarts the unit if their content differs from
    /// the content at its last start, even if an earlier run was killed in between.
    pub files: Vec<HostPath>,
    /// The file for which a reload is sufficient; `None` if the unit has none.
    pub reload: Option<Reload>,
    /// Whether the unit must run now.
    pub start: bool,
}

/// A file that a unit reads again after `systemctl reload`, without an interruption of its service.
pub struct Reload {
    /// The file.
    pub file: HostPath,
    /// A command of the shell that fails if the unit cannot read the file. It runs before a reload only: systemd does not
    /// report that a program refused its new configuration.
    pub test: String,
}

impl ManageUnit {
    fn command(&self, verb: &'static str) -> Command {
        let files = self.files.iter().map(ToString::to_string);
        let (config, test) = match &self.reload {
            Some(reload) => (reload.file.to_string(), reload.test.clone()),
            None => Default::default(),
        };
        let arguments = systemd::Unit {
            unit: self.name.clone(),
            start: if self.start { "yes" } else { "no" }.to_owned(),
            config,
            test,
        };
        Command::from_script(systemd::UNIT.verb(verb), arguments.and(files))
    }
}

impl Describe for ManageUnit {
    fn id(&self) -> String {
        format!("unit {}", self.name)
    }

    fn describe(&self) -> String {
        let verb = if self.start { "Start" } else { "Enable" };
        format!("{verb} {}", self.name)
    }
}

impl From<ManageUnit> for Step {
    fn from(step: ManageUnit) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for ManageUnit {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        run_check(host, format!("check {}", self.name), self.command("check")).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let undo = Undo::run(UNIT_STOP, [self.name.clone()]);
        context.undo.record(&self.id(), undo.to_value()?).await?;
        // A unit may have TimeoutStartSec=0, so that systemd waits for it without a limit.
        let command = self.command("apply").limit(START);
        run_command(context.host, &self.describe(), command)
            .await
            .map(|_| ())
    }
}
