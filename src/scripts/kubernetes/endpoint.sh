#!/bin/sh -eu
# Checks whether the API server answers at the control plane's endpoint, or prints a diagnosis.
# Arguments: `check`, or `diagnose` and the port of the API server.
case $1 in
check) kubectl --request-timeout=5s get namespace kube-system -o name 2>&1 ;;
diagnose)
  echo "does the load balancer lead to port $2 of this control plane?"
  kubectl --request-timeout=5s get --raw '/readyz?verbose' 2>&1 | tail -n 5
  ;;
*) echo "usage: endpoint.sh check|diagnose" >&2; exit 2 ;;
esac
