#!/bin/sh -eu
# Runs a command as a child of timeout(1), which leads a process group of its own. Prints the number of the
# group first, so that kubexm can end the command. When TERM reaches the group, because the time limit struck or
# kubexm cancels the command, the shell waits for the command and then kills what is left of the group.
# Arguments: the token of the run that must have the lock of the host, or nothing; the command with its arguments. If another run
# has taken the lock since, this one must not change the host any more.
trap 'sleep 1; kill -s KILL 0' TERM
if [ -n "$1" ]; then
  token=
  { read -r _ && read -r token; } 2>/dev/null </run/kubexm.lock || :
  [ "$token" = "$1" ] || { echo "kubexm: lock lost"; exit 1; }
fi
shift
echo "kubexm: process group $PPID"
"$@" || exit $?
