#!/bin/sh -eu
# Lets the kubelet of a node request certificates with a key of its own, once in a renewal or a rotation of the CA.
# Arguments: one of these verbs; ID of the renewal or rotation; for `request`, further files of certificates to remove.
#   check    checks whether it has got certificates
#   request  removes its certificate: it requests another one when it starts, with the first certificate in its kubeconfig.
#            Standard input is a new kubeconfig, or empty
#   issued   checks whether it has a certificate
#   name     lets its kubeconfig name the file of its certificate instead of the first one, and does what `record` does
#   record   records that it has got certificates
verb=$1 id=$2
shift 2
live=/etc/kubernetes/kubelet.conf
own=/var/lib/kubelet/pki/kubelet-client-current.pem
# The ID of the latest renewal or rotation in which the kubelet got a certificate.
mark=/var/lib/kubexm/kubelet-renewed
umask 077
is_recorded() { [ "$(cat "$mark" 2>/dev/null)" = "$id" ]; }
case $verb in
check) is_recorded || { echo "its certificates are older, have expired or are lost"; exit 1; } ;;
request)
  cat >"$live.kubexm-new"
  [ ! -s "$live.kubexm-new" ] || replace "$live.kubexm-new" "$live"
  rm -f "$live.kubexm-new"
  # A kubelet with a valid certificate requests none, such as the one that an interrupted run has started.
  rm -f "$own" "$@"
  systemctl restart kubelet.service || :
  ;;
issued) is_recorded || [ -s "$own" ] || { echo "the kubelet does not get a certificate"; exit 1; } ;;
name | record)
  [ "$verb" = record ] || {
    sed -e "s|client-certificate-data: .*|client-certificate: $own|" -e "s|client-key-data: .*|client-key: $own|" \
      "$live" >"$live.kubexm-new"
    replace "$live.kubexm-new" "$live"
  }
  printf '%s\n' "$id" >"$mark.new"
  replace "$mark.new" "$mark"
  ;;
*) echo "usage: kubelet-certificates.sh check|request|issued|name|record" >&2; exit 2 ;;
esac
