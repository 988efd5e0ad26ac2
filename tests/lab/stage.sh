# shellcheck shell=bash disable=SC2034,SC2154 # what it sets is the caller's; `here` is set by it
# What every end-to-end test stands on: its options, a lab and a folder of its own, a copy of the
# program, and how a cluster is installed there. Sourced with `here` set to the folder of the tests.
# The caller may define `end_more`, which runs first when the test ends.

# shellcheck source=tests/lab/checks.sh
. "$here/lab/checks.sh"
# shellcheck source=tests/lab/listing.sh
. "$here/lab/listing.sh"
# shellcheck source=tests/lab/upstream/versions
. "$here/lab/upstream/versions"

usage() { # as the comment at the head of the test has it
  sed -n 's/^#   \(tests\/\)/usage: \1/p' "$0" >&2
  exit 2
}
stage() { # NAME OPTIONS…: those that not all tests have are left in `others`
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
  # A copy: a build in the meantime must not change what is tested.
  kubexm=$work/kubexm
  cp "${KUBEXM:-$top/target/debug/kubexm}" "$kubexm"
  cluster=$work/cluster.yaml state=$work/state from=()
  trap end_stage EXIT
}
end_stage() {
  if declare -F end_more >/dev/null; then end_more; fi
  "$here/lab/upstream/serve" stop --dir "$work/upstream" || true
  [ -n "$keep" ] || "$lab" down "$name"
  [ -n "$keep" ] || rm -rf "$work"
}

on() { "$lab" ssh "$name" "$@"; }
hosts_up() { # COUNT: their names are in `all`
  "$lab" up "$name" --hosts "$1" --distro "$distro"
  mapfile -t all < <(cut -d' ' -f1 "$("$lab" dir "$name")/hosts")
}
address_of() { sed -n "s/^$1 //p" "$("$lab" dir "$name")/hosts"; }
known_hosts() { printf '%s\n' "$("$lab" dir "$name")/known_hosts"; }

# bundle_for WORDS MANIFEST OPTIONS…: where none was given, one is built from the lab's upstream
bundle_for() {
  [ -z "$bundle" ] || return 0
  bundle=$work/bundle.tar.zst
  "$here/lab/upstream/serve" start --dir "$work/upstream"
  must "$1" build_bundle "${@:2}"
  "$here/lab/upstream/serve" stop --dir "$work/upstream"
}
build_bundle() { # MANIFEST OPTIONS…: while upstream is served
  "$kubexm" bundle build --fast -f "$1" -o "$bundle" --output plain \
    --mirrors "$work/upstream/mirrors.yaml" --cache "$work/cache" "${@:2}"
}

with_cluster() { # COMMAND OPTIONS…
  "$kubexm" "$1" --output plain -f "$cluster" --known-hosts "$(known_hosts)" --state "$state" "${@:2}"
}
# shellcheck disable=SC2120,SC2119 # options come by way of check
install_cluster() { # OPTIONS…: of `from`'s bundles where that names some
  local bundles=(--bundle "$bundle")
  [ ${#from[@]} -eq 0 ] || bundles=("${from[@]}")
  with_cluster install "${bundles[@]}" "$@"
}
reset() { with_cluster reset --yes; }
fails() { # STATUS WORDS OPTIONS…: an install that ends like this and says these words
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

remember() { # HOST…: how they are before anything is installed
  local host
  for host in "$@"; do listing "$host" >"$work/before.$host"; done
}
as_before() { # HOST…
  local host
  for host in "$@"; do check "$host is as before" compare "$host"; done
}

# As on a first control plane, with the administrator's rights.
kubectl_on_node1() {
  on node1 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl "$@"
}
# As on this side, with the kubeconfig that the install has brought.
kubectl_here() {
  "$programs/kubernetes-$version/kubectl" --kubeconfig "$state/admin.conf" --cache-dir "$work/kubectl" "$@"
}
ready() { # COUNT
  kubectl get nodes -o wide
  [ "$(kubectl get nodes --no-headers | awk '$2 == "Ready"' | wc -l)" = "$1" ]
}
# What has rolled out is not yet what every node leads to: services follow within a second or two.
from_pod() { # POD URL
  until_true 30 kubectl exec "$1" -- curl -sSk --max-time 5 "$2"
}
# Name, address and node of each pod of an app.
pods_of() { kubectl get pods -l "app=$1" -o "jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {.spec.nodeName}{\"\\n\"}{end}"; }
# The bundle's image for tests.
agnhost_of() { awk '/e2e-test-images\/agnhost/ { print $2 }' "$1"; }
