#!/bin/sh -eu
# A part of the rotation of authorities on a node of kubeadm, after their files have changed.
# Arguments: `check` or `apply`, and one of these:
#   signer CERTIFICATE        the controller manager signs with this certificate, which is the only one in its file
#   kubeconfigs CAS           the kubeconfigs of this node trust exactly these CAs, in PEM, and the kubelet uses its own
verb=$1 part=$2
shift 2
export PATH="/usr/local/bin:$PATH"
umask 077
live=/etc/kubernetes
manager=$live/manifests/kube-controller-manager.yaml
# The digest of the kubeconfig with which the kubelet started.
mark=/var/lib/kubexm/started/kubelet.conf
# Writes a file that differs from standard input. The kubelet ignores names that start with a dot.
put() {
  new=$(dirname "$1")/.kubexm-new
  cp -p "$1" "$new"
  cat >"$new"
  replace "$new" "$1"
}
flag=--cluster-signing-cert-file
signer() { sed -n "s,^ *- $flag=,,p" "$manager"; }
kubeconfigs() {
  for name in admin super-admin controller-manager scheduler kubelet; do
    [ ! -f "$live/$name.conf" ] || echo "$live/$name.conf"
  done
}
# Prints the CAs in a kubeconfig, in base64.
cas_in() { sed -n '/^ *certificate-authority-data:/{s/^[^:]*: *//;s/"//g;p;q;}' "$1"; }
encoded() { printf '%s' "$1" | base64 -w 0; }
digest() { sha256sum <"$1" | cut -d' ' -f1; }
is_marked() { [ "$(cat "$mark" 2>/dev/null)" = "$(digest "$live/kubelet.conf")" ]; }
restart_kubelet() {
  systemctl restart kubelet.service || :
  round=0
  until [ "$round" -ge 3 ]; do
    round=$((round + 1))
    sleep 1
    systemctl is-active --quiet kubelet.service && continue
    {
      echo "the kubelet does not run with its new kubeconfig"
      journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
    } >&2
    exit 1
  done
  mkdir -p "${mark%/*}"
  digest "$live/kubelet.conf" >"$mark.new"
  replace "$mark.new" "$mark"
}
case $verb-$part in
check-signer)
  found=$(signer)
  [ "$found" = "$1" ] || { echo "the controller manager signs with ${found:-the file of another flag}"; exit 1; }
  ;;
apply-signer)
  [ -n "$(signer)" ] || {
    echo "$manager has no flag $flag" >&2
    echo "hint: run kubexm install, which writes the manifest as kubeadm does" >&2
    exit 1
  }
  sed "s,^\( *- $flag=\).*,\1$1," "$manager" | put "$manager"
  ;;
check-kubeconfigs)
  wanted=$(encoded "$1") found=''
  for file in $(kubeconfigs); do
    [ "$(cas_in "$file")" = "$wanted" ] || { echo "$file trusts other CAs"; found=yes; }
  done
  [ ! -f "$live/kubelet.conf" ] || is_marked || { echo "the kubelet started with another kubeconfig"; found=yes; }
  [ -z "$found" ]
  ;;
apply-kubeconfigs)
  wanted=$(encoded "$1")
  for file in $(kubeconfigs); do
    [ "$(cas_in "$file")" != "$wanted" ] || continue
    sed "s,^\( *certificate-authority-data:\).*,\1 $wanted," "$file" | put "$file"
  done
  [ ! -f "$live/kubelet.conf" ] || is_marked || restart_kubelet
  ;;
*) echo "usage: rotate.sh check|apply signer|kubeconfigs" >&2; exit 2 ;;
esac
