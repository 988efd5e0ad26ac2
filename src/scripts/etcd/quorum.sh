#!/bin/sh -eu
# Fails if a member of etcd is about to restart, and the others have no quorum without it.
# Arguments: `check` or `apply`, which tries for some seconds; the unit of etcd; the client addresses of the other members with
# commas between them; the files that etcd reads when it starts.
verb=$1 unit=$2 others=$3
shift 3
stamp=$(cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1)
# Whether etcd runs with other files than the present ones.
restarts() {
  systemctl is-active --quiet "$unit" && [ "$(sed -n 1p "/var/lib/kubexm/started/$unit" 2>/dev/null)" != "$stamp" ]
}
etcdctl() {
  ETCDCTL_CACERT=/etc/kubexm/etcd-member/ca.crt ETCDCTL_CERT=/etc/kubexm/etcd-member/admin.crt \
    ETCDCTL_KEY=/etc/kubexm/etcd-member/admin.key /usr/local/lib/kubexm/etcdctl --command-timeout=10s "$@"
}
# Counts the voters, and those of the others that answer. Two voters have no quorum during any restart, and etcd without a quorum
# has none to lose.
is_quorum() {
  list=$(ETCDCTL_ENDPOINTS=https://127.0.0.1:2379 etcdctl member list 2>/dev/null) || return 0
  voters=$(printf '%s\n' "$list" | awk -F', ' '$6 == "false" { count++ } END { print count + 0 }') healthy=0
  for one in $(echo "$others" | tr , ' '); do
    ! ETCDCTL_ENDPOINTS=$one etcdctl endpoint health >/dev/null 2>&1 || healthy=$((healthy + 1))
  done
  [ "$voters" -le 2 ] || [ "$healthy" -gt $((voters / 2)) ]
}
case $verb in
check) tries=1 ;;
apply) tries=10 ;;
*) echo "usage: quorum.sh check|apply" >&2; exit 2 ;;
esac
restarts || exit 0
until is_quorum; do
  tries=$((tries - 1))
  if [ "$tries" = 0 ]; then
    said="etcd restarts with changed files, and of $voters members, only $healthy of the others answer: the cluster would stop"
    case $verb in
    check) echo "$said" ;;
    apply) printf '%s\n' "$said" "hint: start the other members ($others), then run the same command again" >&2 ;;
    esac
    exit 1
  fi
  sleep 3
done
