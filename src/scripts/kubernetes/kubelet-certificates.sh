#!/bin/sh -eu
# Lets the kubelet request certificates with new keys, once in a rotation of the CA. A kubelet without its file uses the
# certificate in its kubeconfig to request another one.
# Arguments: `check` or `apply`; `server` for the certificate of its server, which it requests at its next start, or `all`, which
# restarts it; ID of the rotation.
verb=$1 which=$2 id=$3
pki=/var/lib/kubelet/pki
# The ID of the latest rotation in which the kubelet removed its files.
mark=/var/lib/kubexm/kubelet-rotated
umask 077
# Gives a complete file its name. The content reaches the disk before the name does, and the name before the
# script goes on.
replace() {
  [ -L "$1" ] || sync "$1" 2>/dev/null || sync
  mv -fT "$1" "$2" || return
  sync "$(dirname "$2")" 2>/dev/null || sync
}
case $verb in
check) [ "$(cat "$mark" 2>/dev/null)" = "$id" ] || { echo "its certificates are older than this rotation"; exit 1; } ;;
apply)
  rm -f "$pki/kubelet-server-current.pem"
  if [ "$which" = all ]; then
    rm -f "$pki/kubelet-client-current.pem"
    systemctl restart kubelet.service
    left=90
    until [ -s "$pki/kubelet-client-current.pem" ]; do
      left=$((left - 1))
      if [ "$left" -le 0 ]; then
        {
          echo "the kubelet does not get a certificate"
          journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
        } >&2
        exit 1
      fi
      sleep 2
    done
  fi
  printf '%s\n' "$id" >"$mark.new"
  replace "$mark.new" "$mark"
  ;;
*) echo "usage: kubelet-certificates.sh check|apply server|all" >&2; exit 2 ;;
esac
