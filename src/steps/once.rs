//! Run a long command once, whatever happens to the one who started it.

use async_trait::async_trait;

use super::script::LateInput;
use super::{Undo, must};
use crate::host::{Command, Input};
use crate::plan::{Check, RenderedFile, Step, StepContext, StepError};
use crate::spec::HostPath;

/// A command that is neither idempotent nor quick, such as `kubeadm init`.
///
/// The command goes on when the connection breaks. The next run waits for it under the same lock,
/// finds its mark if it came through, and cleans up after it if it did not.
pub struct RunOnce {
    /// Name of its mark.
    pub id: String,
    /// What it does, in words.
    pub title: String,
    /// POSIX shell; `$INPUT` is the path of its input file.
    pub command: String,
    /// What it reads; kept out of arguments since it may be secret.
    pub input: Option<InputFile>,
    /// Takes back what a failed try left; must succeed before the next.
    pub cleanup: String,
    /// How it is taken back by a reset.
    pub undo: Vec<Undo>,
}

/// A file that is on the host only while the command runs, and only for root.
pub struct InputFile {
    /// Where.
    pub path: HostPath,
    /// Its text with words in angle brackets in place of secrets.
    pub preview: String,
    /// Makes its bytes when the command is about to run.
    pub content: LateInput,
}

/// Arguments: id, command, cleanup, input path or nothing. The input is read first: it must not be lost while waiting.
const GUARD: &str = r#"
id=$1 command=$2 cleanup=$3 place=$4
umask 077
mkdir -p /var/lib/kubexm/done /run/kubexm
input=$(mktemp /run/kubexm/input-XXXXXX)
trap 'rm -f "$input"' EXIT
cat >"$input"
exec 9>/run/kubexm/once.lock
flock -w 600 9 || { echo "an earlier run of it is still going on after 10 minutes" >&2; exit 1; }
done=/var/lib/kubexm/done/$id
[ ! -e "$done" ] || exit 0
if [ -e "$done.begun" ]; then
  sh -euc "$cleanup" 9>&- || { echo "cannot clean up after the try before it" >&2; exit 1; }
fi
: >"$done.begun"
if [ -n "$place" ]; then mv "$input" "$place"; input=$place; fi
# Into a file: a pipe whose reader is gone would end the command when it complains.
log=/run/kubexm/$id.log
status=0
(umask 022; INPUT=$input sh -euc "$command" 9>&- ) 2>"$log" || status=$?
if [ "$status" != 0 ]; then tail -c 8000 "$log" >&2; exit "$status"; fi
mv "$done.begun" "$done"
"#;

#[async_trait]
impl Step for RunOnce {
    fn id(&self) -> String {
        format!("once {}", self.id)
    }

    fn describe(&self) -> String {
        match &self.input {
            Some(input) => format!("{} with {}", self.title, input.path),
            None => self.title.clone(),
        }
    }

    fn files(&self) -> Vec<RenderedFile> {
        let input = self.input.iter();
        input
            .map(|input| RenderedFile {
                path: input.path.clone(),
                mode: 0o600,
                content: input.preview.clone(),
            })
            .collect()
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
        let (input, place) = match &self.input {
            Some(file) => (Input::Bytes((file.content)()?), file.path.to_string()),
            None => (Input::None, String::new()),
        };
        let arguments = [&self.id, &self.command, &self.cleanup, &place].map(Clone::clone);
        let command = Command::script(GUARD, arguments).input(input);
        must(context, &self.title, command).await.map(|_| ())
    }
}
