#!/bin/sh -eu
# Takes a snapshot of etcd from the member on this host.
#   has-data  exits with 0 if the member has data
#   save      writes the snapshot, and prints its size in bytes and its SHA-256
#   read      prints a part of it, of 8 MiB
#   remove    removes it
# Arguments: verb; `kubeadm` or `systemd`, which runs etcd; its data directory; for `read` the number of the part, from 0.
verb=$1 kind=$2 data=$3
export PATH="/usr/local/bin:$PATH"
case $kind in
# The container of the member sees only its data directory.
kubeadm) file=$data/kubexm-snapshot.db ;;
systemd) file=/var/lib/kubexm/etcd-snapshot.db ;;
*) echo "usage: snapshot.sh has-data|save|read|remove kubeadm|systemd" >&2; exit 2 ;;
esac
save() {
  umask 077
  rm -f "$file" "$file.part"
  if [ "$kind" = systemd ]; then
    timeout 600 etcdctl --command-timeout=300s snapshot save "$file" >/dev/null
    return
  fi
  container=$(crictl ps -q --state running --name '^etcd$' | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run" >&2; exit 1; }
  pki=/etc/kubernetes/pki/etcd
  # The first address is that of the loopback interface, in the address family of the member.
  server=$(sed -n '/--listen-client-urls=/{s/.*--listen-client-urls=//;s/[,"].*//;p;q;}' \
    /etc/kubernetes/manifests/etcd.yaml 2>/dev/null || :)
  timeout 600 crictl exec -s "$container" etcdctl --command-timeout=300s --endpoints "${server:-https://127.0.0.1:2379}" \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" snapshot save "$file" >/dev/null
}
case $verb in
has-data) [ -n "$(find "$data/member/wal" -name '*.wal' 2>/dev/null | head -n 1)" ] ;;
save)
  save
  echo "$(wc -c <"$file") $(sha256sum <"$file" | cut -d' ' -f1)"
  ;;
read) dd if="$file" bs=8388608 skip="$4" count=1 status=none ;;
remove) rm -f "$file" "$file.part" ;;
*) echo "usage: snapshot.sh has-data|save|read|remove kubeadm|systemd" >&2; exit 2 ;;
esac
