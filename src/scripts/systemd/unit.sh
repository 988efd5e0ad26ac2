#!/bin/sh -eu
# Checks whether a unit is enabled and runs with the current content of its files, or enables and
# restarts it.
# Arguments: `check` or `apply`, the unit, `yes` if it must run, the files that it reads when it starts.
verb=$1 unit=$2 start=$3
shift 3
stamp=$(cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1)
mark=/var/lib/kubexm/started/$unit
# Identifies a start of the unit (https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html).
invocation() { systemctl show -p InvocationID --value "$unit" 2>/dev/null || :; }
# Whether the unit was started again after the start that the mark is of, and a file was written since: the program may
# have read other content than the file has now.
has_read_other_files() {
  begun=$(sed -n 2p "$mark")
  [ -n "$begun" ] && [ "$(invocation)" != "$begun" ] || return 1
  [ $# -gt 0 ] && [ -n "$(find "$@" -prune -newer "$mark" 2>/dev/null)" ]
}
case $verb in
check)
  systemctl is-enabled --quiet "$unit" 2>/dev/null || { echo "is not enabled"; exit 1; }
  [ "$start" = yes ] || exit 0
  systemctl is-active --quiet "$unit" || { echo "does not run"; exit 1; }
  [ "$(sed -n 1p "$mark" 2>/dev/null)" = "$stamp" ] || { echo "runs with older files"; exit 1; }
  ! has_read_other_files "$@" || { echo "was restarted with other files"; exit 1; }
  ;;
apply)
  systemctl daemon-reload
  # A unit that is masked cannot be enabled.
  systemctl enable --quiet "$unit" 2>/dev/null || { systemctl unmask --quiet "$unit"; systemctl enable --quiet "$unit"; }
  [ "$start" = yes ] || exit 0
  if ! systemctl restart "$unit"; then
    journalctl -u "$unit" -n 20 --no-pager -o cat >&2 || :
    exit 1
  fi
  mkdir -p "$(dirname "$mark")"
  printf '%s\n%s\n' "$stamp" "$(invocation)" >"$mark"
  ;;
*) echo "usage: unit.sh check|apply" >&2; exit 2 ;;
esac
