#!/bin/sh -eu
# Checks whether the DNS cache of every node is ready, or prints a diagnosis.
# Arguments: `check` or `diagnose`.
case $1 in
check)
  kubectl -n kube-system rollout status daemonset/node-local-dns --watch=false |
    grep 'successfully rolled out' || { echo "not all are ready"; exit 1; }
  ;;
diagnose)
  kubectl -n kube-system describe pods -l k8s-app=node-local-dns | tail -n 30
  kubectl -n kube-system logs -l k8s-app=node-local-dns --tail=10
  ;;
*) echo "usage: node-local.sh check|diagnose" >&2; exit 2 ;;
esac
