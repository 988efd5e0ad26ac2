#!/bin/sh -eu
# Prints a tar archive of the files that exist among some paths, without copies that kubeadm keeps and without sockets.
# A path, or the directory of authorities, can be a link to a directory on another disk: the archive has the files of that
# directory, and not the link.
# Arguments: paths, absolute. A path may have shell patterns.
cd /
list=
pki=./etc/kubernetes/pki
for pattern in "$@"; do
  # shellcheck disable=SC2086 # a pattern is expanded here
  for path in .$pattern; do
    [ -e "$path" ] || continue
    # With the slash, find goes through the link.
    if [ -L "$path" ] && [ -d "$path" ]; then path=$path/; fi
    list="$list $path"
  done
done
[ -n "$list" ] || exit 0
linked=./none
if [ -L $pki ] && [ -d $pki ]; then
  case "$list " in *" ./etc/kubernetes "* | *" ./etc/kubernetes/ "*) linked=$pki list="$list $pki/" ;; esac
fi
# shellcheck disable=SC2086 # names have no blanks
find $list \( -path ./etc/kubernetes/tmp -o -path ./var/lib/kubexm/restore -o -path $linked \) -prune -o \( -type f -o -type l \) -print0 |
  tar -cf - --no-recursion --null -T -
