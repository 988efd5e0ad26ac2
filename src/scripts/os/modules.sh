#!/bin/sh -eu
# Checks whether the kernel has modules, built in or loaded, or loads them. Remembers each module that it loads.
# Arguments: `check` or `apply`, names of modules.
verb=$1
shift
loaded=/var/lib/kubexm/done
is_there() {
  [ -d "/sys/module/$1" ] || grep -qw "$1" /proc/filesystems ||
    { [ "$1" = br_netfilter ] && [ -d /proc/sys/net/bridge ]; } ||
    grep -qs "/$1\.ko" "/lib/modules/$(uname -r)/modules.builtin"
}
for name in "$@"; do
  case $verb in
  check) is_there "$name" || { echo "$name is not loaded"; exit 1; } ;;
  apply)
    if ! is_there "$name"; then
      (umask 077; mkdir -p "$loaded")
      : >"$loaded/module-$name"
      modprobe "$name"
    fi
    ;;
  *) echo "usage: modules.sh check|apply" >&2; exit 2 ;;
  esac
done
