#!/bin/sh -eu
# The start of a member of etcd.
#   has-data  checks whether the member has data
#   found     prepares the first start of all members. No member has been part of a complete cluster, so none
#             can have lost data. An aborted start leaves no data.
#   join      replaces a member that has lost its data. It removes the old member with this address, which
#             must not vote without its data. The new member votes after it has the data of the others. A
#             quorum of the others must be healthy, so that this cannot stop the cluster.
#   answers   checks whether the member answers; a learner does not answer, so a member that answers can vote
#   promote   promotes a learner to a voting member
# Arguments: verb, name, peer address, data directory, client addresses of the other members with commas
# between them, all members as etcd expects them for the first start.
verb=$1 name=$2 peer=$3 data=$4 others=$5 members=$6
unit=etcd.service
initial=/run/kubexm/etcd-initial.env
files=/etc/kubexm/etcd-member
lost="etcd has no data in $data of this host"
snapshot="restore a backup (kubexm backup restore), or begin again with kubexm reset"

# Runs etcdctl for the endpoints in $ask.
etcdctl() {
  ETCDCTL_ENDPOINTS=$ask ETCDCTL_CACERT=$files/ca.crt ETCDCTL_CERT=$files/admin.crt \
    ETCDCTL_KEY=$files/admin.key /usr/local/lib/kubexm/etcdctl --command-timeout=10s "$@"
}
# Repeats a command for some seconds. After a change of the members etcd reports itself unhealthy and refuses
# another change, and a learner must first copy the data.
# Arguments: seconds, command.
patiently() {
  deadline=$(($(date +%s) + $1))
  shift
  until said=$("$@" 2>&1); do
    [ "$(date +%s)" -lt "$deadline" ] || { printf '%s\n' "$said" >&2; return 1; }
    sleep 2
  done
  printf '%s\n' "$said"
}
has_data() { [ -n "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ]; }
found() {
  umask 077
  install -d -m 700 /run/kubexm
  systemctl stop "$unit" 2>/dev/null || :
  rm -rf "${data:?}/member"
  printf 'ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=new\n' "$members" >"$initial"
}
join() {
  if [ -z "$others" ]; then
    printf '%s\n' "$lost, and this is its only member" "hint: restore the data, $snapshot" >&2
    exit 1
  fi
  healthy=0 answering=
  for ask in $(echo "$others" | tr , ' '); do
    if etcdctl endpoint health >/dev/null 2>&1; then
      healthy=$((healthy + 1)) answering=$answering,$ask
    fi
  done
  ask=${answering#,}
  if [ "$healthy" = 0 ] || ! list=$(etcdctl member list 2>&1); then
    printf '%s\n' "$lost, and no other member is healthy: $others" "hint: start them, $snapshot" >&2
    exit 1
  fi
  voters=$(printf '%s\n' "$list" | awk -F', ' '$6 == "false" { count++ } END { print count + 0 }')
  if [ "$healthy" -lt $((voters / 2 + 1)) ]; then
    printf '%s\n' "$lost, and the others have no quorum: of $voters members $healthy are healthy ($ask)" \
      "hint: start one more member, $snapshot" >&2
    exit 1
  fi
  systemctl stop "$unit" 2>/dev/null || :
  old=$(printf '%s\n' "$list" | awk -F', ' -v peer="$peer" '$4 == peer { print $1 }')
  # Members that have never started count for the quorum, and etcd accepts one learner at a time. A learner of a host that
  # the cluster does not have stays one.
  for id in $(printf '%s\n' "$list" | awk -F', ' -v old="$old" -v known=",$members," '
    $1 == old || $2 == "unstarted" || ($6 == "true" && !index(known, "=" $4 ",")) { print $1 }'); do
    patiently 60 etcdctl member remove "$id" >/dev/null
  done
  added=$(patiently 60 etcdctl member add "$name" --learner --peer-urls "$peer")
  umask 077
  install -d -m 700 /run/kubexm
  rm -rf "${data:?}/member"
  printf '%s\n' "$added" | grep -E '^ETCD_INITIAL_CLUSTER(_STATE)?=' >"$initial"
}
promote() {
  ask=$others
  [ -n "$ask" ] || exit 0
  list=$(patiently 20 etcdctl member list 2>/dev/null) || {
    printf '%s\n' "no other member answers ($ask), and this one has no quorum" \
      "hint: start them; if more than half have lost their data, restore a backup (kubexm backup restore)" >&2
    exit 1
  }
  learner=$(printf '%s\n' "$list" |
    awk -F', ' -v peer="$peer" '$4 == peer && $6 == "true" { print $1 }')
  [ -z "$learner" ] || patiently 60 etcdctl member promote "$learner" >/dev/null
}
case $verb in
has-data) has_data || { echo "has no data"; exit 1; } ;;
found) found ;;
join) join ;;
answers)
  ask=https://127.0.0.1:2379
  etcdctl endpoint health >/dev/null 2>&1 || { echo "does not answer"; exit 1; }
  ;;
promote) promote ;;
*) echo "usage: member.sh has-data|found|join|answers|promote" >&2; exit 2 ;;
esac
