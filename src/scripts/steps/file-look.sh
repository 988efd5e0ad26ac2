#!/bin/sh -eu
# Prints digest, mode, number of the owner, name of the group and name of the owner of a file, `absent`, or `other` for a link, a
# directory or a device.
# Arguments: path.
if [ -f "$1" ] && [ ! -L "$1" ]; then
  echo "$(sha256sum <"$1" | cut -d' ' -f1) $(stat -c '%a %u %G %U' "$1")"
elif [ -e "$1" ] || [ -L "$1" ]; then echo other
else echo absent; fi
