#!/bin/sh -eu
# Finds or removes what no manifest in the storage of a registry needs: `blob`, digest and size of each blob, and `link` and
# path of each link to such a blob. It needs each blob whose digest a manifest contains, and what such a blob contains in
# turn: platforms of an index, configurations, layers, subjects of referrers. The registry can serve pulls meanwhile.
# Arguments: `list` or `remove`, the registry's data directory.
verb=$1
export LC_ALL=C
cd "$2/docker/registry/v2" 2>/dev/null || exit 0
[ -d blobs ] || exit 0
work=/run/kubexm/garbage
install -d -m 700 /run/kubexm
rm -rf "$work"
install -d -m 700 "$work"
trap 'rm -rf "$work"' EXIT
digests() { # FILE: the hexadecimal digests in it, sorted
  grep -aoE 'sha256:[0-9a-f]{64}' "$1" >"$work/found" || [ $? -eq 1 ]
  cut -d: -f2 "$work/found" | sort -u
}
paths() { sed 's,^\(..\).*$,blobs/sha256/\1/&/data,'; }
# Each command that reads writes to a file first: a pipeline would hide its failure, and a blob would look needless.
find blobs -type f -name data -printf '%h %s\n' >"$work/all"
sed 's,^blobs/sha256/../,,' "$work/all" | sort >"$work/present"
# Manifests and configurations are small. Larger blobs are layers, which contain no digests.
awk '$2 <= 4194304 { print $1 }' "$work/present" >"$work/small"
find repositories -type f -path '*/_manifests/*/link' -print >"$work/links"
find repositories -type f -path '*/_manifests/*/link' -exec cat {} + >"$work/targets"
# The path of a link has the digest, too: an empty file of a power failure hides none.
sed 's,.*/sha256/\([0-9a-f]\{64\}\)/link$,sha256:\1,' "$work/links" >>"$work/targets"
digests "$work/targets" >"$work/needed"
cut -d' ' -f1 "$work/present" | comm -12 "$work/needed" - >"$work/next"
while [ -s "$work/next" ]; do
  paths <"$work/next" | xargs cat >"$work/text"
  digests "$work/text" | comm -13 "$work/needed" - >"$work/new"
  sort -u "$work/needed" "$work/new" >"$work/more"
  cat "$work/more" >"$work/needed"
  comm -12 "$work/new" "$work/small" >"$work/next"
done
join -v 2 -o 2.1,2.2 "$work/needed" "$work/present" >"$work/garbage"
cut -d' ' -f1 "$work/present" | comm -12 "$work/needed" - >"$work/kept"
find repositories -type f -path '*/_layers/sha256/*/link' -print >"$work/layers"
sed 's,.*/sha256/\([0-9a-f]*\)/link$,\1 &,' "$work/layers" | sort >"$work/by-digest"
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
