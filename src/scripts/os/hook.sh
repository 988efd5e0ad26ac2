#!/bin/sh -eu
# Checks whether the present content of a hook of the user has succeeded on this host, or runs the hook. The hook is a file in
# memory that only root can read, because it may contain secrets. All of its output goes to standard error, so that it is in
# the log of the host.
#   check  checks whether it has succeeded. Standard input: SHA-256 of the hook, which is secret as the hook.
#   wait   waits for a hook that an earlier run left running
#   run    runs it. Standard input: the hook. Arguments after `--`: the program that runs the hook, with its argument.
# For `check` and `run`: `name` of the hook. For `run`: `record`, which is `changed` to record that it succeeded or `always`;
# names of the `cluster` and of the `host`.
: "${verb=}" "${name=}" "${record=}" "${cluster=}" "${host=}"
lock=/run/kubexm/hook.lock group=/run/kubexm/hook.group
case $verb in
check)
  done=/var/lib/kubexm/done/hook-$name
  [ -e "$done" ] || { echo "has not run on this host"; exit 1; }
  read -r digest || :
  [ "$(cat "$done")" = "$digest" ] || { echo "differs from the hook that ran on this host"; exit 1; }
  ;;
wait)
  [ -e "$lock" ] || exit 0
  flock -w 3600 "$lock" true || { echo "a hook of an earlier run still runs after an hour" >&2; exit 1; }
  ;;
run)
  export KUBEXM_CLUSTER="$cluster" KUBEXM_HOST="$host"
  done=/var/lib/kubexm/done/hook-$name
  install -d -m 700 /run/kubexm
  exec 9>>"$lock"
  flock -n 9 || { echo "another hook runs on this host" >&2; exit 1; }
  # A killed script may have left a secret here.
  rm -f /run/kubexm/hook-*
  # A reset ends this process group.
  sed 's/.*) //' "/proc/$$/stat" | cut -d' ' -f3 >"$group"
  hook=/run/kubexm/hook-$name
  trap 'rm -f "$hook" "$group"' EXIT
  # At the time limit, the hook ends first.
  trap 'exit 143' TERM
  (umask 077; cat >"$hook")
  digest=$(sha256sum <"$hook" | cut -d' ' -f1)
  cd /
  # A program that the hook starts in the background must not keep the lock.
  "$@" "$hook" </dev/null >&2 9>&-
  [ "$record" = changed ] || exit 0
  (umask 077; mkdir -p /var/lib/kubexm/done; echo "$digest" >"$done.new")
  replace "$done.new" "$done"
  ;;
*) echo "usage: hook.sh check|wait|run" >&2; exit 2 ;;
esac
