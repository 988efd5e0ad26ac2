#!/bin/sh -eu
# Removes a file, its temporary files, and the empty directories that were created for it.
# Arguments: path, directories with the innermost first.
rm -f "$1" "$(dirname "$1")/.$(basename "$1")".kubexm-*
shift
for folder in "$@"; do rmdir "$folder" 2>/dev/null || :; done
