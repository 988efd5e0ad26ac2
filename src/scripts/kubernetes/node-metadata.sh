#!/bin/sh -eu
# Prints labels, taints and kubexm's annotations of all nodes, or changes them.
# Arguments: `look`; or `apply`, and repeatedly `label`, `taint` or `annotate`, the name of a node, and changes with blanks between
# them, as kubectl expects them: `key=value` or `key-`.
verb=$1
shift
case $verb in
look)
  # Fields of an object are printed as JSON.
  labels='{.metadata.name}{"\t"}{.metadata.labels}'
  taints='{"\t"}{.spec.taints}'
  annotations='{"\t"}{.metadata.annotations.kubexm\.io/labels}{"\t"}{.metadata.annotations.kubexm\.io/taints}{"\n"}'
  kubectl get nodes -o "jsonpath={range .items[*]}$labels$taints$annotations{end}"
  ;;
apply)
  while [ $# -gt 0 ]; do
    what=$1 node=$2 changes=$3
    shift 3
    (
      set --
      for change in $changes; do set -- "$@" "$change"; done
      kubectl "$what" --overwrite node "$node" "$@" >/dev/null
    )
  done
  ;;
*) echo "usage: node-metadata.sh look|apply" >&2; exit 2 ;;
esac
