#!/bin/sh -eu
# Compares settings of the running kernel, or sets those that differ. Keeps the former values beside the
# receipt.
# Arguments: `check` or `apply`, key and value of each setting.
verb=$1
shift
former=/var/lib/kubexm/backup/sysctl
# The kernel separates several numbers of a setting by tabs.
words() { awk '{ $1 = $1; print }'; }
while [ $# -gt 0 ]; do
  # As in sysctl.d: after a first '.', dots and slashes are exchanged.
  case ${1#"${1%%[./]*}"} in
  .*) path=/proc/sys/$(echo "$1" | tr ./ /.) ;;
  *) path=/proc/sys/$1 ;;
  esac
  case $verb in
  check)
    value=$(cat "$path" 2>/dev/null) || :
    [ "$(printf '%s\n' "$value" | words)" = "$(printf '%s\n' "$2" | words)" ] || { echo "$1 is $value"; exit 1; }
    ;;
  apply)
    [ -e "$path" ] || { echo "the kernel has no setting $1" >&2; exit 1; }
    (umask 077; mkdir -p /var/lib/kubexm/backup)
    if ! grep -qs "^$path " "$former"; then
      value=$(cat "$path")
      (umask 077; printf '%s %s\n' "$path" "$value" >>"$former")
    fi
    echo "$2" >"$path"
    ;;
  *) echo "usage: sysctl.sh check|apply" >&2; exit 2 ;;
  esac
  shift 2
done
