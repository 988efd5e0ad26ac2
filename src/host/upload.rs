//! Files onto a host: whole, checked, and under their final name only then.

use super::{Command, Host, HostError, Input, Output};
use kubexm_types::{Digest, HostPath};

/// Writes to a temporary name beside the target, compares the digest, then renames.
const SCRIPT: &str = r#"
path=$1 mode=$2 digest=$3
folder=$(dirname "$path")
(umask 022; mkdir -p "$folder")
umask 077
# With a dot in front, since the kubelet and others read all else in some folders; with the file's
# own name, since a reset after a power cut must know whose it is.
partial=$(mktemp "$folder/.$(basename "$path").kubexm-XXXXXX")
trap 'rm -f "$partial"' EXIT
cat >"$partial"
got=$(sha256sum "$partial" | cut -d' ' -f1)
if [ "$got" != "$digest" ]; then
  echo "what arrived for $path has the digest $got, not $digest" >&2
  exit 1
fi
chmod "$mode" "$partial"
mv -f "$partial" "$path"
trap - EXIT
if command -v restorecon >/dev/null; then restorecon "$path" || :; fi
"#;

/// Puts a file onto a host. The output's status says whether it is there.
pub async fn upload(
    host: &dyn Host,
    path: &HostPath,
    mode: u32,
    digest: &Digest,
    content: Input,
) -> Result<Output, HostError> {
    let arguments = [path.to_string(), format!("{mode:o}"), digest.hex()];
    let command = Command::script(SCRIPT, arguments).input(content);
    host.run(command.describe(format!("write {path}"))).await
}
