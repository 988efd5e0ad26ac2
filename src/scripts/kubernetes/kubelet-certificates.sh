#!/bin/sh -eu
# Removes the certificates of the kubelet, once in a rotation of the CA: it requests others when it starts, with the certificate in
# its kubeconfig.
# Arguments: `check` or `apply`; `remove`, or `restart` to restart the kubelet, too; ID of the rotation.
verb=$1 what=$2 id=$3
pki=/var/lib/kubelet/pki
# The ID of the latest rotation in which the kubelet removed its files.
mark=/var/lib/kubexm/kubelet-rotated
umask 077
case $verb in
check) [ "$(cat "$mark" 2>/dev/null)" = "$id" ] || { echo "its certificates are older than this rotation"; exit 1; } ;;
apply)
  rm -f "$pki/kubelet-server-current.pem" "$pki/kubelet-client-current.pem"
  if [ "$what" = restart ]; then
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
*) echo "usage: kubelet-certificates.sh check|apply remove|restart" >&2; exit 2 ;;
esac
