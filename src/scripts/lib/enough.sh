# shellcheck shell=sh
# Fails if a restore has no space at a path. An etcd that runs ends if its disk is full.
# Arguments: path, MiB.
enough() {
  have=$(($(df -Pk "$1" | awk 'NR == 2 { print $4 }') / 1024)) needed=$(($2 + 256))
  [ "$have" -ge "$needed" ] || {
    printf '%s\n' "$1 has $have MiB of free space, and the restore needs $needed MiB there" \
      "hint: make room there; nothing has changed yet" >&2
    exit 1
  }
}
