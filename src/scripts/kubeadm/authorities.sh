#!/bin/sh -eu
# Checks whether this host has the authorities of its cluster, or writes those of a backup, before `kubeadm init` would create
# others. It never replaces one.
# Arguments: `check` or `apply`. Standard input of `apply`: a tar archive of files below /etc/kubernetes/pki.
pki=/etc/kubernetes/pki
names="ca.crt ca.key front-proxy-ca.crt front-proxy-ca.key sa.key sa.pub"
case $1 in
check)
  for name in $names; do
    [ -e "$pki/$name" ] || { echo "$pki/$name does not exist"; exit 1; }
  done
  ;;
apply)
  umask 077
  mkdir -p "$pki"
  tar -xf - --skip-old-files --no-same-owner -C "$pki"
  sync -f "$pki" 2>/dev/null || sync
  ;;
*) echo "usage: authorities.sh check|apply" >&2; exit 2 ;;
esac
