#!/bin/sh -eu
# Compares whether kube-proxy runs in the cluster with the phases that the cluster file skips. kubeadm deploys kube-proxy
# only when it creates the cluster.
# Arguments: `check`, and `yes` if the cluster file requires kube-proxy, or `no`.
[ "$1" = check ] || { echo "usage: kube-proxy.sh check yes|no" >&2; exit 2; }
found=$(kubectl -n kube-system get daemonset kube-proxy --ignore-not-found -o name) || exit 75
field=kubernetes.kubeadm.skipPhases.init
case $2:$found in
yes:)
  echo "$field is not applied: it does not have addon/kube-proxy, and kube-proxy does not run in the cluster"
  echo "hint: add addon/kube-proxy to skipPhases.init, or run \`kubeadm init phase addon kube-proxy\` on this host with the configuration that \`kubectl -n kube-system get configmap kubeadm-config\` shows"
  exit 78
  ;;
no:?*)
  echo "$field is not applied: it has addon/kube-proxy, and kube-proxy runs in the cluster"
  echo "hint: remove addon/kube-proxy from skipPhases.init, or run \`kubectl -n kube-system delete daemonset kube-proxy\` and restart the hosts one after another"
  exit 78
  ;;
esac
