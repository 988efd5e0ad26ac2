# shellcheck shell=sh
# Calls kubectl as the administrator. It ends when the API server does not answer.
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
