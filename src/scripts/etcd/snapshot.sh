#!/bin/sh -eu
# Takes a snapshot of etcd from the member on this host, and reads what a backup records about it.
#   has-data  exits with 0 if the member has data
#   save      writes the snapshot, and prints its size in bytes and its SHA-256. It stays until `remove`, for at most six hours
#             or until the host starts again
#   describe  prints what etcdutl reads in the snapshot, as JSON
#   read      prints a part of it, of 8 MiB
#   remove    removes it
#   program   prints path, size and SHA-256 of the program etcdutl of the same version as the member
#   read-program  prints a part of that program, of 8 MiB
# `kind` is `kubeadm` or `systemd`, which runs etcd; `data` is its data directory. For `read` and `read-program`: `part`, its
# number from 0.
: "${verb=}" "${kind=}" "${data=}" "${part=}"
export PATH="/usr/local/bin:$PATH"
case $kind in
# The container of the member sees only its data directory.
kubeadm) file=$data/kubexm-snapshot.db ;;
systemd) file=/var/lib/kubexm/etcd-snapshot.db ;;
*) echo "usage: snapshot.sh has-data|save|describe|read|remove|program|read-program kubeadm|systemd" >&2; exit 2 ;;
esac
timer=kubexm-snapshot
boot=/etc/tmpfiles.d/$timer.conf
# MiB for the writes of etcd while the snapshot exists.
reserve=256
most=600
# Prints the path of the program. That of a container is visible below the root directory of its process.
program() {
  if [ "$kind" = systemd ]; then
    command -v etcdutl
    return
  fi
  for process in /proc/[0-9]*; do
    [ "$(cat "$process/comm" 2>/dev/null || :)" = etcd ] || continue
    tr '\0' '\n' <"$process/cmdline" 2>/dev/null | grep -qxF -e "--data-dir=$data" || continue
    path=$(readlink "$process/exe") || continue
    found=$process/root${path%/*}/etcdutl
    if [ -f "$found" ]; then
      printf '%s\n' "$found"
      return
    fi
  done
  echo "the container of etcd does not run, or its image has no etcdutl" >&2
  exit 1
}
case $verb in
has-data) [ -n "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ] ;;
save)
  umask 077
  rm -f "$file" "$file.part"
  systemctl stop "$timer.timer" 2>/dev/null || :
  # A kubexm that was killed does not call `remove`, and the snapshot has the Secrets of the cluster.
  systemd-run --quiet --collect --unit="$timer" --on-active=6h /bin/rm -f "$file" "$file.part" "$boot"
  # The timer does not survive a reboot. systemd-tmpfiles removes the snapshot then, and this file.
  (umask 022; mkdir -p "${boot%/*}")
  printf 'r! "%s"\n' "$file" "$file.part" "$boot" >"$boot"
  sync "$boot" 2>/dev/null || sync
  # etcd ends if its disk is full. A snapshot is not larger than the database.
  size=$(stat -c %s "$data/member/snap/db" 2>/dev/null || echo 0)
  needed=$((size / 1048576 + 1 + reserve))
  free=$(df -P -m "${file%/*}" | awk 'END { print $4 }')
  [ "$free" -ge "$needed" ] || {
    echo "${file%/*} has $free MiB of free space, and the snapshot needs $needed MiB with $reserve MiB for etcd" >&2
    exit 1
  }
  etcdctl_of_member --command-timeout=300s snapshot save "$file" >/dev/null
  echo "$(wc -c <"$file") $(sha256sum <"$file" | cut -d' ' -f1)"
  ;;
describe)
  if [ "$kind" = systemd ]; then
    timeout "$most" etcdutl snapshot status "$file" -w json
  else
    in_etcd etcdutl snapshot status "$file" -w json
  fi
  ;;
read) dd if="$file" bs=8388608 skip="$part" count=1 status=none ;;
remove)
  rm -f "$file" "$file.part" "$boot"
  systemctl stop "$timer.timer" 2>/dev/null || :
  ;;
program)
  found=$(program)
  echo "$found $(wc -c <"$found") $(sha256sum <"$found" | cut -d' ' -f1)"
  ;;
read-program)
  found=$(program)
  dd if="$found" bs=8388608 skip="$part" count=1 status=none
  ;;
*) echo "usage: snapshot.sh has-data|save|describe|read|remove|program|read-program kubeadm|systemd" >&2; exit 2 ;;
esac
