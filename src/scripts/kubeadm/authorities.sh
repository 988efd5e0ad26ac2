#!/bin/sh -eu
# Checks whether this host has authorities of its cluster, or writes those of a backup or of the site, before `kubeadm init` would
# create others. It never replaces one.
# Arguments: `check` or `apply`, and the names of the files below /etc/kubernetes/pki. Standard input of `apply`: a tar archive of
# them.
pki=/etc/kubernetes/pki
new=$pki/.kubexm-authorities
verb=$1
shift
case $verb in
check)
  for name; do
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
    # A load balancer in a pod reads the CA, and is not root.
    case $file in *.crt | *.pub) chmod 644 "$file" ;; esac
    [ -e "$target" ] || mv -T "$file" "$target"
  done
  # The directory goes first: the check sees only $new, and a run that was killed in between begins again.
  rmdir "$pki/etcd" 2>/dev/null || :
  rm -rf "$new"
  sync -f "$pki" 2>/dev/null || sync
  ;;
*) echo "usage: authorities.sh check|apply NAME…" >&2; exit 2 ;;
esac
