//! Have a systemd unit enabled and running with its current files.

use async_trait::async_trait;

use super::{Undo, ask, must};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host};
use kubexm_types::HostPath;

/// A unit that shall be enabled and, unless `start` is false, run with what its files say now.
pub struct ManageUnit {
    /// The unit, as in `containerd.service`.
    pub name: String,
    /// Files that the unit reads when it starts. It is restarted where their content is not that
    /// of the last start, even if an earlier run was killed in between.
    pub files: Vec<HostPath>,
    /// Whether it shall run now.
    pub start: bool,
}

/// Prints a stamp over the unit's files.
const STAMP: &str = r#"
unit=$1 start=$2
shift 2
stamp=$(cat "$@" 2>/dev/null | sha256sum | cut -d' ' -f1)
mark=/var/lib/kubexm/started/$unit
"#;
const CHECK: &str = r#"
systemctl is-enabled --quiet "$unit" 2>/dev/null || { echo "is not enabled"; exit 1; }
[ "$start" = yes ] || exit 0
systemctl is-active --quiet "$unit" || { echo "does not run"; exit 1; }
[ "$(cat "$mark" 2>/dev/null)" = "$stamp" ] || { echo "runs with older files"; exit 1; }
"#;
const APPLY: &str = r#"
systemctl daemon-reload
systemctl enable --quiet "$unit"
[ "$start" = yes ] || exit 0
if ! systemctl restart "$unit"; then
  journalctl -u "$unit" -n 20 --no-pager -o cat >&2 || :
  exit 1
fi
mkdir -p "$(dirname "$mark")"
echo "$stamp" >"$mark"
"#;
const UNDO: &str = r#"
systemctl disable --quiet --now "$1" 2>/dev/null || :
systemctl reset-failed "$1" 2>/dev/null || :
"#;

impl ManageUnit {
    fn command(&self, script: &str) -> Command {
        let start = if self.start { "yes" } else { "no" };
        let files = self.files.iter().map(ToString::to_string);
        let arguments = [self.name.clone(), start.to_owned()]
            .into_iter()
            .chain(files);
        Command::script(format!("{STAMP}{script}"), arguments)
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
        ask(host, format!("check {}", self.name), self.command(CHECK)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let undo = Undo::Script {
            title: format!("Stop {}", self.name),
            script: UNDO.to_owned(),
            arguments: vec![self.name.clone()],
        };
        context.undo.record(&self.id(), undo.to_value()?).await?;
        must(context.host, &self.describe(), self.command(APPLY))
            .await
            .map(|_| ())
    }
}
