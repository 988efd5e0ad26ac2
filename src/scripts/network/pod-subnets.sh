#!/bin/sh -eu
# Prints a line for each node of the cluster: its name, its addresses and its pod subnets. Waits until
# each of the given nodes has a subnet.
# Arguments: names of nodes.
left=60
while :; do
  lines=$(kubectl get nodes -o jsonpath='{range .items[*]}{.metadata.name}{range .status.addresses[?(@.type=="InternalIP")]}{" "}{.address}{end}{range .spec.podCIDRs[*]}{" "}{@}{end}{"\n"}{end}')
  without=
  for name in "$@"; do
    printf '%s\n' "$lines" |
      awk -v name="$name" '$1 == name && $NF ~ "/" { found = 1 } END { exit !found }' ||
      without="$without $name"
  done
  [ -n "$without" ] || break
  left=$((left - 1))
  if [ "$left" -le 0 ]; then
    echo "these nodes have no pod subnet:$without (the controller manager needs --allocate-node-cidrs)" >&2
    exit 1
  fi
  sleep 1
done
printf '%s\n' "$lines"
