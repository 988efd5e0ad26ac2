#!/bin/sh -eu
# The members of etcd, from a host with a member that answers.
#   list          prints all members, and then the state of each one that answers, in one line each, as JSON of etcdctl. It
#                 asks for so many seconds, or for a minute.
#   gone, remove  checks whether no member has this peer address, or removes the member. A leader first hands over. A quorum
#                 of the others must be healthy, so that this cannot stop the cluster.
#   clean, sweep  checks whether no member is without a host, or removes such members: members that have never started,
#                 those of hosts that are about to join without data, and learners of hosts that the cluster does not have
# Arguments: verb, `kubeadm` or `systemd`, seconds for `list`, or peer addresses: one for `gone` and `remove`; for `clean` and
# `sweep` those of hosts that are about to join, `--`, and those of all hosts of the cluster.
verb=$1 kind=$2
shift 2
export PATH="/usr/local/bin:$PATH"

# Runs etcdctl for the member on this host, or for the endpoint in $ask.
etcdctl() {
  if [ "$kind" = systemd ]; then
    files=/etc/kubexm/etcd-member
    ETCDCTL_ENDPOINTS=${ask:-https://127.0.0.1:2379} ETCDCTL_CACERT=$files/ca.crt ETCDCTL_CERT=$files/admin.crt \
      ETCDCTL_KEY=$files/admin.key timeout 30 /usr/local/lib/kubexm/etcdctl --command-timeout=5s "$@"
    return
  fi
  container=$(timeout 20 crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$' | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run" >&2; return 1; }
  pki=/etc/kubernetes/pki/etcd
  # The first address is that of the loopback interface, in the address family of the member.
  server=${ask:-$(sed -n '/--listen-client-urls=/{s/.*--listen-client-urls=//;s/[,"].*//;p;q;}' /etc/kubernetes/manifests/etcd.yaml)}
  timeout 30 crictl exec -s "$container" etcdctl --command-timeout=5s --endpoints "$server" \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}
# Repeats a command for a minute: after a change of the members, etcd reports itself unhealthy and refuses another change.
patience=60
patiently() {
  deadline=$(($(date +%s) + patience))
  until said=$("$@" 2>&1); do
    [ "$(date +%s)" -lt "$deadline" ] || { printf '%s\n' "$said" >&2; return 1; }
    sleep 2
  done
  printf '%s\n' "$said"
}
# Prints one member in a line: ID, `started` or `unstarted`, name, peer address, client address, `true` for a learner, with
# tabs between them. A member that has never started has neither name nor client address.
members() {
  list=$(patiently etcdctl member list) || return
  printf '%s\n' "$list" | awk -F ', ' -v OFS='\t' 'NF { for (i = 1; i <= 6; i++) if ($i == "") $i = "-"; $1 = $1; print }'
}
# Arguments: list of members, peer address.
id_of() { printf '%s\n' "$1" | awk -F '\t' -v peer="$2" '$4 == peer { print $1 }'; }
is_healthy() (ask=$1 && etcdctl endpoint health >/dev/null 2>&1)
# Fails unless the voters besides these members have a quorum without them.
# Arguments: list of members, IDs.
has_quorum_without() (
  voters=0 healthy=0 tab=$(printf '\t')
  leaving=" $2 "
  while IFS="$tab" read -r id state _ _ client learner; do
    case $learner$leaving in true* | *" $id "*) continue ;; esac
    voters=$((voters + 1))
    if [ "$state" = started ] && is_healthy "${client%%,*}"; then healthy=$((healthy + 1)); fi
  done <<LIST
$1
LIST
  [ "$healthy" -ge $((voters / 2 + 1)) ] || {
    printf '%s\n' "etcd would have no quorum: of the other $voters members $healthy are healthy, and $((voters / 2 + 1)) must be" \
      "hint: start the members that do not answer" >&2
    exit 1
  }
)
# Lets a healthy voter lead, if this member does.
# Arguments: list of members, ID.
hand_over() (
  leader=
  to=
  tab=$(printf '\t')
  while IFS="$tab" read -r id state _ _ client learner; do
    case $state$learner in startedfalse) ;; *) continue ;; esac
    if [ "$id" = "$2" ]; then
      leader=${client%%,*}
    elif [ -z "$to" ] && is_healthy "${client%%,*}"; then
      to=$id
    fi
  done <<LIST
$1
LIST
  [ -n "$leader" ] && [ -n "$to" ] || exit 0
  # A member that does not lead refuses, and one that does not answer does not lead.
  ask=$leader
  etcdctl move-leader "$to" >/dev/null 2>&1 || :
)
# Prints the IDs of members that no host has. A voter of a host that the cluster does not have can be another's: it stays.
# Arguments: list of members, peer addresses of hosts that are about to join, `--`, those of all hosts.
stale() {
  list=$1
  shift
  {
    while [ "$1" != -- ]; do
      id_of "$list" "$1"
      shift
    done
    shift
    printf '%s\n' "$list" | awk -F '\t' -v known=" $* " '
      $2 == "unstarted" || ($6 == "true" && !index(known, " " $4 " ")) { print $1 }'
  } | sort -u
}
case $verb in
list)
  patience=${1:-$patience}
  list=$(patiently etcdctl member list -w json) || exit 75
  printf '%s\n' "$list" | grep '^{"header"' | tail -n 1
  # One after another: crictl prints nothing of a command that fails, as with one member that does not answer.
  for client in $(members | cut -f 5); do
    case $client in https://*) ask=${client%%,*} ;; *) continue ;; esac
    said=$(etcdctl endpoint status -w json 2>/dev/null) || continue
    printf '%s\n' "$said" | grep '^\[' | tail -n 1
  done
  ;;
gone)
  list=$(members) || exit 75
  [ -z "$(id_of "$list" "$1")" ] || { echo "etcd has the member"; exit 1; }
  ;;
remove)
  list=$(members)
  id=$(id_of "$list" "$1")
  [ -n "$id" ] || exit 0
  has_quorum_without "$list" "$id"
  hand_over "$list" "$id"
  patiently etcdctl member remove "$id" >/dev/null
  ;;
clean)
  list=$(members) || exit 75
  found=$(stale "$list" "$@")
  [ -z "$found" ] || { echo "etcd has members without a host: $(echo "$found" | tr '\n' ' ')"; exit 1; }
  ;;
sweep)
  list=$(members)
  found=$(stale "$list" "$@" | tr '\n' ' ')
  [ -n "$found" ] || exit 0
  has_quorum_without "$list" "$found"
  for id in $found; do patiently etcdctl member remove "$id" >/dev/null; done
  ;;
*) echo "usage: membership.sh list|gone|remove|clean|sweep" >&2; exit 2 ;;
esac
