#!/bin/sh -eu
# Checks whether the containers of a static pod started after their files changed, or stops them: the kubelet starts them again.
# Arguments: `check` or `apply`, name of the containers, seconds until the runtime kills them, files.
verb=$1 name=$2 grace=$3
shift 3
export PATH="/usr/local/bin:$PATH"
# Prints the running containers.
containers() { crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" "${1:--q}" ${2:+"$2"}; }
# Prints why a container does not use the present files. The runtime prints nanoseconds.
outdated() {
  created=$(containers -o json 2>/dev/null | sed -n 's/.*"createdAt": *"\([0-9]*\)[0-9]\{9\}".*/\1/p' | sort -n | head -n 1)
  [ -n "$created" ] || { echo "$name does not run"; return; }
  for file in "$@"; do
    [ "$created" -gt "$(stat -c %Y "$file")" ] || { echo "$name started before $file changed"; return; }
  done
}
case $verb in
check)
  found=$(outdated "$@")
  [ -z "$found" ] || { echo "$found"; exit 1; }
  ;;
apply)
  # The times have whole seconds.
  sleep 1
  for container in $(containers); do crictl stop --timeout "$grace" "$container" >/dev/null; done
  # After a failure, the kubelet waits up to five minutes before it starts a container again.
  left=180
  until [ -z "$(outdated "$@")" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      outdated "$@" >&2
      echo "hint: read the log of $name in /var/log/pods on this host, then run the same command again" >&2
      exit 1
    }
    sleep 2
  done
  ;;
*) echo "usage: pod-restart.sh check|apply" >&2; exit 2 ;;
esac
