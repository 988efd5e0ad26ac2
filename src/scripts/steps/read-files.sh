#!/bin/sh -eu
# Prints a tar archive of the files that exist among some paths, without copies that kubeadm keeps and without sockets.
# Arguments: paths, absolute. A path may have shell patterns.
cd /
list=
for pattern in "$@"; do
  # shellcheck disable=SC2086 # a pattern is expanded here
  for path in .$pattern; do
    [ -e "$path" ] || continue
    list="$list $path"
  done
done
[ -n "$list" ] || exit 0
# shellcheck disable=SC2086 # names have no blanks
find $list \( -path ./etc/kubernetes/tmp -o -path ./var/lib/kubexm/restore \) -prune -o \( -type f -o -type l \) -print0 |
  tar -cf - --no-recursion --null -T -
