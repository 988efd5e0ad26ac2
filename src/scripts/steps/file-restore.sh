#!/bin/sh -eu
# Restores a file from its copy. Replaces the file at its path instead of writing to it, because it may be a
# link.
# Arguments: path, path of the copy.
[ -e "$2" ] || [ -L "$2" ] || exit 0
folder=$(dirname "$1")
mkdir -p "$folder"
rm -f "$folder/.$(basename "$1")".kubexm-*
new=$folder/.$(basename "$1").kubexm-old
cp -a "$2" "$new"
replace "$new" "$1"
