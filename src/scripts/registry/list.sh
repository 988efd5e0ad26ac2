#!/bin/sh -eu
# Prints what is in the storage of a registry: `storage` if it exists; `blob`, directory and size of each blob; `link`, path
# and digest of each link. A link that a power failure left empty has no digest.
# Arguments: the registry's data directory.
# The script of a collection of garbage whose kubexm was killed may still remove blobs. An upload that counted on them would leave
# images without content.
lock=/run/kubexm/garbage.lock
if [ -e "$lock" ]; then
  exec 8<"$lock"
  flock -s -w 300 8 || { echo "another run still removes blobs on this host after 5 minutes" >&2; exit 1; }
fi
root=$1/docker/registry/v2
[ -d "$root" ] || exit 0
cd "$root"
# What is only a part of the storage must not look like the whole.
failed() {
  echo "cannot read all of $root" >&2
  echo "hint: look for errors of the disk in the kernel's log of this host (dmesg), and check its file system" >&2
  exit 1
}
[ ! -d blobs ] || find blobs -ignore_readdir_race -type f -name data -printf 'blob %h %s\n' || failed
[ -d repositories ] || exit 0
echo storage
links=$(find repositories -ignore_readdir_race -type f -name link) || failed
[ -n "$links" ] || exit 0
while read -r path; do
  digest=
  # It fails at the end of the file, because a link has no end of a line.
  read -r digest <"$path" || :
  if [ -z "$digest" ] && ! cat "$path" >/dev/null; then
    # Another run may remove it meanwhile.
    [ ! -e "$path" ] || failed
    continue
  fi
  echo "link $path $digest"
done <<LINKS
$links
LINKS
