#!/bin/sh -eu
# Writes blobs into the storage of a registry. Standard input: lines of a number and a digest, each
# followed by that many bytes of the blob; blobs may be interleaved. A line `end` compares a blob with its
# digest and moves it to its place. A line `all` marks the end of a complete stream.
# Arguments: the registry's data directory.
umask 022
root=$1/docker/registry/v2
# A collection of garbage must not remove blobs while they arrive: the kubexm of either script may be dead. Only this script
# and its programs hold the lock.
install -d -m 700 /run/kubexm
exec 8>>/run/kubexm/garbage.lock
flock -s -w 300 8 || { echo "another run still removes blobs on this host after 5 minutes" >&2; exit 1; }
mkdir -p "$root/blobs/sha256"
# Each run has its own directory, because the receiver of a killed run may still work. Directories without a
# lock are leftovers.
for old in "$1"/.kubexm-staging-*; do
  [ ! -d "$old" ] || flock -n "$old" rm -rf "$old" || :
done
staging=$(mktemp -d "$1/.kubexm-staging-XXXXXX")
trap 'rm -rf "$staging"' EXIT
exec 9<"$staging"
flock 9
cd "$staging"
whole=
while read -r count name; do
  case $count in
  all)
    whole=yes
    break
    ;;
  end)
    : >>"$name"
    echo "$name  $name" | sha256sum -c --quiet - >&2
    # list.sh compares only sizes. After a power failure, a file with the final name must not contain zeros.
    sync "$name" 2>/dev/null || sync
    folder=$root/blobs/sha256/$(printf %.2s "$name")/$name
    mkdir -p "$folder"
    mv -fT "$name" "$folder/data"
    sync "$folder" 2>/dev/null || sync
    ;;
  # dd reads exactly one block, because the next line follows it.
  *) dd bs="$count" count=1 iflag=fullblock status=none >>"$name" ;;
  esac
done
if [ -z "$whole" ]; then
  echo "the stream of blobs is incomplete" >&2
  exit 1
fi
