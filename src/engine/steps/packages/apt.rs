//! Debian and its kin: dpkg and apt.

use super::Manager;

/// Installs with apt.
pub(super) const APT: Manager = Manager {
    name: "apt",
    check: CHECK,
    functions: FUNCTIONS,
    simulate: SIMULATE,
    install: INSTALL,
    undo: UNDO,
};

/// Ends with 0 where all requested packages are installed; prints those that are not.
const CHECK: &str = r#"
missing=
for name in "$@"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
done
[ -z "$missing" ] || { echo "lacks$missing"; exit 1; }
"#;

/// apt with a source of its own: the host's lists, sources and caches stay untouched.
const FUNCTIONS: &str = r#"
shift 2
export DEBIAN_FRONTEND=noninteractive
base=/var/lib/kubexm/packages
mkdir -p /run/kubexm
# A killed install leaves its apt running on the host: it is waited for, never raced.
exec 9>/run/kubexm/packages.lock
flock -w 600 9 || { echo "an earlier run's apt is still going on after 10 minutes" >&2; exit 1; }
apt() {
  apt-get -q -y --no-install-recommends -o Dir::Etc::sourcelist="$base/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$base/lists" \
    -o Dir::Cache="$base/cache" -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold \
    -o APT::Sandbox::User=root "$@"
}
"#;

/// Reads the index from standard input and prints what apt would install: name, version, and `new`
/// for what the host has in no version.
const SIMULATE: &str = r#"
mkdir -p "$base/lists/partial" "$base/cache/archives/partial"
cat >"$base/Packages"
echo "deb [trusted=yes] file:$base ./" >"$base/sources.list"
apt update >/dev/null
apt -s install "$@" | sed -n -e 's/^Inst \([^ ]*\) \[[^]]*\] (\([^ ]*\) .*/\1 \2 newer/p' \
  -e 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2 new/p'
"#;

/// Reads the packages from standard input, checks them against apt's index and installs them. No
/// service of theirs may start meanwhile: Kubernetes brings its own rules.
const INSTALL: &str = r#"
mkdir -p "$base/lists/partial" "$base/cache/archives/partial"
tar -x --no-same-owner -C "$base"
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  made=yes
fi
trap '[ -z "$made" ] || rm -f "$policy"; rm -rf "$base"' EXIT
apt install "$@" >"$base/log" 2>&1 || { tail -n 20 "$base/log" >&2; exit 1; }
"#;

const UNDO: &str = r#"
mkdir -p /run/kubexm
# A killed install leaves its apt running on the host: it is waited for.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
present=
for name in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || :)
  case $status in '' | not-installed) ;; *) present="$present $name" ;; esac
done
[ -z "$present" ] || DEBIAN_FRONTEND=noninteractive dpkg --purge $present >/dev/null
"#;
