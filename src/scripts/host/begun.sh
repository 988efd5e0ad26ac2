#!/bin/sh -eu
# Records on the host which commands have begun on its cluster, and waits until the record is on disk. Exits with status 3 on a
# host that belongs to no cluster: a reset must leave nothing there.
# Arguments: the record, one line.
umask 077
folder=/var/lib/kubexm
[ -s "$folder/cluster" ] || exit 3
rm -f "$folder"/.begun-*
new=$(mktemp "$folder/.begun-XXXXXX")
printf '%s\n' "$1" >"$new"
replace "$new" "$folder/begun.json"
