# shellcheck shell=bash disable=SC2034,SC2154 # the caller uses its variables, and sets `here`
# The shared part of all end-to-end tests: options, a lab, a temporary directory, a copy of the program, and
# install and reset of a cluster. Sourced with `here` set to the directory of the tests. The caller may define
# `end_more`, which runs first when the test ends.

# shellcheck source=tests/lab/checks.sh
. "$here/lab/checks.sh"
# shellcheck source=tests/lab/listing.sh
. "$here/lab/listing.sh"
# shellcheck source=tests/lab/upstream/versions
. "$here/lab/upstream/versions"

usage() { # from the comment at the top of the test
  sed -n 's/^#   \(tests\/\)/usage: \1/p' "$0" >&2
  exit 2
}
stage() { # NAME OPTIONS…: sets up the test; options of single tests stay in `others`
  local short=$1
  shift
  version=1.36.3 distro=trixie keep='' bundle='' others=()
  while [ $# -gt 0 ]; do
    case $1 in
    --bundle | --version | --distro) [ $# -gt 1 ] || usage ;;&
    --bundle) bundle=$(realpath "$2"); shift ;;
    --version) version=$2; shift ;;
    --distro) distro=$2; shift ;;
    --keep) keep=yes ;;
    *) others+=("$1") ;;
    esac
    shift
  done
  minor=${version%.*}
  name=$short-${minor/./-}
  top=$(dirname "$here")
  lab=$here/lab/lab
  programs=${KUBEXM_LAB_CACHE:-$HOME/.cache/kubexm-lab}/upstream/bin
  work=$(mktemp -d)
  # A copy, so that a build at the same time does not change the tested program.
  kubexm=$work/kubexm
  manifests_with_agnhost
  cp "${KUBEXM:-$top/target/debug/kubexm}" "$kubexm"
  if [ -z "${KUBEXM:-}" ] && [ -n "$(find "$top/src" "$top/templates" -type f -newer "$top/target/debug/kubexm" -print -quit)" ]; then
    echo "warning: target/debug/kubexm is older than its sources; cargo build makes another one"
  fi
  cluster=$work/cluster.yaml state=$work/state from=()
  # Options about the signature of the bundle; empty if the cluster file names a key.
  trust=(--unsigned)
  trap end_stage EXIT
}
# The shipped manifests, and the image from which the tests make pods.
agnhost=registry.k8s.io/e2e-test-images/agnhost:$AGNHOST
manifests_with_agnhost() {
  local file
  manifests=$work/shipped
  mkdir "$manifests"
  for file in "$top"/manifests/{kubernetes,runtimes}-*.yaml; do
    sed "s,^  # images: .*,  images:\n    - $agnhost," "$file" >"$manifests/${file##*/}"
  done
}
end_stage() {
  if declare -F end_more >/dev/null; then end_more; fi
  "$here/lab/upstream/serve" stop --dir "$work/upstream" || true
  [ -n "$keep" ] || "$lab" down "$name"
  [ -n "$keep" ] || rm -rf "$work"
}

on() { "$lab" ssh "$name" "$@"; }
hosts_up() { # COUNT OPTIONS…: starts hosts; their names are in `all`
  "$lab" up "$name" --hosts "$1" --distro "$distro" "${@:2}"
  mapfile -t all < <(cut -d' ' -f1 "$("$lab" dir "$name")/hosts")
}
address_of() { sed -n "s/^$1 //p" "$("$lab" dir "$name")/hosts"; }
namespace_of() { # HOST: prints its network namespace
  awk -v host="$1" '$1 == "netns" && $2 ~ "-" host "$" { name = $2 } END { print name }' "$("$lab" dir "$name")/record"
}
known_hosts() { printf '%s\n' "$("$lab" dir "$name")/known_hosts"; }

# bundle_for DESCRIPTION MANIFEST OPTIONS…: builds a bundle from the lab's upstream, unless --bundle names one
bundle_for() {
  [ -z "$bundle" ] || return 0
  bundle=$work/bundle.tar.zst
  "$here/lab/upstream/serve" start --dir "$work/upstream"
  must "$1" build_bundle "${@:2}"
  "$here/lab/upstream/serve" stop --dir "$work/upstream"
}
build_bundle() { # MANIFEST OPTIONS…: while the upstream is served; `mirrors` may name another mirror file
  "$kubexm" bundle build --fast -f "$1" -o "$bundle" --output plain \
    --mirrors "${mirrors:-$work/upstream/mirrors.yaml}" --cache "$work/cache" "${@:2}"
}

with_cluster() { # COMMAND OPTIONS…
  "$kubexm" "$1" --output plain -f "$cluster" --known-hosts "$(known_hosts)" --state "$state" "${@:2}"
}
no_drift() { # the hosts are as an install would leave them
  with_cluster status --diff --bundle "$bundle" >"$work/status.log" 2>&1 || true
  cat "$work/status.log"
  grep -q "$name" "$work/status.log" && ! grep "differs from the plan" "$work/status.log"
}
# shellcheck disable=SC2120,SC2119 # `check` passes options
install_cluster() { # OPTIONS…: with the bundle options in `from`, if there are any
  local bundles=(--bundle "$bundle")
  [ ${#from[@]} -eq 0 ] || bundles=("${from[@]}")
  with_cluster install "${bundles[@]}" "${trust[@]}" "$@"
}
new_identities() { # FILE…: writes identities of age, each for the user alone
  local file
  command -v age-keygen >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends age >/dev/null
  for file; do (umask 077 && age-keygen -o "$file" 2>/dev/null) || return; done
}
reset() { with_cluster reset --yes; }
fails() { # STATUS PATTERN OPTIONS…: install ends with this status, and its output matches
  local status=0
  install_cluster "${@:3}" >"$work/failed.log" 2>&1 || status=$?
  cat "$work/failed.log"
  [ "$status" = "$1" ] && grep -q "$2" "$work/failed.log"
}
nothing_changed() {
  install_cluster >"$work/again.log" 2>&1 || { cat "$work/again.log"; return 1; }
  cat "$work/again.log"
  grep -q "nothing to change" "$work/again.log"
}
install_again() { check "install again changes nothing" nothing_changed; }

remember() { # HOST…: records their state before an install
  local host
  for host in "$@"; do listing "$host" >"$work/before.$host"; done
}
as_before() { # HOST…: checks that their state equals the recorded one
  local host
  for host in "$@"; do check "$host is as before" compare "$host"; done
}

# On the first control plane, with the administrator's kubeconfig.
kubectl_on_node1() {
  on node1 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl "$@"
}
# On this machine, with the kubeconfig that install has saved.
kubectl_here() {
  "$programs/kubernetes-$version/kubectl" --kubeconfig "$state/admin.conf" --cache-dir "$work/kubectl" "$@"
}
ready() { # COUNT
  kubectl get nodes -o wide
  [ "$(kubectl get nodes --no-headers | awk '$2 == "Ready"' | wc -l)" = "$1" ]
}
# A deployment that has rolled out is not reachable on every node at once: kube-proxy needs a second or two.
from_pod() { # POD URL
  until_true 30 kubectl exec "$1" -- curl -sSk --max-time 5 "$2"
}
# Prints name, address and node of each pod of an app.
pods_of() { kubectl get pods -l "app=$1" -o "jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {.spec.nodeName}{\"\\n\"}{end}"; }
