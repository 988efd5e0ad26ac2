#!/bin/sh -eu
# Checks whether a unit is enabled and runs with the current content of its files, or enables it and makes it read them.
# Verbs: `check`, `apply`.
#   unit    the unit
#   start   `yes` if it must run
#   config  the file that it reads again when systemd reloads it, if there is one
#   test    the command that tests this file
# Further arguments: the files that it reads when it starts.
: "${verb=}" "${unit=}" "${start=}" "${config=}" "${test=}"
stamp() { cat "$@" 2>/dev/null </dev/null | sha256sum | cut -d' ' -f1; }
# What the unit runs with: the stamp of all files, the start of the unit, and the stamp of those that need a restart.
mark=/var/lib/kubexm/started/$unit
all=$(stamp ${config:+"$config"} "$@")
# Identifies a start of the unit (https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.systemd1.html).
invocation() { systemctl show -p InvocationID --value "$unit" 2>/dev/null || :; }
# Whether the unit was started again after the start that the mark is of, and a file was written since: the program may
# have read other content than the file has now.
has_read_other_files() {
  begun=$(sed -n 2p "$mark")
  [ -n "$begun" ] && [ "$(invocation)" != "$begun" ] || return 1
  [ $# -gt 0 ] && [ -n "$(find "$@" -prune -newer "$mark" 2>/dev/null)" ]
}
# Whether at most the file differs that a reload is sufficient for.
can_reload() {
  [ -n "$config" ] && systemctl is-active --quiet "$unit" || return 1
  [ "$(sed -n 3p "$mark" 2>/dev/null)" = "$(stamp "$@")" ] && ! has_read_other_files "$@"
}
# Whether the unit runs and has read its present files.
is_current() {
  systemctl is-active --quiet "$unit" && [ "$(sed -n 1p "$mark" 2>/dev/null)" = "$all" ] && ! has_read_other_files "$@"
}
case $verb in
check)
  systemctl is-enabled --quiet "$unit" 2>/dev/null || { echo "is not enabled"; exit 1; }
  [ "$start" = yes ] || exit 0
  systemctl is-active --quiet "$unit" || { echo "does not run"; exit 1; }
  [ "$(sed -n 1p "$mark" 2>/dev/null)" = "$all" ] || { echo "runs with older files"; exit 1; }
  ! has_read_other_files ${config:+"$config"} "$@" || { echo "was restarted with other files"; exit 1; }
  ;;
apply)
  systemctl daemon-reload
  # A unit that is masked cannot be enabled.
  systemctl enable --quiet "$unit" 2>/dev/null || { systemctl unmask --quiet "$unit"; systemctl enable --quiet "$unit"; }
  [ "$start" = yes ] || exit 0
  # It was only not enabled.
  ! is_current ${config:+"$config"} "$@" || exit 0
  if can_reload "$@"; then
    # A program that cannot read its new configuration continues with the former one, and systemd reports success.
    said=$(sh -c "$test" 2>&1) || {
      printf '%s\n' "$said" "$unit refuses $config, and goes on with the former one" >&2
      exit 1
    }
    systemctl reload "$unit"
  elif ! systemctl restart "$unit"; then
    journalctl -u "$unit" -n 20 --no-pager -o cat >&2 || :
    exit 1
  fi
  mkdir -p "$(dirname "$mark")"
  printf '%s\n%s\n%s\n' "$all" "$(invocation)" "$(stamp "$@")" >"$mark"
  ;;
*) echo "usage: unit.sh check|apply" >&2; exit 2 ;;
esac
