#!/bin/sh -eu
# Removes a file, its temporary files, and the folders that were made for it and are empty.
# Arguments: path, folders with the innermost first.
rm -f "$1" "$(dirname "$1")/.$(basename "$1")".kubexm-*
shift
for folder in "$@"; do rmdir "$folder" 2>/dev/null || :; done
