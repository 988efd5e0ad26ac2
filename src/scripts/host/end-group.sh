#!/bin/sh -eu
# Ends the process group of a command that kubexm cancels. timeout(1) leads the group: it passes the signal on and
# kills the group if it does not end.
# Arguments: the number of the group.
kill -TERM "-$1" 2>/dev/null || :
