//! Run a long command once, whatever happens to the one who started it.

use async_trait::async_trait;

use super::script::LateInput;
use super::{Undo, must};
use crate::host::{Command, Input};
use crate::plan::{Check, Step, StepContext, StepError};

/// A command that is neither idempotent nor quick, such as `kubeadm init`.
///
/// The command goes on when the connection breaks. The next run waits for it under the same lock,
/// finds its mark if it came through, and cleans up after it if it did not.
pub struct RunOnce {
    /// Name of its mark.
    pub id: String,
    /// What it does, in words.
    pub title: String,
    /// POSIX shell.
    pub command: String,
    /// What it reads; kept out of arguments since it may be secret.
    pub input: Option<LateInput>,
    /// Takes back what a failed try left.
    pub cleanup: String,
    /// How it is taken back by a reset.
    pub undo: Vec<Undo>,
}

/// Arguments: id, command, cleanup. The input is read first: it must not be lost while waiting.
const GUARD: &str = r#"
id=$1 command=$2 cleanup=$3
umask 077
mkdir -p /var/lib/kubexm/done /run/kubexm
input=$(mktemp /run/kubexm/input-XXXXXX)
trap 'rm -f "$input"' EXIT
cat >"$input"
exec 9>/run/kubexm/once.lock
flock -w 600 9 || { echo "an earlier run of it is still going on after 10 minutes" >&2; exit 1; }
done=/var/lib/kubexm/done/$id
[ ! -e "$done" ] || exit 0
if [ -e "$done.begun" ]; then sh -euc "$cleanup" 9>&- || :; fi
: >"$done.begun"
(umask 022; INPUT=$input sh -euc "$command" 9>&- )
mv "$done.begun" "$done"
"#;

#[async_trait]
impl Step for RunOnce {
    fn id(&self) -> String {
        format!("once {}", self.id)
    }

    fn describe(&self) -> String {
        self.title.clone()
    }

    async fn check(&self, context: &StepContext<'_>) -> Result<Check, StepError> {
        let command = Command::script("test -e \"/var/lib/kubexm/done/$1\"", [self.id.clone()]);
        let output = context
            .host
            .run(command.describe(format!("check: {}", self.title)))
            .await?;
        Ok(match output.success() {
            true => Check::Satisfied,
            false => Check::Needed("has not been done".to_owned()),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        for undo in &self.undo {
            context
                .undo
                .record(&Step::id(self), undo.to_value()?)
                .await?;
        }
        let input = match &self.input {
            Some(input) => Input::Bytes(input()?),
            None => Input::None,
        };
        let arguments = [self.id.clone(), self.command.clone(), self.cleanup.clone()];
        let command = Command::script(GUARD, arguments).input(input);
        must(context, &self.title, command).await.map(|_| ())
    }
}
