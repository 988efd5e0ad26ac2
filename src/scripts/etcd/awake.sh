#!/bin/sh -eu
# Checks whether a member that has data runs, or starts it. It does not depend on the other members, which
# may wait for it. A member that runs does not change.
# Arguments: `check` or `apply`, the data directory, the unit.
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
