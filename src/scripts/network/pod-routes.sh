#!/bin/sh -eu
# Maintains the routes of a node to the pods of the other nodes, and the masquerading of its own pods. The unit
# kubexm-pod-routes.service runs this file on the node.
# Arguments: `keep`, which restores routes and rules every 15 seconds and does not end, or `down`, which
# removes them; the configuration file. Its lines are `pods NETWORK` and, for each other node,
# `route SUBNET GATEWAY`.
verb=${1:-} config=${2:-}
# The protocol number of the routes (rtm_protocol in rtnetlink(7)). No routing daemon uses it
# (/etc/iproute2/rt_protos).
protocol=187

# Prints the values of the lines with a key.
# Arguments: key.
values() { sed -n "s/^$1 //p" "$config"; }
# Other networks have no route to pods, so packets to them get the address of the node.
# Arguments: option of iptables that checks, appends or deletes the rule.
masquerade() {
  "$iptables" -w -t nat "$1" POSTROUTING -s "$pods" ! -d "$pods" \
    -m comment --comment "kubexm pod network" -j MASQUERADE
}
delete_old_routes() {
  ip "-$family" route show proto "$protocol" | while read -r subnet _; do
    grep -qF "route $subnet " "$config" || ip "-$family" route del "$subnet" proto "$protocol" || :
  done
}
# A failure for one node does not affect the others; the next round repeats it.
set_routes() {
  values route | while read -r subnet gateway; do
    ip "-$family" route replace "$subnet" via "$gateway" proto "$protocol" || :
  done
}

case $verb in
keep | down) ;;
*) echo "usage: pod-routes.sh keep|down FILE" >&2; exit 2 ;;
esac
pods=$(values pods)
case $pods in
*:*) family=6 iptables=ip6tables ;;
*) family=4 iptables=iptables ;;
esac
if [ "$verb" = down ]; then
  ip "-$family" route flush proto "$protocol" || :
  while masquerade -D 2>/dev/null; do :; done
  exit 0
fi
while :; do
  delete_old_routes
  set_routes
  masquerade -C 2>/dev/null || masquerade -A || :
  sleep 15
done
