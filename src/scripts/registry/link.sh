#!/bin/sh -eu
# Writes links into the storage of a registry. Standard input: lines of path and digest, tags last. Fails before the first
# link if the storage does not have the blob of each one.
# Arguments: the registry's data directory.
umask 022
cd "$1/docker/registry/v2"
rm -f "$1"/.kubexm-links-*
links=$(mktemp "$1/.kubexm-links-XXXXXX")
trap 'rm -f "$links"' EXIT
cat >"$links"
# A collection of garbage must not run between the look at the blobs and the last link: the kubexm of either script may be
# dead. Only this script and its programs hold the lock.
install -d -m 700 /run/kubexm
exec 8>>/run/kubexm/garbage.lock
flock -s -w 300 8 || { echo "another run still removes blobs on this host after 5 minutes" >&2; exit 1; }
while read -r path digest; do
  # Names of repositories and tags can come from another host.
  case $path in
  */../* | */./* | *//*) echo "'$path' is not a path in a registry" >&2; exit 2 ;;
  repositories/*/_layers/sha256/*/link | repositories/*/_manifests/revisions/sha256/*/link) ;;
  repositories/*/_manifests/tags/*/current/link | repositories/*/_manifests/tags/*/index/sha256/*/link) ;;
  *) echo "'$path' is not a link in a registry" >&2; exit 2 ;;
  esac
  hex=${digest#sha256:}
  [ -e "blobs/sha256/${hex%"${hex#??}"}/$hex/data" ] || {
    echo "the blob of $path does not exist: another run has removed it" >&2
    echo "hint: run the same command again, which sends the blob again" >&2
    exit 1
  }
done <"$links"
while read -r path digest; do
  mkdir -p "${path%/*}"
  printf %s "$digest" >"$path.partial"
done <"$links"
# The content of all links reaches the disk before their names do. One call for all of them is faster than
# one for each.
sync -f . 2>/dev/null || sync
while read -r path digest; do mv -fT "$path.partial" "$path"; done <"$links"
sync -f . 2>/dev/null || sync
