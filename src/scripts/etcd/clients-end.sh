#!/bin/sh -eu
# Ends the API server of a host before the member of etcd there restarts. It cannot answer without its member, and load balancers
# send requests to others while it ends.
# Verbs: `check`, `apply`.
#   kind  `kubeadm` or `systemd`, which runs the API server
#   unit  the unit of etcd
#   cas   the file of CAs that the API server reads when it starts
# Arguments after `--`: the files that etcd reads when it starts.
: "${verb=}" "${kind=}" "${unit=}" "${cas=}"
export PATH="/usr/local/bin:$PATH"
stamp=$(cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1)
server=kube-apiserver
# Whether etcd runs with other files than the present ones, so that it is about to restart.
restarts() { [ "$(sed -n 1p "/var/lib/kubexm/started/$unit" 2>/dev/null)" != "$stamp" ]; }
containers() { crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$server\$" "$@" 2>/dev/null; }
# The kubelet starts an API server again that has ended. The runtime prints nanoseconds.
runs() {
  case $kind in
  systemd) systemctl is-active --quiet "$server.service" ;;
  kubeadm)
    created=$(containers -o json | sed -n 's/.*"createdAt": *"\([0-9]*\)[0-9]\{9\}".*/\1/p' | sort -n | tail -n 1)
    [ -n "$created" ] && [ "$created" -le "$(stat -c %Y "$cas")" ]
    ;;
  esac
}
case $verb-$kind in
check-kubeadm | check-systemd)
  ! restarts || ! runs || { echo "the API server runs, and its member of etcd restarts"; exit 1; }
  ;;
apply-kubeadm)
  # The times have whole seconds.
  sleep 1
  for container in $(containers -q); do crictl stop --timeout 40 "$container" >/dev/null; done
  ;;
apply-systemd)
  # systemd starts it if this run ends before a later step does so, and no other run follows. The start ends the timer.
  timer=kubexm-api-server-start
  systemctl stop "$timer.timer" 2>/dev/null || :
  systemd-run --quiet --collect --unit="$timer" "--timer-property=Conflicts=$server.service" --on-active=300 \
    systemctl start "$server.service"
  systemctl stop "$server.service"
  ;;
*) echo "usage: clients-end.sh check|apply kubeadm|systemd" >&2; exit 2 ;;
esac
