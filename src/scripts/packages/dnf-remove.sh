#!/bin/sh -eu
# Removes packages with rpm.
# Arguments: names of packages.
install -d -m 700 /run/kubexm
# A killed install leaves its dnf running on the host. This waits for it.
exec 9>/run/kubexm/packages.lock
flock -w 600 9
for name in "$@"; do
  shift
  ! rpm -q --quiet "$name" || set -- "$@" "$name"
done
[ $# -eq 0 ] || rpm -e "$@" >/dev/null
