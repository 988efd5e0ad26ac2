#!/bin/sh -eu
# Installs packages of the bundle with apt. apt uses only these packages, and does not change the host's lists,
# sources and caches.
#   simulate  reads the index from standard input and prints what apt would install: name, version, and
#             `new` for a package that the host has in no version
#   install   reads the packages as a tar from standard input, compares them with the index, and installs
#             them. Their services do not start, because Kubernetes has its own rules.
# Arguments: verb, SHA-256 of the index, its size in bytes, names of packages. apt computes digest and
# size by itself.
verb=$1
shift 3
export DEBIAN_FRONTEND=noninteractive
base=/var/lib/kubexm/packages
install -d -m 700 /run/kubexm
# A killed install leaves its apt running on the host. This waits for it.
exec 9>/run/kubexm/packages.lock
flock -w 600 9 || { echo "apt of an earlier run still runs after 10 minutes" >&2; exit 1; }
apt() {
  apt-get -q -y --no-install-recommends -o Dir::Etc::sourcelist="$base/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$base/lists" \
    -o Dir::Cache="$base/cache" -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold \
    -o APT::Sandbox::User=root "$@"
}
policy=/usr/sbin/policy-rc.d
record=/var/lib/kubexm/policy-rc.d
text='#!/bin/sh
# kubexm installs packages.
exit 101'
# Removes the policy that a record describes. A write that was cut off left an empty file.
remove_policy() {
  [ -e "$record" ] || return 0
  case $(cat "$policy" 2>/dev/null) in "$text" | '') rm -f "$policy" ;; esac
  rm -f "$record"
}
# Configures the packages of a killed dpkg. dpkg does not wait while another program has its lock; apt does, see above.
configure() {
  left=60
  until LC_ALL=C dpkg --force-confold --configure -a >"$base/log" 2>&1 </dev/null; do
    left=$((left - 1))
    if [ "$left" = 0 ] || ! grep -q 'lock .*locked by ' "$base/log"; then
      tail -n 20 "$base/log" >&2
      exit 1
    fi
    sleep 2
  done
}
# Exists while apt installs. apt refuses to work after a killed dpkg until its packages are configured. This script
# configures them only where it began the installation itself.
begun=/var/lib/kubexm/apt-begun
mkdir -p "$base/lists/partial" "$base/cache/archives/partial"
case $verb in
simulate)
  cat >"$base/Packages"
  echo "deb [trusted=yes] file:$base ./" >"$base/sources.list"
  apt update >/dev/null
  plan=$(apt -s install "$@")
  removed=$(printf '%s\n' "$plan" | sed -n 's/^Remv \([^ ]*\).*/\1/p' | paste -sd' ')
  # A reset could not install them again.
  [ -z "$removed" ] || {
    echo "packages of the bundle exclude packages of the host, which apt would remove: $removed" >&2
    echo "hint: remove them from the host, or leave the packages that exclude them out of spec.packages of the bundle manifest" >&2
    exit 1
  }
  printf '%s\n' "$plan" | sed -n -e 's/^Inst \([^ ]*\) \[[^]]*] (\([^ ]*\) .*/\1 \2 newer/p' \
    -e 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1 \2 new/p'
  ;;
install)
  remove_policy
  tar -x --no-same-owner -C "$base"
  trap 'remove_policy; rm -rf "$base"' EXIT
  if [ ! -e "$policy" ]; then
    # A killed script removes nothing. The next run and a reset see the record, so it comes first.
    : >"$record"
    sync "$record" 2>/dev/null || sync
    printf '%s\n' "$text" >"$policy"
    chmod 755 "$policy"
  fi
  [ ! -e "$begun" ] || configure
  : >"$begun"
  sync "$begun" 2>/dev/null || sync
  apt install "$@" >"$base/log" 2>&1 || { tail -n 20 "$base/log" >&2; exit 1; }
  rm -f "$begun"
  ;;
*) echo "usage: apt.sh simulate|install" >&2; exit 2 ;;
esac
