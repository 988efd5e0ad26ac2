# shellcheck shell=sh
# Runs a program in the container of the member of etcd on this host, for at most $most seconds.
# Arguments: program and its arguments.
in_etcd() {
  container=$(timeout 20 crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$' | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run" >&2; return 1; }
  timeout "${most:-30}" crictl exec -s "$container" "$@"
}
