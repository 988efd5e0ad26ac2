#!/bin/sh -eu
# A part of the rotation of authorities on a node of kubeadm, after their files have changed.
# Arguments: `check` or `apply`, and one of these:
#   signer CERTIFICATE        the controller manager signs with this certificate, which is the only one in its file
#   kubeconfigs CAS           the kubeconfigs of this node trust exactly these CAs, in PEM, and the kubelet uses its own
#   programs NAME=FILES…      these static pods started after their files changed; files are separated by commas
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
# Prints the running containers of a program.
containers() { crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$1\$" "${2:--q}" ${3:+"$3"}; }
# Whether a program started after its files changed. The runtime prints nanoseconds.
is_new() {
  created=$(containers "${1%%=*}" -o json 2>/dev/null | sed -n 's/.*"createdAt": *"\([0-9]*\)[0-9]\{9\}".*/\1/p' | sort -n | tail -n 1)
  [ -n "$created" ] || return 1
  for file in $(printf '%s' "${1#*=}" | tr ',' ' '); do
    [ "$created" -gt "$(stat -c %Y "$file")" ] || return 1
  done
}
# Whether the API server of this control plane serves the certificate in the file and accepts clients, where this is one of
# the programs.
serves() {
  case " $programs" in *" kube-apiserver="*) ;; *) return 0 ;; esac
  kubectl --kubeconfig "$live/controller-manager.conf" --certificate-authority "$live/pki/apiserver.crt" \
    --cache-dir /run/kubexm/kubectl --request-timeout=5s get --raw /readyz >/dev/null 2>&1
}
# Prints what does not use the present files yet.
outdated() {
  for program in "$@"; do is_new "$program" || echo "${program%%=*} started before its files changed"; done
  serves || echo "kube-apiserver is not ready"
}
# Waits for at most six minutes: after a failure, the kubelet waits up to five minutes before it starts a container again.
patiently() {
  left=180
  until [ -z "$(outdated "$@")" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 2
  done
}
restart_programs() {
  install -d -m 700 /run/kubexm
  # The times have whole seconds.
  sleep 1
  # In the order of the arguments: an API server whose etcd has ended could not answer.
  for program in "$@"; do
    is_new "$program" && continue
    for container in $(containers "${program%%=*}"); do crictl stop --timeout 40 "$container" >/dev/null; done
  done
  patiently "$@" || {
    outdated "$@" >&2
    echo "hint: read the logs of these programs in /var/log/pods on this host, then run the same command again" >&2
    exit 1
  }
}
programs="$*"
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
check-programs)
  found=$(outdated "$@")
  [ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
  ;;
apply-programs) restart_programs "$@" ;;
*) echo "usage: rotate.sh check|apply signer|kubeconfigs|programs" >&2; exit 2 ;;
esac
