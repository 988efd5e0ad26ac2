# shellcheck shell=sh
# Unmounts everything below a path, such as volumes of pods. /proc/mounts has no symbolic links, and \040 for a blank in a path.
# Arguments: path.
unmount_below() {
  awk -v path="$(readlink -f "$1" || echo "$1")/" '{ gsub(/\\040/, " ", $2) } index($2, path) == 1 { print $2 }' /proc/mounts | sort -r |
    while IFS= read -r mount; do
      umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null || :
    done
}
