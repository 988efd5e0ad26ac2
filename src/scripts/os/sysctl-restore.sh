#!/bin/sh -eu
# Restores the former values of kernel settings.
[ -e /var/lib/kubexm/backup/sysctl ] || exit 0
while read -r path value; do echo "$value" >"$path" || :; done </var/lib/kubexm/backup/sysctl
