#!/bin/sh -eu
# Compares the number of replicas of CoreDNS, or sets it.
# Arguments: `check` or `apply`, the number.
case $1 in
check)
  [ -e /etc/kubernetes/admin.conf ] || { echo "the cluster does not exist yet"; exit 1; }
  found=$(kubectl -n kube-system get deployment coredns --ignore-not-found -o jsonpath='{.spec.replicas}') || exit 75
  [ "$found" = "$2" ] || { echo "has ${found:-no} replicas"; exit 1; }
  ;;
apply) kubectl -n kube-system scale deployment coredns --replicas="$2" >/dev/null ;;
*) echo "usage: replicas.sh check|apply" >&2; exit 2 ;;
esac
