#!/bin/sh -eu
# Issues the certificates and kubeconfigs of a control plane of kubeadm again. kubeadm works on a copy of its directory, so that a
# run that is killed leaves no incomplete file. A file that is missing, or that kubeadm cannot read, is written as `kubeadm init`
# does, and so is a certificate that gets other names. API server and etcd read new files without a restart.
# Verbs: `check`, `apply`.
#   id      ID of the renewal
#   config  configuration of `kubeadm init` for this node
# Further arguments: the certificates that get other names, as `pki/apiserver`.
: "${verb=}" "${id=}" "${config=}"
export PATH="/usr/local/bin:$PATH"
umask 077
live=/etc/kubernetes
# kubeadm's copy. It contains keys of CAs, so that it does not stay.
copy=/var/lib/kubexm/renewal
# The ID of the latest renewal whose files are complete.
mark=/var/lib/kubexm/renewed
content() { cat "$1" 2>/dev/null || :; }
# Calls kubeadm. A mount namespace of its own shows the copy to kubeadm alone.
# shellcheck disable=SC2016 # expands in the inner shell
there() {
  unshare --mount sh -euc 'mount --bind "$1" /etc/kubernetes; shift; exec kubeadm "$@"' \
    kubexm "$copy/kubernetes" "$@" --config "$copy/config.yaml" </dev/null 2>&1
}
# What a control plane must have: paths without `.crt` and `.key`.
leaves="pki/apiserver pki/apiserver-kubelet-client pki/front-proxy-client" authorities="ca front-proxy-ca"
if [ -e "$live/manifests/etcd.yaml" ]; then
  leaves="$leaves pki/apiserver-etcd-client pki/etcd/server pki/etcd/peer pki/etcd/healthcheck-client"
  authorities="$authorities etcd/ca"
fi
leaves="$leaves admin.conf controller-manager.conf scheduler.conf"
# Not all control planes have it.
[ ! -e "$live/super-admin.conf" ] || leaves="$leaves super-admin.conf"
has_leaves() {
  for file in $leaves; do
    case $file in *.conf) set -- "$file" ;; *) set -- "$file.crt" "$file.key" ;; esac
    for part; do [ -s "$live/$part" ] || return 1; done
  done
}
# Ends the script. No key stays in a copy.
# Arguments: error, hint.
refuse() {
  printf '%s\n' "$1" ${2:+"hint: $2"} >&2
  rm -rf "$copy"
  exit 1
}
lost_ca="copy it from another control plane; without one, \`kubexm backup restore\` rebuilds the cluster with the CAs of a backup"
lost_key="put the key of the CA back on this host for the renewal"
# Lets kubeadm issue a file again in the copy, or write it if kubeadm does not find it or cannot read it. That needs every CA with
# its key.
# Arguments: the path without `.crt` and `.key`.
renew() {
  name=$(printf '%s\n' "${1#pki/}" | tr / -)
  if found=$(there certs renew "$name"); then
    case $found in *"Detected external"*) refuse "$found" "$lost_key" ;; *MISSING*) ;; *) return 0 ;; esac
  fi
  for ca in $authorities; do
    [ -s "$live/pki/$ca.crt" ] || refuse "$live/pki/$ca.crt is missing, and kubexm does not issue a CA again" "$lost_ca"
    [ -s "$live/pki/$ca.key" ] || refuse "the key of a CA is missing: $live/pki/$ca.key" "$lost_key"
  done
  # `kubeadm init` keeps a file that it can read, and refuses one that it cannot read.
  rm -f "$copy/kubernetes/$1" "$copy/kubernetes/$1.crt" "$copy/kubernetes/$1.key"
  case $1 in *.conf) set -- "$1" kubeconfig "${name%.conf}" ;; *) set -- "$1" certs "$name" ;; esac
  said=$(there init phase "$2" "$3") || {
    [ "$found" = "$said" ] || said=$(printf '%s\n' "$found" | tail -n 3; printf '%s\n' "$said")
    refuse "$said" "if a CA or its key is damaged, $lost_ca"
  }
  # As kubeadm does without the mask of this script.
  [ "$2" = kubeconfig ] || chmod 644 "$copy/kubernetes/$1.crt"
}
# Lets kubeadm issue everything in the copy.
# Arguments: the certificates that get other names. `kubeadm certs renew` keeps the names.
issue() {
  [ "$(content "$copy/id")" != "$id" ] || return 0
  rm -rf "$copy"
  # The copy would have the link, and changes of the copy would be those of its target.
  for name in pki pki/etcd; do
    [ ! -L "$live/$name" ] || refuse "$live/$name is a link" "put the directory itself there, for example with a bind mount"
  done
  {
    mkdir -p "$copy/kubernetes" && cp -a "$live/pki" "$copy/kubernetes/" && cp -a "$live"/*.conf "$copy/kubernetes/" &&
      printf '%s' "$config" >"$copy/config.yaml"
  } || refuse "cannot copy $live to $copy"
  for name; do rm -f "$copy/kubernetes/$name.crt" "$copy/kubernetes/$name.key"; done
  for file in $leaves; do renew "$file"; done
  # kubeadm renews no authority. An interrupted renewal must not bring one back that a rotation has replaced meanwhile.
  for name in ca front-proxy-ca etcd/ca sa; do rm -f "$copy/kubernetes/pki/$name".???; done
  rm -f "$copy/kubernetes/kubelet.conf"
  # The ID says that the files are complete, and kubeadm does not sync them.
  sync -f "$copy" 2>/dev/null || sync
  printf '%s\n' "$id" >"$copy/id.new"
  replace "$copy/id.new" "$copy/id"
}
# Replaces a file. Its time is that of the change, and not that of the copy.
put() {
  new=${2%/*}/.kubexm-new
  # The caller switches -e off: a full disk must not put an incomplete file in the place of a complete one.
  cp --preserve=mode,ownership "$1" "$new" || { rm -f "$new"; return 1; }
  replace "$new" "$2"
}
# Whether this renewal has written all files, and they still exist.
is_written() { [ "$(content "$mark")" = "$id" ] && has_leaves; }
files() {
  if ! is_written; then
    issue "$@"
    find "$copy/kubernetes" -type f | LC_ALL=C sort | while IFS= read -r file; do
      path=$live${file#"$copy/kubernetes"}
      cmp -s "$file" "$path" || put "$file" "$path" || exit 1
    done
    printf '%s\n' "$id" >"$mark.new"
    replace "$mark.new" "$mark"
  fi
  rm -rf "$copy"
}
case $verb in
check) { is_written && [ ! -e "$copy" ]; } || { echo "they are older than this renewal, or missing"; exit 1; } ;;
apply) files "$@" ;;
*) echo "usage: renew.sh check|apply" >&2; exit 2 ;;
esac
