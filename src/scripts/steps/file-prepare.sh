#!/bin/sh -eu
# Copies a file that is about to be overwritten and prints what the receipt must record: `backup` and the
# copy, or a line `folder` for each directory that does not exist yet, the innermost first. Prints `ours` for
# a secret file that kubexm created: the receipt has its record, and a copy would keep an old secret on the host.
# Also copies what another install or an administrator wrote, to /var/lib/kubexm/previous and the path.
#   path    where the file is
#   secret  `yes` if the content is secret
#   digest  SHA-256 of the new content, without a value for a secret
: "${verb=}" "${path=}" "${secret=}" "${digest=}"
if [ -d "$path" ] && [ ! -L "$path" ]; then
  printf '%s\n' "$path is a directory, but kubexm must write a file there" "hint: move it away" >&2
  exit 1
fi
backup=/var/lib/kubexm/backup/$(printf %s "$path" | sha256sum | cut -c1-32)
if [ -e "$path" ] || [ -L "$path" ]; then
  first=$(grep -sF "\"path\":\"$path\"" /var/lib/kubexm/receipt.jsonl |
    grep -E '"kind":"(removeFile|restoreFile)"' | sed -n 1p)
  case $secret$first in
  yes*'"kind":"removeFile"'*)
    # Earlier versions of kubexm copied it.
    rm -f "$backup"
    echo ours
    exit 0
    ;;
  esac
  umask 077
  mkdir -p /var/lib/kubexm/backup
  if [ ! -e "$backup" ] && [ ! -L "$backup" ]; then
    # The copy gets its name when it is complete, because a reset would restore an incomplete one.
    cp -a "$path" "$backup.partial"
    replace "$backup.partial" "$backup"
  fi
  if [ -n "$digest" ] && [ -f "$path" ] && [ ! -L "$path" ] && [ "$(sha256sum <"$path" | cut -d' ' -f1)" != "$digest" ]; then
    previous=/var/lib/kubexm/previous$path
    mkdir -p "$(dirname "$previous")"
    cp -a "$path" "$previous.partial"
    replace "$previous.partial" "$previous"
  fi
  echo "backup $backup"
else
  folder=$(dirname "$path")
  while [ ! -d "$folder" ]; do echo "folder $folder"; folder=$(dirname "$folder"); done
fi
