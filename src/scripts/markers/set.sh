#!/bin/sh -eu
# Creates a marker file, which records that a change was made.
# Arguments: name of the marker file.
umask 077
mkdir -p /var/lib/kubexm/done
: >"/var/lib/kubexm/done/$1"
sync "/var/lib/kubexm/done/$1" /var/lib/kubexm/done 2>/dev/null || sync
