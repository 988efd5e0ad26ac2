#!/bin/sh -eu
# Runs `kubeadm init`, or removes the remains of a failed run.
# Arguments: `init` or `clean-up`; path of the configuration; `yes` if the kubelet must run the static pods of
# the load balancer first; the runtime's socket; `yes` if kubeadm runs etcd. Another etcd may have its data in
# the same directory.
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
