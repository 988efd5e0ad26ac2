#!/bin/sh -eu
# Writes blobs into the storage of a registry. Standard input: lines of a number and a digest, each
# followed by that many bytes of the blob; blobs may be interleaved. A line `end` compares a blob with its
# digest and moves it to its place. A line `all` says that nothing was cut off.
# Arguments: the registry's data folder.
umask 022
root=$1/docker/registry/v2
mkdir -p "$root/blobs/sha256"
# Each run has its own folder: a killed run's receiver may still be at work. Folders without a lock are
# left over.
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
    # list.sh compares sizes only: after a power cut a name must never stand for zeros.
    sync "$name" 2>/dev/null || sync
    folder=$root/blobs/sha256/$(printf %.2s "$name")/$name
    mkdir -p "$folder"
    mv -f "$name" "$folder/data"
    ;;
  # One block; dd never reads beyond its end, since the next line follows.
  *) dd bs="$count" count=1 iflag=fullblock status=none >>"$name" ;;
  esac
done
if [ -z "$whole" ]; then
  echo "what was sent ends too early" >&2
  exit 1
fi
