#!/bin/sh -eu
# Runs `kubeadm join`, or removes the remains of a failed run.
# Arguments: `join` or `clean-up`; the runtime's socket; if the node joins with a member of the stacked etcd,
# the name of the first control plane, which has another member, and the peer address of this one.
# Environment of `join`: INPUT, path of the configuration.
verb=$1 socket=$2 first=$3 peer=$4
export PATH="/usr/local/bin:$PATH"
members() {
  kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl --request-timeout=30s \
    -n kube-system exec "etcd-$first" -- etcdctl --cacert /etc/kubernetes/pki/etcd/ca.crt \
    --cert /etc/kubernetes/pki/etcd/peer.crt --key /etc/kubernetes/pki/etcd/peer.key member "$@"
}
# Removes this host from etcd's members, while its own etcd still runs and counts for the quorum.
# `kubeadm reset` does this only for hosts that are already nodes. A member that returns without its data
# does not start. A join without admin.conf has not added a member yet.
leave_etcd() {
  [ -e /etc/kubernetes/admin.conf ] || return 0
  list=$(members list)
  member=$(printf '%s\n' "$list" | awk -F', ' -v peer="$peer" '$4 == peer { print $1 }')
  # For some seconds after a change of the members, etcd reports itself unhealthy and removes no member.
  left=30
  until [ -z "$member" ] || said=$(members remove "$member" 2>&1); do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { printf '%s\n' "$said" >&2; exit 1; }
    sleep 2
  done
}
clean_up() (
  [ -z "$first" ] || leave_etcd
  rm -f /etc/kubernetes/admin.conf
  kubeadm reset -f --skip-phases=remove-etcd-member --cri-socket "$socket" >/dev/null || :
  [ -z "$first" ] || rm -rf /var/lib/etcd/member
)
# A node that died while it joined stays Ready in the cluster until its lease expires after some 50
# seconds. kubeadm refuses the name of a Ready node, so the join waits.
join() {
  left=12
  until said=$(kubeadm join --config "$INPUT" 2>&1 >/dev/null); do
    case $said in *"already exists in the cluster"*) ;; *) left=0 ;; esac
    if [ "$left" = 0 ]; then printf '%s\n' "$said" >&2; exit 1; fi
    left=$((left - 1))
    clean_up || :
    sleep 10
  done
}
case $verb in
join) join ;;
clean-up) clean_up ;;
*) echo "usage: join.sh join|clean-up" >&2; exit 2 ;;
esac
