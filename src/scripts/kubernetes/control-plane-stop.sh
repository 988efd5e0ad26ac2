#!/bin/sh -eu
# Ends API server, controller manager and scheduler of a host that leaves the cluster, so that no request fails: the API
# server keeps answering until load balancers have noticed that it ends. With kubeadm, containers can end after `stop`.
# Arguments: `stopped` or `stop`; `kubeadm` or `systemd`.
verb=$1 kind=$2
export PATH="/usr/local/bin:$PATH"
programs="kube-apiserver kube-controller-manager kube-scheduler"
manifests=/etc/kubernetes/manifests
containers() { for name in $programs; do crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" -q 2>/dev/null || :; done; }
units() { for name in $programs; do ! systemctl is-active --quiet "$name.service" || echo "$name.service"; done; }
case $verb-$kind in
stopped-kubeadm)
  for name in $programs; do
    [ ! -e "$manifests/$name.yaml" ] || { echo "$name runs"; exit 1; }
  done
  [ -z "$(containers)" ] || { echo "a program of the control plane runs"; exit 1; }
  ;;
stop-kubeadm)
  # The kubelet must not start them again. A reset does not need these files.
  for name in $programs; do rm -f "$manifests/$name.yaml"; done
  for container in $(containers); do crictl stop --timeout 40 "$container" >/dev/null 2>&1 || :; done
  ;;
stopped-systemd)
  [ -z "$(units)" ] || { echo "runs: $(units | tr '\n' ' ')"; exit 1; }
  ;;
stop-systemd)
  for unit in $(units); do systemctl stop "$unit"; done
  ;;
*) echo "usage: control-plane-stop.sh stopped|stop kubeadm|systemd" >&2; exit 2 ;;
esac
