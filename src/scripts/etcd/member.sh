#!/bin/sh -eu
# The start of a member of etcd that is a systemd unit.
# Verbs:
#   has-data  checks whether the member has data
#   stop      ends the member
#   begin     prepares the first start of the member, and removes what an aborted start left
#   answers   checks whether the member answers; a learner does not answer, so a member that answers can vote
# Parameters:
#   data     the data directory
#   state    `new` for a new cluster, `existing` for one that has added the member
#   members  all members, as etcd expects them for a first start
: "${verb=}" "${data=}" "${state=}" "${members=}"
unit=etcd.service
initial=/run/kubexm/etcd-initial.env
has_data() { [ -n "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ]; }
stop() { systemctl stop "$unit" 2>/dev/null || :; }
case $verb in
has-data) has_data || { echo "has no data"; exit 1; } ;;
stop) stop ;;
begin)
  umask 077
  install -d -m 700 /run/kubexm
  stop
  ! has_data || { echo "$data of this host has data of etcd now" >&2; exit 1; }
  rm -rf "${data:?}/member"
  printf 'ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=%s\n' "$members" "$state" >"$initial"
  ;;
answers)
  # shellcheck disable=SC2034 # the shared function reads it
  kind=systemd
  etcdctl_of_member --command-timeout=10s endpoint health >/dev/null 2>&1 || { echo "does not answer"; exit 1; }
  ;;
*) echo "usage: member.sh has-data|stop|begin|answers" >&2; exit 2 ;;
esac
