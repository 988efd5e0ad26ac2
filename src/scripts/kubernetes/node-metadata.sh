#!/bin/sh -eu
# Changes labels, taints and annotations of nodes.
# Arguments, repeatedly: `label`, `taint` or `annotate`, the name of a node, and changes with blanks between them, as kubectl
# expects them: `key=value` or `key-`.
while [ $# -gt 0 ]; do
  what=$1 node=$2 changes=$3
  shift 3
  (
    set --
    for change in $changes; do set -- "$@" "$change"; done
    kubectl "$what" --overwrite node "$node" "$@" >/dev/null
  )
done
