#!/bin/sh -eu
# Checks whether nodes are registered or Ready, and prints a line for each that is not, with its name first. Or prints a
# diagnosis.
# Arguments: `registered`, `ready` or `diagnose`; names of nodes.
verb=$1
shift
case $verb in
registered)
  nodes=$(kubectl --request-timeout=10s get nodes -o name 2>&1) || { echo "$nodes"; exit 1; }
  missing=
  for name in "$@"; do
    printf '%s\n' "$nodes" | grep -Fqx "node/$name" || { echo "$name has not registered"; missing=yes; }
  done
  [ -z "$missing" ]
  ;;
ready)
  ready='{.status.conditions[?(@.type=="Ready")]'
  nodes=$(kubectl get nodes \
    -o jsonpath="{range .items[*]}{.metadata.name}{\"\\t\"}$ready.status}{\"\\t\"}$ready.message}{\"\\n\"}{end}" 2>&1) ||
    { echo "$nodes"; exit 1; }
  missing=$(for name in "$@"; do
    printf '%s\n' "$nodes" | awk -F '\t' -v name="$name" '
      $1 == name { found = 1; if ($2 != "True") print name " is not Ready: " $3 }
      END { if (!found) print name " has not registered" }'
  done)
  [ -z "$missing" ] || { printf '%s\n' "$missing"; exit 1; }
  ;;
diagnose)
  kubectl get nodes,pods -A -o wide || :
  journalctl -u kubelet -n 20 --no-pager -o cat
  ;;
*) echo "usage: nodes.sh registered|ready|diagnose" >&2; exit 2 ;;
esac
