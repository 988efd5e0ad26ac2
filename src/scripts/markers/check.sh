#!/bin/sh -eu
# Exits with 0 if a marker file exists.
# Arguments: name of the marker file.
[ -e "/var/lib/kubexm/done/$1" ] || { echo "has not been done"; exit 1; }
