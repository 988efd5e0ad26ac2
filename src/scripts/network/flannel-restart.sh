#!/bin/sh -eu
# Lets flannel start once more in a restore, because it does not notice another subnet of a node in each case.
# Arguments: `follows` or `restart`, the ID of the restore, and the expected subnets. Without these, `follows` compares those of
# `restart`.
verb=$1
# The expected subnets, and the containers that ran before.
mark=/var/lib/kubexm/restore/$2/flannel
shift 2
export PATH="/usr/local/bin:$PATH"
crictl() { command crictl --timeout 60s "$@"; }
# Prints what differs between the subnets of flannel and the expected ones.
# Arguments: expected subnets.
differs() {
  found=$(sed -n -E 's/^FLANNEL_(IPV6_)?SUBNET=//p' /run/flannel/subnet.env 2>/dev/null) || :
  # shellcheck disable=SC2086 # one word for each subnet
  [ "$(echo $found | wc -w)" = "$#" ] || { echo "flannel has" ${found:-no subnet}", not $*"; return; }
  for subnet in $found; do
    case " $* " in *" $subnet "*) ;; *) echo "flannel has $subnet, not $*"; return ;; esac
  done
}
case $verb in
follows)
  wanted=$(sed 1q "$mark" 2>/dev/null) || :
  if [ -z "$wanted" ] || [ "${*:-$wanted}" != "$wanted" ]; then echo "flannel has not started again"; exit 1; fi
  # shellcheck disable=SC2086 # one word for each subnet
  differs=$(differs $wanted)
  [ -z "$differs" ] || { echo "$differs"; exit 1; }
  old=$(sed 1d "$mark") new=$(flannels)
  # Where it cannot run, as on a node with a taint that it does not tolerate, the expected subnets are sufficient.
  [ -n "$old$new" ] || [ $(($(date +%s) - $(stat -c %Y "$mark"))) -lt 60 ] || exit 0
  if [ -z "$new" ] || [ "$new" = "$old" ]; then echo "it does not start again"; exit 1; fi
  ;;
restart)
  umask 077
  mkdir -p "$(dirname "$mark")"
  old=$(flannels)
  # shellcheck disable=SC2086 # one line for each container
  printf '%s\n' "$*" $old >"$mark"
  for container in $old; do crictl stop --timeout 10 "$container" >/dev/null || :; done
  ;;
*) echo "usage: flannel-restart.sh follows|restart" >&2; exit 2 ;;
esac
