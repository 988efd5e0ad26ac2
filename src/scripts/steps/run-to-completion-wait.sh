#!/bin/sh -eu
# Waits until the command that a killed run left has ended: what it changes on this host is not known before.
# Argument: the largest number of seconds.
lock=/run/kubexm/once.lock left=$1
[ -e "$lock" ] || exit 0
until flock -n "$lock" true && ! command_runs; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "a command of an earlier run still runs after $1 seconds" >&2; exit 1; }
  sleep 1
done
# Another program can get its number.
: >/run/kubexm/once.group
