# shellcheck shell=sh
# Calls kubectl with a kubeconfig of this node.
# Arguments: its name; words for kubectl.
api() {
  user=$1
  shift
  kubectl --kubeconfig "/etc/kubernetes/$user.conf" --cache-dir /run/kubexm/kubectl --request-timeout=10s "$@"
}
