# shellcheck shell=sh
# Runs a program in the container of the member of etcd on this host, for at most $most seconds.
# Arguments: program and its arguments.
in_etcd() {
  # A runtime that answers late does not say that etcd has stopped.
  container=$(timeout 20 crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$') ||
    { echo "the container runtime does not answer" >&2; return 1; }
  container=$(printf '%s\n' "$container" | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run" >&2; return 1; }
  timeout "${most:-30}" crictl exec -s "$container" "$@"
}
