//! Run a long command once, whatever happens to the one who started it.

use async_trait::async_trait;

use super::input::{LateInput, RECEIVE};
use super::{Undo, ask, look_for_mark, must};
use crate::plan::{
    Check, Describe, Ensure, FileContent, PlannedFile, Step, StepContext, StepError,
};
use kubexm_host::{Command, Host, Input};
use kubexm_types::HostPath;

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

/// Where the process group of what runs under the lock is written down. What was started does not
/// hold the lock itself: a daemon that it leaves behind would hold it for good.
const GROUP: &str = "group=/run/kubexm/once.group\n";
/// Says by its status whether what an earlier guard started is still running.
const IS_RUNNING: &str = r#"
is_running() { [ -s "$group" ] && kill -s 0 -- "-$(cat "$group")" 2>/dev/null; }
"#;
/// Arguments: id, command, cleanup, path of the input or nothing. The input is read first: it must
/// not be lost while waiting. Output goes to a file: writing to a connection that broke would kill
/// the command.
const GUARD: &str = r#"
id=$1 command=$2 cleanup=$3 place=$4
run() {
  (exec setsid --wait sh -euc 'echo $$ >"$2"; INPUT=$3 exec sh -euc "$1"' \
    kubexm "$1" "$group" "$input" >/run/kubexm/once.log 2>&1 9>&-)
}
tell() { tail -c 8000 /run/kubexm/once.log >&2; }
(umask 077; mkdir -p /var/lib/kubexm/done)
exec 9>/run/kubexm/once.lock
flock -w 600 9 || { echo "an earlier run of it is still going on after 10 minutes" >&2; exit 1; }
done=/var/lib/kubexm/done/$id
[ ! -e "$done" ] || exit 0
# A guard that was killed has let go of the lock, but what it started may still run.
left=600
while is_running; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || {
    echo "process group $(cat "$group") of an earlier run is still there after 10 minutes" >&2
    exit 1
  }
  sleep 1
done
if [ -e "$done.begun" ]; then
  run "$cleanup" || { tell; echo "cannot clean up after the try before it" >&2; exit 1; }
fi
: >"$done.begun"
sync "$done.begun" 2>/dev/null || sync
if [ -n "$place" ]; then mv "$input" "$place"; input=$place; fi
run "$command" || {
  status=$?
  tell
  exit "$status"
}
mv "$done.begun" "$done"
"#;
/// Ends what a killed install left running: what it does is about to be taken back.
const END: &str = r#"
lock=/run/kubexm/once.lock left=60 signal=TERM
[ -e "$lock" ] || exit 0
until flock -n "$lock" true && ! is_running; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "a command of an earlier run does not end" >&2; exit 1; }
  [ "$left" -gt 40 ] || signal=KILL
  ! is_running || kill -s "$signal" -- "-$(cat "$group")" 2>/dev/null || :
  sleep 1
done
"#;

impl Describe for RunOnce {
    fn id(&self) -> String {
        format!("once {}", self.id)
    }

    fn describe(&self) -> String {
        match &self.input {
            Some(input) => format!("{} with {}", self.title, input.path),
            None => self.title.clone(),
        }
    }

    fn files(&self) -> Vec<PlannedFile> {
        let input = self.input.iter();
        input
            .map(|input| PlannedFile {
                path: input.path.clone(),
                mode: 0o600,
                content: FileContent::Late(input.preview.clone()),
            })
            .collect()
    }
}

impl From<RunOnce> for Step {
    fn from(step: RunOnce) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RunOnce {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let action = format!("check: {}", self.title);
        ask(host, action, look_for_mark(&self.id)).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        // The last record is the first to be taken back.
        let end = Undo::Script {
            title: format!("End what is left of: {}", self.title),
            script: format!("{GROUP}{IS_RUNNING}{END}"),
            arguments: Vec::new(),
        };
        for undo in self.undo.iter().chain([&end]) {
            context
                .undo
                .record(&Describe::id(self), undo.to_value()?)
                .await?;
        }
        let (input, place) = match &self.input {
            Some(file) => ((file.content)()?, file.path.to_string()),
            None => (Vec::new(), String::new()),
        };
        let script = format!("size={}\n{RECEIVE}{GROUP}{IS_RUNNING}{GUARD}", input.len());
        let arguments = [&self.id, &self.command, &self.cleanup, &place].map(Clone::clone);
        let command = Command::script(script, arguments).input(Input::Bytes(input));
        must(context.host, &self.title, command).await.map(|_| ())
    }
}
