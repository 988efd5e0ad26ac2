#!/bin/sh -eu
# Runs a command in a directory that serves as the root of a test host, in a separate mount namespace. The
# shell and the programs below replace one another, so that the command has the process id that the caller
# started.
# Arguments: the directory, the command with its arguments.
root=$1
shift
for folder in usr dev proc etc/alternatives; do
  [ ! -d "/$folder" ] || mount --rbind "/$folder" "$root/$folder"
done
# In a user namespace the kernel may refuse to change these flags. Then the owner of the files
# protects them.
for folder in usr etc/alternatives; do mount -o remount,bind,ro "$root/$folder" 2>/dev/null || :; done
exec chroot "$root" /usr/bin/env -i \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
