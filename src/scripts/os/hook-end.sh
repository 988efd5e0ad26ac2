#!/bin/sh -eu
# Stops a hook of the user that an earlier command left running, and removes the files of hooks that ended.
lock=/run/kubexm/hook.lock group=/run/kubexm/hook.group left=60 signal=TERM
[ -e "$lock" ] || exit 0
until flock -n "$lock" true; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "a hook of an earlier command does not end" >&2; exit 1; }
  [ "$left" -gt 40 ] || signal=KILL
  [ ! -s "$group" ] || kill "-$signal" "-$(cat "$group")" 2>/dev/null || :
  sleep 1
done
rm -f /run/kubexm/hook-* "$lock" "$group"
rmdir /run/kubexm 2>/dev/null || :
