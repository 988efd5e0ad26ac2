#!/bin/sh -eu
# Finds or removes what no manifest in the storage of a registry needs: `blob`, digest and size of each blob, and `link` and
# path of each link to such a blob. It needs each blob whose digest a manifest contains, and what such a blob contains in
# turn: platforms of an index, configurations, layers, subjects of referrers. The registry can serve pulls meanwhile.
# Arguments: `list` or `remove`, the registry's data directory.
verb=$1
export LC_ALL=C
cd "$2/docker/registry/v2" 2>/dev/null || exit 0
[ -d blobs ] || exit 0
install -d -m 700 /run/kubexm
# Each run has its own directory, because another run may look for garbage, and the script of a killed run may still work.
# Directories without a lock are leftovers.
for old in /run/kubexm/garbage-*; do
  [ ! -d "$old" ] || flock -n "$old" rm -rf "$old" || :
done
work=$(mktemp -d /run/kubexm/garbage-XXXXXX)
trap 'rm -rf "$work"' EXIT
exec 9<"$work"
flock 9
if [ "$verb" = remove ]; then
  # receive.sh and link.sh share this lock: blobs of an upload stay, and no blob gets a link after this script looks for links.
  exec 8>/run/kubexm/garbage.lock
  flock -w 300 8 || { echo "another run still removes blobs or adds images on this host after 5 minutes" >&2; exit 1; }
fi
# Each command writes to a file: a pipeline would hide its failure, and a blob would look needless. The files are in memory.
# They have names and digests alone, and `listed` and `edited` serve several times.
digests() { # FILE: prints the hexadecimal digests that the files in this list contain, sorted
  xargs sh -c 'grep -aohE "sha256:[0-9a-f]{64}" "$@" || [ $? -eq 1 ]' grep <"$1" >"$work/listed"
  cut -d: -f2 "$work/listed" >"$work/edited"
  sort -u "$work/edited"
}
find blobs -type f -name data -printf '%h %s\n' >"$work/listed"
sed 's,^blobs/sha256/../,,' "$work/listed" >"$work/edited"
sort "$work/edited" >"$work/present"
cut -d' ' -f1 "$work/present" >"$work/names"
# A registry accepts no larger manifest.
awk '$2 <= 4194304 { print $1 }' "$work/present" >"$work/small"
find repositories -type f -path '*/_manifests/*/link' -print >"$work/links"
# The index of a tag keeps each manifest that the tag ever named. Such a link counts only while the manifest exists; the
# current manifest of a tag counts by another link.
awk 'NR == FNR { exists[$0]; next }
  { path = $0 }
  sub("/_manifests/tags/[^/]*/index/", "/_manifests/revisions/", path) && !(path in exists) { next }
  { print }' "$work/links" "$work/links" >"$work/roots"
digests "$work/roots" >"$work/targets"
# The path of a link has the digest, too: an empty file of a power failure hides none.
sed -n 's,^.*/sha256/\([0-9a-f]\{64\}\)/link$,\1,p' "$work/roots" >>"$work/targets"
sort -u "$work/targets" >"$work/needed"
comm -12 "$work/needed" "$work/small" >"$work/next"
while [ -s "$work/next" ]; do
  sed 's,^\(..\).*$,blobs/sha256/\1/&/data,' "$work/next" >"$work/paths"
  # Manifests and configurations are JSON objects. Layers contain no digests, and are too many to read. What awk does not
  # name is read, so that a blob that it cannot read stops this run.
  xargs awk 'FNR == 1 { if (!/^[ \t\r]*([{]|$)/) print FILENAME; nextfile }' <"$work/paths" >"$work/layers"
  comm -23 "$work/paths" "$work/layers" >"$work/objects"
  digests "$work/objects" >"$work/named"
  comm -13 "$work/needed" "$work/named" >"$work/new"
  sort -u "$work/needed" "$work/new" >"$work/more"
  cat "$work/more" >"$work/needed"
  comm -12 "$work/new" "$work/small" >"$work/next"
done
join -v 2 -o 2.1,2.2 "$work/needed" "$work/present" >"$work/garbage"
comm -12 "$work/needed" "$work/names" >"$work/kept"
find repositories -type f '(' -path '*/_layers/sha256/*/link' -o -path '*/_manifests/tags/*/index/sha256/*/link' ')' \
  -print >"$work/listed"
sed 's,.*/sha256/\([0-9a-f]*\)/link$,\1 &,' "$work/listed" >"$work/edited"
sort "$work/edited" >"$work/by-digest"
join -v 2 -o 2.2 "$work/kept" "$work/by-digest" >"$work/dead"
sed 's/^/blob /' "$work/garbage"
sed 's/^/link /' "$work/dead"
case $verb in
list) exit 0 ;;
remove) ;;
*) echo "usage: garbage.sh list|remove" >&2; exit 2 ;;
esac
# A link without its blob would promise what the registry does not have.
while read -r path; do rm -rf "${path%/link}"; done <"$work/dead"
sync -f . 2>/dev/null || sync
while read -r name _; do rm -rf "blobs/sha256/$(printf %.2s "$name")/$name"; done <"$work/garbage"
# A killed run leaves empty directories.
find blobs -mindepth 2 -type d -empty -delete
find repositories -mindepth 1 -type d -empty -delete
sync -f . 2>/dev/null || sync
