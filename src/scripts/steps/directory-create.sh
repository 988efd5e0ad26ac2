#!/bin/sh -eu
# Creates directories that contain kubexm's marker, where nothing exists at their path. A directory gets its name when the
# marker is in it, because a reset removes only marked directories.
# Arguments: path and mode, in octal digits, of each directory.
while [ $# -gt 0 ]; do
  path=$1 mode=$2
  shift 2
  if [ -e "$path" ] || [ -L "$path" ]; then continue; fi
  umask 022
  mkdir -p "${path%/*}"
  new=${path%/*}/.${path##*/}.kubexm-new
  rm -rf "$new"
  mkdir "$new"
  echo "kubexm created this directory. kubexm reset removes the files of the cluster from it." >"$new/.kubexm-owner"
  chmod "$mode" "$new"
  sync "$new/.kubexm-owner" 2>/dev/null || sync
  replace "$new" "$path"
  if command -v restorecon >/dev/null; then restorecon -R "$path" || :; fi
done
