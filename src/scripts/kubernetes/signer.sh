#!/bin/sh -eu
# Lets the unit of the controller manager sign with a certificate, which is the only one in its file. Its next start uses it.
# Arguments: `check` or `apply`, the path of the certificate.
verb=$1 wanted=$2
unit=/etc/systemd/system/kube-controller-manager.service
flag=--cluster-signing-cert-file
signer() { sed -n "s,^ *$flag=\([^ ]*\).*,\1,p" "$unit"; }
case $verb in
check)
  found=$(signer 2>/dev/null) || found=
  [ "$found" = "$wanted" ] || { echo "the controller manager signs with ${found:-the file of another flag}"; exit 1; }
  ;;
apply)
  [ -n "$(signer)" ] || {
    echo "$unit has no flag $flag" >&2
    echo "hint: cancel the rotation, and run kubexm install, which writes the unit again" >&2
    exit 1
  }
  # systemd ignores names without the type of a unit.
  new=$unit.kubexm-new
  cp -p "$unit" "$new"
  sed "s,^\( *$flag=\)[^ ]*,\1$wanted," "$unit" >"$new"
  replace "$new" "$unit"
  ;;
*) echo "usage: signer.sh check|apply" >&2; exit 2 ;;
esac
