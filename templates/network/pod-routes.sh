#!/bin/sh
# Written by kubexm: this node's way to the pods of all others, and its own pods' way out.
#   pod-routes.sh keep   puts it right every 15 seconds, whoever flushed routes or rules
#   pod-routes.sh down   takes it back
set -u
family={{ family }}
iptables={{ iptables }}
# Marks routes as ours (rtm_protocol of rtnetlink(7)); one that no routing daemon has.
protocol={{ protocol }}
pods={{ pod_cidr|quote }}

# What goes out of the cluster does so as the node: nobody outside knows pods' addresses.
masquerade() {
  "$iptables" -w -t nat "$1" POSTROUTING -s "$pods" ! -d "$pods" \
    -m comment --comment "kubexm pod network" -j MASQUERADE
}
is_wanted() {
  case $1 in
{%- for route in routes %}
    {{ route.subnet|quote }}) ;;
{%- endfor %}
    *) return 1 ;;
  esac
}
up() {
  ip "-$family" route show proto "$protocol" | while read -r subnet rest; do
    is_wanted "$subnet" || ip "-$family" route del "$subnet" proto "$protocol"
  done
{%- for route in routes %}
  ip "-$family" route replace {{ route.subnet|quote }} via {{ route.gateway|quote }} proto "$protocol"
{%- endfor %}
  masquerade -C 2>/dev/null || masquerade -A
}
case ${1:-} in
  keep) while :; do up; sleep 15; done ;;
  down)
    ip "-$family" route flush proto "$protocol"
    while masquerade -D 2>/dev/null; do :; done
    ;;
  *) echo "usage: pod-routes.sh keep|down" >&2; exit 2 ;;
esac
