#!/bin/sh -eu
# Looks whether a member that has data runs, or starts it. It starts whatever the other members do: they
# may wait for it. A member that runs is not touched.
# Arguments: `check` or `apply`, the data folder, the unit.
data=$2 unit=$3
case $1 in
check)
  [ -n "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ] || exit 0
  case $(systemctl is-active "$unit") in
  active | activating | reloading) ;;
  *) echo "does not run"; exit 1 ;;
  esac
  ;;
apply)
  systemctl daemon-reload
  systemctl reset-failed "$unit" 2>/dev/null || :
  systemctl start --no-block "$unit"
  ;;
*) echo "usage: awake.sh check|apply" >&2; exit 2 ;;
esac
