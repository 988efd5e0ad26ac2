#!/bin/sh -eu
# Runs `kubeadm init`, or removes what a failed try left.
# Arguments: `init` or `clean-up`; path of the configuration; `yes` if the kubelet must see static pods of the
# load balancer before; the runtime's socket; `yes` if etcd is kubeadm's, since other etcds may keep their
# data in the same folder.
verb=$1 config=$2 pods=$3 socket=$4 etcd=$5
export PATH="/usr/local/bin:$PATH"
case $verb in
init)
  if [ "$pods" = yes ]; then
    mkdir -p /etc/kubernetes/manifests
    install -m 644 /etc/kubexm/static-pods/*.yaml /etc/kubernetes/manifests/
  fi
  kubeadm init --config "$config" >/dev/null
  ;;
clean-up)
  rm -f /etc/kubernetes/admin.conf
  kubeadm reset -f --skip-phases=remove-etcd-member --cri-socket "$socket" >/dev/null || :
  [ "$etcd" != yes ] || rm -rf /var/lib/etcd/member
  ;;
*) echo "usage: init.sh init|clean-up" >&2; exit 2 ;;
esac
