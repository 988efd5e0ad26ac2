#!/bin/sh -eu
# Checks whether a unit is enabled and runs with the current content of its files, or enables and
# restarts it.
# Arguments: `check` or `apply`, the unit, `yes` if it must run, the files that it reads when it starts.
verb=$1 unit=$2 start=$3
shift 3
stamp=$(cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1)
mark=/var/lib/kubexm/started/$unit
case $verb in
check)
  systemctl is-enabled --quiet "$unit" 2>/dev/null || { echo "is not enabled"; exit 1; }
  [ "$start" = yes ] || exit 0
  systemctl is-active --quiet "$unit" || { echo "does not run"; exit 1; }
  [ "$(cat "$mark" 2>/dev/null)" = "$stamp" ] || { echo "runs with older files"; exit 1; }
  ;;
apply)
  systemctl daemon-reload
  systemctl enable --quiet "$unit"
  [ "$start" = yes ] || exit 0
  if ! systemctl restart "$unit"; then
    journalctl -u "$unit" -n 20 --no-pager -o cat >&2 || :
    exit 1
  fi
  mkdir -p "$(dirname "$mark")"
  echo "$stamp" >"$mark"
  ;;
*) echo "usage: unit.sh check|apply" >&2; exit 2 ;;
esac
