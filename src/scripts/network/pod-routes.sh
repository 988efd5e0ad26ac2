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
# Sets `iptables` to the program of the address family of a network.
program_of() {
  iptables=iptables
  [ "$(family_of "$1")" = 4 ] || iptables=ip6tables
}
# Arguments: a pod network, one of these rules, option of iptables that checks, adds or deletes the rule; the number that the rule
# gets in its chain.
rule() {
  network=$1 option=$3 number=${4:-} table=filter chain=FORWARD target=ACCEPT
  program_of "$network"
  case $2 in
  masquerade) table=nat chain=POSTROUTING target=MASQUERADE && set -- -s "$network" ! -d "$network" ;;
  from) set -- -s "$network" ;;
  to) set -- -d "$network" ;;
  esac
  "$iptables" -w -t "$table" "$option" "$chain" ${number:+"$number"} "$@" -m comment --comment "kubexm pod network" -j "$target"
}
# Prints the number of the first rule that refuses every forwarded packet, if there is one, and `late` if one of these rules is
# behind it.
refusal() {
  program_of "$1"
  "$iptables" -w -t filter -S FORWARD 2>/dev/null | awk '
    /^-A / { number++ }
    /^-A FORWARD -j (DROP|REJECT)( |$)/ && !front { front = number }
    front && /"kubexm pod network"/ { late = "late" }
    END { if (front) print front, late }'
}
# Adds the rules that are missing. Behind a rule that refuses every packet, they have no effect; those of kube-proxy come first.
set_rules() {
  for pods in $networks; do
    rule "$pods" masquerade -C 2>/dev/null || rule "$pods" masquerade -A || :
    refused=$(refusal "$pods")
    case $refused in
    *late)
      for rule in from to; do while rule "$pods" "$rule" -D 2>/dev/null; do :; done; done
      refused=$(refusal "$pods")
      ;;
    esac
    front=${refused%% *}
    for rule in from to; do
      rule "$pods" "$rule" -C 2>/dev/null || if [ -n "$front" ]; then rule "$pods" "$rule" -I "$front"; else rule "$pods" "$rule" -A; fi || :
    done
  done
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
  set_rules
  sleep 15
done
