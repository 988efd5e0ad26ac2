#!/bin/sh -eu
# Maintains the routes of a node to the pods of the other nodes, and the rules of iptables for pods. The unit
# kubexm-pod-routes.service runs this file on the node.
# Arguments: `keep`, which restores routes and rules every 15 seconds and does not end, or `down`, which
# removes them; the configuration file. Its lines are `pods NETWORK` and, for each other node,
# `route SUBNET GATEWAY`, for each address family.
verb=${1:-} config=${2:-}
# The protocol number of the routes (rtm_protocol in rtnetlink(7)). No routing daemon uses it
# (/etc/iproute2/rt_protos).
protocol=187

# Prints the values of the lines with a key.
# Arguments: key.
values() { sed -n "s/^$1 //p" "$config"; }
# Prints the address family of an address or a network.
family_of() {
  case $1 in
  *:*) echo 6 ;;
  *) echo 4 ;;
  esac
}
# The rules of a pod network. Other networks have no route to pods, so packets to them get the address of the node. Packets of
# pods pass a chain that drops forwarded packets by default, as after Docker or a hardening.
rules="masquerade from to"
# Arguments: a pod network, one of these rules, option of iptables that checks, appends or deletes the rule.
rule() {
  iptables=iptables network=$1 option=$3 table=filter chain=FORWARD target=ACCEPT
  [ "$(family_of "$network")" = 4 ] || iptables=ip6tables
  case $2 in
  masquerade) table=nat chain=POSTROUTING target=MASQUERADE && set -- -s "$network" ! -d "$network" ;;
  from) set -- -s "$network" ;;
  to) set -- -d "$network" ;;
  esac
  "$iptables" -w -t "$table" "$option" "$chain" "$@" -m comment --comment "kubexm pod network" -j "$target"
}
# Arguments: address family.
delete_old_routes() {
  ip "-$1" route show proto "$protocol" | while read -r subnet _; do
    grep -qF "route $subnet " "$config" || ip "-$1" route del "$subnet" proto "$protocol" || :
  done
}
# A failure for one node does not affect the others; the next round repeats it.
set_routes() {
  values route | while read -r subnet gateway; do
    ip "-$(family_of "$subnet")" route replace "$subnet" via "$gateway" proto "$protocol" || :
  done
}

case $verb in
keep | down) ;;
*) echo "usage: pod-routes.sh keep|down FILE" >&2; exit 2 ;;
esac
networks=$(values pods)
if [ "$verb" = down ]; then
  for pods in $networks; do
    ip "-$(family_of "$pods")" route flush proto "$protocol" || :
    for rule in $rules; do while rule "$pods" "$rule" -D 2>/dev/null; do :; done; done
  done
  exit 0
fi
while :; do
  for pods in $networks; do delete_old_routes "$(family_of "$pods")"; done
  set_routes
  for pods in $networks; do
    for rule in $rules; do rule "$pods" "$rule" -C 2>/dev/null || rule "$pods" "$rule" -A || :; done
  done
  sleep 15
done
