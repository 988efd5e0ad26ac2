#!/bin/sh -eu
# Gives the kubelet of a node a kubeconfig with a new certificate, because its own one has expired or is lost. The kubelet then
# requests a certificate with a key of its own, and its kubeconfig names the file of that certificate again.
# Arguments: `check` or `apply`; ID of the renewal. Standard input of `apply`: the kubeconfig.
verb=$1 id=$2
live=/etc/kubernetes/kubelet.conf
own=/var/lib/kubelet/pki/kubelet-client-current.pem
# The ID of the latest renewal in which the kubelet got a certificate.
mark=/var/lib/kubexm/kubelet-renewed
umask 077
case $verb in
check) [ "$(cat "$mark" 2>/dev/null)" = "$id" ] || { echo "its certificate has expired or is lost"; exit 1; } ;;
apply)
  cat >"$live.kubexm-new"
  replace "$live.kubexm-new" "$live"
  # A kubelet with a valid certificate requests none, such as the one that an interrupted run has started.
  rm -f "$own"
  systemctl restart kubelet || :
  left=90
  until [ -n "$(find -L "$own" -newer "$live" 2>/dev/null)" ]; do
    left=$((left - 1))
    if [ "$left" -le 0 ]; then
      {
        echo "the kubelet does not get a certificate"
        journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
        echo "hint: correct what its log names, then run the same command again"
      } >&2
      exit 1
    fi
    sleep 2
  done
  sed -e "s|client-certificate-data: .*|client-certificate: $own|" -e "s|client-key-data: .*|client-key: $own|" \
    "$live" >"$live.kubexm-new"
  replace "$live.kubexm-new" "$live"
  printf '%s\n' "$id" >"$mark.new"
  replace "$mark.new" "$mark"
  ;;
*) echo "usage: kubelet-credentials.sh check|apply" >&2; exit 2 ;;
esac
