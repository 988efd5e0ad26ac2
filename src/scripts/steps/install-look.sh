#!/bin/sh -eu
# Prints the number of each file that differs, from 0.
# Arguments: path, SHA-256 and mode of each file.
number=0
while [ $# -gt 0 ]; do
  if [ -f "$1" ] && [ ! -L "$1" ] && [ "$(stat -c '%a %u' "$1")" = "$3 0" ] &&
    [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; then :; else echo "$number"; fi
  number=$((number + 1))
  shift 3
done
