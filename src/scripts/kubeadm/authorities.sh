#!/bin/sh -eu
# Checks whether this host has the authorities of its cluster, or writes those of a backup, before `kubeadm init` would create
# others. It never replaces one.
# Arguments: `check` or `apply`. Standard input of `apply`: a tar archive of files below /etc/kubernetes/pki.
pki=/etc/kubernetes/pki
new=$pki/.kubexm-authorities
case $1 in
check)
  for name in ca.crt ca.key front-proxy-ca.crt front-proxy-ca.key sa.key sa.pub; do
    [ -e "$pki/$name" ] || { echo "$pki/$name does not exist"; exit 1; }
  done
  [ ! -e "$new" ] || { echo "$new is left"; exit 1; }
  ;;
apply)
  (umask 022; mkdir -p "$pki/etcd")
  umask 077
  rm -rf "$new"
  mkdir "$new"
  tar -xf - --no-same-owner -C "$new"
  sync -f "$new" 2>/dev/null || sync
  find "$new" -type f | sort | while IFS= read -r file; do
    target=$pki/${file#"$new"/}
    [ -e "$target" ] || mv -T "$file" "$target"
  done
  # The directory goes first: the check sees only $new, and a run that was killed in between begins again.
  rmdir "$pki/etcd" 2>/dev/null || :
  rm -rf "$new"
  sync -f "$pki" 2>/dev/null || sync
  ;;
*) echo "usage: authorities.sh check|apply" >&2; exit 2 ;;
esac
