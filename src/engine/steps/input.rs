//! Input that a script gets whole or not at all.

use std::sync::Arc;

use crate::plan::StepError;
use kubexm_host::{Command, Input};

/// Makes bytes for a script's standard input when it runs; they may be secret.
pub type LateInput = Arc<dyn Fn() -> Result<Vec<u8>, StepError> + Send + Sync>;

/// Receives `$size` bytes into `$input`, a file of root's alone in memory. When the connection
/// breaks, the script's standard input just ends: only the size tells half from all.
pub(super) const RECEIVE: &str = r#"
mask=$(umask)
umask 077
mkdir -p /run/kubexm
# What a killed script left here may be secret.
for old in /run/kubexm/input-*; do
  [ ! -e "$old" ] || kill -0 "${old##*-}" 2>/dev/null || rm -f "$old"
done
input=/run/kubexm/input-$$
trap 'rm -f "$input"' EXIT
cat >"$input"
got=$(wc -c <"$input")
[ "$got" -eq "$size" ] || { echo "only $got of $size bytes of its input arrived" >&2; exit 1; }
umask "$mask"
"#;
/// Makes `$input` the standard input of what follows.
const READ: &str = r#"
exec <"$input"
rm -f "$input"
trap - EXIT
"#;

/// A script that runs only when all of `input` has arrived.
pub(super) fn script_with_input(
    script: &str,
    arguments: Vec<String>,
    input: Option<&LateInput>,
) -> Result<Command, StepError> {
    let Some(input) = input else {
        return Ok(Command::script(script, arguments));
    };
    let bytes = input()?;
    let size = bytes.len();
    let script = format!("size={size}\n{RECEIVE}{READ}{script}");
    Ok(Command::script(script, arguments).input(Input::Bytes(bytes)))
}
