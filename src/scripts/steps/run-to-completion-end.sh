#!/bin/sh -eu
# Stops a command that a killed install left running, before a reset reverts its changes.
group=/run/kubexm/once.group
is_running() { [ -s "$group" ] && kill -s 0 -- "-$(cat "$group")" 2>/dev/null; }
lock=/run/kubexm/once.lock left=60 signal=TERM
[ -e "$lock" ] || exit 0
until flock -n "$lock" true && ! is_running; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "a command of an earlier run does not end" >&2; exit 1; }
  [ "$left" -gt 40 ] || signal=KILL
  ! is_running || kill -s "$signal" -- "-$(cat "$group")" 2>/dev/null || :
  sleep 1
done
