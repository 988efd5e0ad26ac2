#!/bin/sh -eu
# Stops a command that a killed install left running, before a reset reverts its changes.
lock=/run/kubexm/once.lock left=60 signal=TERM number=''
[ -e "$lock" ] || exit 0
until flock -n "$lock" true && ! command_runs; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "a command of an earlier run does not end" >&2; exit 1; }
  [ "$left" -gt 40 ] || signal=KILL
  ! command_runs || kill "-$signal" "-$number" 2>/dev/null || :
  sleep 1
done
