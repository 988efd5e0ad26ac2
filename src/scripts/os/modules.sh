#!/bin/sh -eu
# Checks whether the kernel has modules, built in or loaded, or loads them.
# Arguments: `check` or `apply`, names of modules.
verb=$1
shift
is_there() {
  [ -d "/sys/module/$1" ] || grep -qw "$1" /proc/filesystems ||
    { [ "$1" = br_netfilter ] && [ -d /proc/sys/net/bridge ]; } ||
    grep -qs "/$1\.ko" "/lib/modules/$(uname -r)/modules.builtin"
}
for name in "$@"; do
  case $verb in
  check) is_there "$name" || { echo "$name is not loaded"; exit 1; } ;;
  apply) modprobe "$name" ;;
  *) echo "usage: modules.sh check|apply" >&2; exit 2 ;;
  esac
done
