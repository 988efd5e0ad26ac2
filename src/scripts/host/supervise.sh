#!/bin/sh -eu
# Runs a command as a child of timeout(1), which leads a process group of its own. Prints the number of the
# group first, so that kubexm can end the command. When TERM reaches the group, because the time limit struck or
# kubexm cancels the command, the shell waits for the command and then kills what is left of the group.
# Arguments: the command with its arguments.
trap 'sleep 1; kill -s KILL 0' TERM
echo "kubexm: process group $PPID"
"$@" || exit $?
