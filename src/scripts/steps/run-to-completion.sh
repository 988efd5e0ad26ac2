#!/bin/sh -eu
# Runs a command once. The command continues when the connection breaks. The next run waits for it under the
# same lock, finds the marker file if it succeeded, and cleans up if it failed. Output goes to a file, because
# a write to a broken connection would kill the command.
#   id                     name of the marker file
#   input                  path of the input file, if there is one. The command sees it in $INPUT.
#   command, command_verb  text of the command, and its verb, if any
#   cleanup, cleanup_verb  text of the cleanup, and its verb, if any
#   limit                  time limit of both in seconds
# Arguments after `--`: those of both. Standard input: content of the input file. It is complete, and receive-input.sh
# has it in memory, so that it is not lost while the script waits.
: "${verb=}" "${id=}" "${input=}" "${command=}" "${command_verb=}" "${cleanup=}" "${cleanup_verb=}" "${limit=}"
# The process group of the command. The command itself does not inherit the lock: a daemon that it starts
# would keep the lock permanently.
group=/run/kubexm/once.group
# Arguments: text, verb or nothing, arguments.
run() {
  text=$1 verb=$2
  shift 2
  [ -z "$verb" ] || set -- "$verb" "$@"
  status=0
  # shellcheck disable=SC2016 # the inner shell expands these
  # timeout leads the session, so its process id is the number of the process group.
  (exec setsid --wait timeout -k 20 "$limit" sh -euc '
    echo "$PPID" >"$1"
    text=$2
    shift 2
    exec sh -euc "$text" kubexm "$@"
  ' kubexm "$group" "$text" "$@" </dev/null >/run/kubexm/once.log 2>&1 9>&-) ||
    status=$?
  # Another program can get the number.
  : >"$group"
  return "$status"
}
show_log() { tail -c 8000 /run/kubexm/once.log >&2; }
install -d -m 700 /run/kubexm
(umask 077; mkdir -p /var/lib/kubexm/done; : >>/run/kubexm/once.log)
# An earlier version of kubexm wrote it with mode 0644.
chmod 600 /run/kubexm/once.log
exec 9>/run/kubexm/once.lock
flock -w 600 9 || { echo "an earlier run of this command still runs after 10 minutes" >&2; exit 1; }
done=/var/lib/kubexm/done/$id
[ ! -e "$done" ] || exit 0
# If this script was killed, its lock is free, but its command may still run.
left=600 number=''
while command_runs; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || {
    echo "process group $number of an earlier run still runs after 10 minutes" >&2
    exit 1
  }
  sleep 1
done
export INPUT="$input"
if [ -e "$done.begun" ]; then
  run "$cleanup" "$cleanup_verb" "$@" ||
    { show_log; echo "cannot clean up after the previous run" >&2; exit 1; }
fi
: >"$done.begun"
sync "$done.begun" /var/lib/kubexm/done 2>/dev/null || sync
if [ -n "$input" ]; then
  trap 'rm -f "$input"' EXIT
  (umask 077; cat >"$input")
fi
run "$command" "$command_verb" "$@" || {
  status=$?
  show_log
  [ "$status" -ne 124 ] || echo "the command was ended after its time limit of $limit seconds" >&2
  exit "$status"
}
# The input may be secret. After the marker exists, no run comes back here.
[ -z "$input" ] || rm -f "$input"
replace "$done.begun" "$done"
