#!/bin/sh -eu
# Ends with 0 if a mark of what is done once is set.
# Arguments: name of the mark.
[ -e "/var/lib/kubexm/done/$1" ] || { echo "has not been done"; exit 1; }
