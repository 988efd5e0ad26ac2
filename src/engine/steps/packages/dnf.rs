//! Red Hat and its kin: rpm and dnf.

use super::Manager;

/// Installs with dnf.
pub(super) const DNF: Manager = Manager {
    name: "dnf",
    check: CHECK,
    functions: FUNCTIONS,
    simulate: SIMULATE,
    install: INSTALL,
    undo: UNDO,
};

/// A name may be one that packages provide, as `iptables` is by `iptables-nft`.
const CHECK: &str = r#"
missing=
for name in "$@"; do
  rpm -q --quiet --whatprovides "$name" || missing="$missing $name"
done
[ -z "$missing" ] || { echo "lacks$missing"; exit 1; }
"#;

/// dnf with settings of its own: the host's repositories, caches, plugins (which may want to talk to
/// a subscription server) and exclusions stay out of it. Its repository needs no signature here:
/// what is in it came through the bundle, and its packages are compared with their digests before
/// dnf sees them. `module_hotfixes`: this repository says nothing of modules, and dnf would hide
/// packages that belong to one.
const FUNCTIONS: &str = r#"
digest=$1 size=$2
shift 2
base=/var/lib/kubexm/packages
command -v dnf >/dev/null || { echo "this host has no dnf to install packages with" >&2; exit 1; }
mkdir -p /run/kubexm
# A killed install leaves its dnf running on the host: it is waited for, never raced.
exec 9>/run/kubexm/packages.lock
flock -w 600 9 || { echo "an earlier run's dnf is still going on after 10 minutes" >&2; exit 1; }
run_dnf() { LC_ALL=C dnf --config="$base/dnf.conf" "$@"; }
"#;

/// Of the table that dnf prints, only this is looked at: name, architecture and version stand before
/// the repository's name, however the lines are broken.
const SIMULATE: &str = r#"
rm -rf "$base"
mkdir -p "$base/repodata" "$base/repos" "$base/log"
cat >"$base/repodata/primary.xml"
cat >"$base/repodata/repomd.xml" <<END
<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo">
<revision>0</revision>
<data type="primary">
<checksum type="sha256">$digest</checksum>
<open-checksum type="sha256">$digest</open-checksum>
<location href="repodata/primary.xml"/>
<timestamp>0</timestamp>
<size>$size</size>
<open-size>$size</open-size>
</data>
</repomd>
END
cat >"$base/repos/bundle.repo" <<END
[kubexm-bundle]
name=kubexm bundle
baseurl=file://$base
enabled=1
gpgcheck=0
repo_gpgcheck=0
module_hotfixes=1
END
cat >"$base/dnf.conf" <<END
[main]
reposdir=$base/repos
cachedir=$base/cache
logdir=$base/log
gpgcheck=0
plugins=0
install_weak_deps=0
best=0
END
if ! run_dnf --assumeno install "$@" >"$base/table" 2>"$base/words"; then
  grep -q '^Operation aborted' "$base/table" "$base/words" || { tail -n 20 "$base/words" >&2; exit 1; }
fi
tr -s ' \t\n' '\n' <"$base/table" |
  awk '$0 == "kubexm-bundle" && n > 2 { print word[n - 2], word[n] } { word[++n] = $0 }' |
  while read -r name version; do
    if rpm -q --quiet "$name"; then echo "$name $version newer"; else echo "$name $version new"; fi
  done
"#;

const INSTALL: &str = r#"
trap 'rm -rf "$base"' EXIT
tar -x --no-same-owner -C "$base"
# Empty where the host has all of them.
[ ! -s "$base/SHA256SUMS" ] || (cd "$base" && sha256sum --quiet -c SHA256SUMS >&2)
run_dnf -y install "$@" >"$base/table" 2>&1 || { tail -n 20 "$base/table" >&2; exit 1; }
"#;

const UNDO: &str = r#"
mkdir -p /run/kubexm
# A killed install leaves its dnf running on the host: it is waited for.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
present=
for name in "$@"; do
  ! rpm -q --quiet "$name" || present="$present $name"
done
[ -z "$present" ] || rpm -e $present >/dev/null
"#;
