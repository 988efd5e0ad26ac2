#!/bin/sh -eu
# Checks whether only root can read files, or sets this mode. Skips files that do not exist.
# Arguments: `check` or `apply`, files.
verb=$1
shift
for file in "$@"; do
  [ -e "$file" ] || continue
  case $verb in
  check)
    [ "$(stat -c '%a %u' "$file")" = "600 0" ] || { echo "$file is not readable by root only"; exit 1; }
    ;;
  apply)
    chown 0:0 "$file"
    chmod 600 "$file"
    ;;
  *) echo "usage: file-modes.sh check|apply" >&2; exit 2 ;;
  esac
done
