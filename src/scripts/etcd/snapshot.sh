#!/bin/sh -eu
# Takes a snapshot of etcd from the member on this host, and reads what a backup records about it.
#   has-data  exits with 0 if the member has data
#   status    prints the status of the member, as JSON of etcdctl
#   save      writes the snapshot, and prints its size in bytes and its SHA-256
#   describe  prints in two lines what etcdutl reads in the snapshot, as JSON, and how many keys the member has at the
#             revision of the snapshot
#   read      prints a part of it, of 8 MiB
#   remove    removes it
#   program   prints path, size and SHA-256 of the program etcdutl of the same version as the member
#   read-program  prints a part of that program, of 8 MiB
# Arguments: verb; `kubeadm` or `systemd`, which runs etcd; its data directory; for `read` and `read-program` the number of the
# part, from 0.
verb=$1 kind=$2 data=$3
export PATH="/usr/local/bin:$PATH"
case $kind in
# The container of the member sees only its data directory.
kubeadm) file=$data/kubexm-snapshot.db ;;
systemd) file=/var/lib/kubexm/etcd-snapshot.db ;;
*) echo "usage: snapshot.sh has-data|status|save|describe|read|remove|program|read-program kubeadm|systemd" >&2; exit 2 ;;
esac
# MiB for the writes of etcd while the snapshot exists.
reserve=256
# Runs a program in the container of the member.
# Arguments: program and its arguments.
in_container() {
  container=$(crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$' | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run" >&2; exit 1; }
  timeout 600 crictl exec -s "$container" "$@"
}
# Arguments: those of etcdctl.
etcdctl_of_member() {
  if [ "$kind" = systemd ]; then
    timeout 600 etcdctl "$@"
    return
  fi
  pki=/etc/kubernetes/pki/etcd
  # The first address is that of the loopback interface, in the address family of the member.
  server=$(sed -n '/--listen-client-urls=/{s/.*--listen-client-urls=//;s/[,"].*//;p;q;}' \
    /etc/kubernetes/manifests/etcd.yaml 2>/dev/null || :)
  in_container etcdctl --endpoints "${server:-https://127.0.0.1:2379}" \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}
# Arguments: those of etcdutl.
etcdutl_of_member() {
  if [ "$kind" = systemd ]; then timeout 600 etcdutl "$@"; else in_container etcdutl "$@"; fi
}
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
status) etcdctl_of_member --command-timeout=10s endpoint status -w json ;;
save)
  umask 077
  rm -f "$file" "$file.part"
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
  found=$(etcdutl_of_member snapshot status "$file" -w json)
  revision=$(printf '%s\n' "$found" | sed -n 's/.*"revision":\([0-9]*\).*/\1/p')
  printf '%s\n' "$found"
  # Without a quorum, only the member itself answers.
  etcdctl_of_member --command-timeout=60s get '' --from-key --count-only "--rev=${revision:-0}" --consistency=s -w fields |
    sed -n 's/^"Count" : //p'
  ;;
read) dd if="$file" bs=8388608 skip="$4" count=1 status=none ;;
remove) rm -f "$file" "$file.part" ;;
program)
  found=$(program)
  echo "$found $(wc -c <"$found") $(sha256sum <"$found" | cut -d' ' -f1)"
  ;;
read-program)
  found=$(program)
  dd if="$found" bs=8388608 skip="$4" count=1 status=none
  ;;
*) echo "usage: snapshot.sh has-data|status|save|describe|read|remove|program|read-program kubeadm|systemd" >&2; exit 2 ;;
esac
