#!/bin/sh -eu
# Compares the kubelet's files or the static pods of this node with what kubeadm generates from a configuration, or
# replaces those that differ, one after another. A program that does not become healthy gets its former file back.
# With the scope `etcd` it only compares: flags of a member can break the cluster, and the manifests of members differ.
# Verbs: `check`, `apply`; for the kubelet also `written` and `write`, which replace its files before another run with `apply`
# restarts it.
#   scope   `kubelet`, `control-plane` or `etcd`
#   node    name of the node
#   config  configuration of `kubeadm init` for this node
: "${verb=}" "${scope=}" "${node=}" "${config=}"
export PATH="/usr/local/bin:$PATH"
umask 077
manifests=/etc/kubernetes/manifests
# Former files of a change that has not been confirmed yet.
formers=/var/lib/kubexm/settings
# The latest former files of completed changes.
previous=/var/lib/kubexm/previous
install -d -m 700 /run/kubexm
new=/run/kubexm/settings.$$
trap 'rm -rf "$new"' EXIT
# Calls kubectl with a kubeconfig of this node.
api() {
  user=$1
  shift
  kubectl --kubeconfig "/etc/kubernetes/$user.conf" --cache-dir /run/kubexm/kubectl --request-timeout=10s "$@"
}
# Runs a phase of kubeadm without an effect on the node, and moves its files to a directory.
# Arguments: directory, words of the phase.
phase() {
  into=$new/$1
  shift
  mkdir -p "$into" "$new/generated"
  said=$(KUBEADM_INIT_DRYRUN_DIR="$new/generated" kubeadm init phase "$@" --config "$new/init.yaml" --dry-run 2>&1) || {
    printf '%s\n' "$said" >&2
    exit 75
  }
  # Some versions create a directory in this one.
  find "$new/generated" -type f -exec cp {} "$into/" \;
  rm -rf "$new/generated"
}
generate() {
  rm -rf "$new"
  mkdir "$new"
  printf '%s' "$config" >"$new/init.yaml"
  case $scope in
  control-plane)
    phase manifests control-plane all
    # Exists during a rotation of the CA, in which the controller manager signs with it (kubeadm/rotate.sh).
    signer=/etc/kubernetes/pki/signing-ca.crt
    [ ! -e "$signer" ] || edit "$new/manifests/kube-controller-manager.yaml" "s,\(--cluster-signing-cert-file=\).*,\1$signer,"
    ;;
  kubelet) generate_kubelet ;;
  etcd) phase etcd etcd local ;;
  *) echo "usage: settings.sh check|apply kubelet|control-plane" >&2; exit 2 ;;
  esac
}
# Changes a generated file, which only this script uses.
# Arguments: file, program of sed.
edit() {
  sed "$2" "$1" >"$new/edited"
  cat "$new/edited" >"$1"
}
generate_kubelet() {
  # A kubeadm that finds a CA without its key, as on a worker, asks for the certificates of a control plane. So it gets
  # another directory of certificates.
  edit "$new/init.yaml" 's,^kind: ClusterConfiguration$,&\ncertificatesDir: /run/kubexm/none,'
  phase kubelet kubelet-start
  edit "$new/kubelet/config.yaml" 's,/run/kubexm/none/,/etc/kubernetes/pki/,'
  # These flags have an effect only when a node registers. A join sets the first one for workers.
  flags=/var/lib/kubelet/kubeadm-flags.env
  for registered in register-with-taints node-labels; do
    [ -e "$flags" ] || break
    ! grep -q -e "--$registered=" "$new/kubelet/kubeadm-flags.env" || continue
    flag=$(tr ' ' '\n' <"$flags" | sed -n "s/.*\(--$registered=[^\"]*\).*/\1/p")
    [ -z "$flag" ] || edit "$new/kubelet/kubeadm-flags.env" "s|\"\$| $flag\"|"
  done
}
# Prints the flags of the kubelet, one in a line, in a fixed order.
flags_of() { sed 's/^KUBELET_KUBEADM_ARGS="//; s/"$//' "$1" 2>/dev/null | tr ' ' '\n' | grep . | sort; }
# Prints the kubelet's configuration, without a value that its unit replaces: kubeadm writes the resolv.conf of the host on which
# it runs, which is the first control plane for a join.
settings_of() {
  if grep -qs -e ' --resolv-conf=' /etc/systemd/system/kubelet.service.d/10-kubeadm.conf; then
    sed '/^resolvConf: /d' "$1" 2>/dev/null
  else
    cat "$1" 2>/dev/null
  fi
}
# Whether a file of the kubelet is as kubeadm generates it.
is_same() {
  case $1 in
  kubeadm-flags.env)
    flags_of "$new/kubelet/$1" >"$new/wanted"
    flags_of "/var/lib/kubelet/$1" | cmp -s - "$new/wanted"
    ;;
  config.yaml)
    settings_of "$new/kubelet/$1" >"$new/wanted"
    settings_of "/var/lib/kubelet/$1" | cmp -s - "$new/wanted"
    ;;
  *) cmp -s "$new/kubelet/$1" "/var/lib/kubelet/$1" ;;
  esac
}
is_kubelet_same() {
  for file in "$new"/kubelet/*; do is_same "${file##*/}" || return 1; done
}
# Prints how a file would change.
# Arguments: generated file, file of the node.
show() {
  echo "$2 differs"
  if command -v diff >/dev/null; then diff -U 1 "$2" "$1" 2>/dev/null | sed -n '3,$p' || :; fi
}
# Prints the flags of etcd, without those that are different for each member.
etcd_flags() { sed -n 's/^ *- \(--.*\)/\1/p' "$1" | grep -v -e '^--initial-cluster' | sort; }
# Reports flags of etcd that an install does not change.
compare_etcd() {
  generate
  etcd_flags "$new/etcd/etcd.yaml" >"$new/wanted"
  etcd_flags "$manifests/etcd.yaml" >"$new/present"
  missing=$(grep -Fvx -f "$new/present" "$new/wanted" | tr '\n' ' ' || :)
  other=$(grep -Fvx -f "$new/wanted" "$new/present" | tr '\n' ' ' || :)
  [ -n "$missing$other" ] || return 0
  echo "etcd.extraArgs is not applied to the member of etcd on this host:${missing:+ it does not have ${missing% }}${missing:+${other:+,}}${other:+ it has ${other% }}"
  echo "hint: change the flags in $manifests/etcd.yaml, on one host after another"
  exit 78
}
check() {
  [ "$scope" != etcd ] || { compare_etcd; return; }
  generate
  found=
  case $scope in kubelet) set -- "$formers/kubelet" ;; *) set -- "$formers/control-plane"/*.yaml ;; esac
  for former in "$@"; do
    [ ! -e "$former" ] || { echo "a change of ${former##*/} was interrupted"; found=yes; }
  done
  for file in "$new"/manifests/*; do
    [ -e "$file" ] || continue
    cmp -s "$file" "$manifests/${file##*/}" || { show "$file" "$manifests/${file##*/}"; found=yes; }
  done
  for file in "$new"/kubelet/*; do
    [ -e "$file" ] || continue
    is_same "${file##*/}" || { show "$file" "/var/lib/kubelet/${file##*/}"; found=yes; }
  done
  [ -z "$found" ]
}
# Copies a file under a name that only a complete copy has.
copy() {
  cp -p "$1" "$2.new"
  replace "$2.new" "$2"
}
# Keeps the former file of a completed change.
# Arguments: former file, path of the file.
keep() {
  mkdir -p "$previous$(dirname "$2")"
  replace "$1" "$previous$2"
}
# Replaces a file of the node. The kubelet ignores names that start with a dot.
put() {
  cp "$1" "$(dirname "$2")/.kubexm-new"
  chmod 600 "$(dirname "$2")/.kubexm-new"
  replace "$(dirname "$2")/.kubexm-new" "$2"
}
# Prints the hash of a static pod's manifest and whether the pod is ready.
pod() {
  api admin -n kube-system get pod "$1-$node" \
    -o 'jsonpath={.metadata.annotations.kubernetes\.io/config\.hash} {.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null
}
age() { echo $(($(date +%s) - $(stat -c %Y "$1"))); }
# Whether the kubelet runs the present manifest, and the program is ready. A manifest of the same meaning has the same
# hash, so its pod is not replaced.
# Arguments: name, hash of the former manifest.
is_ready() {
  [ "$1" != kube-apiserver ] || api controller-manager get --raw /readyz >/dev/null 2>&1 || return 1
  state=$(pod "$1") || return 1
  case $state in *" True") ;; *) return 1 ;; esac
  [ "${state% *}" != "$2" ] || [ "$(age "$manifests/$1.yaml")" -gt 40 ]
}
# Whether the new manifest's container has failed again and again. The former pod may have restarted often, too, and
# runs on until it has answered its requests: only a container that is newer than the manifest counts.
fails() {
  command -v crictl >/dev/null || return 1
  latest=$(crictl ps -a --label io.kubernetes.pod.namespace=kube-system --name "^$1\$" --latest -o json 2>/dev/null) || return 1
  attempt=$(printf '%s\n' "$latest" | sed -n 's/.*"attempt": *\([0-9]*\).*/\1/p' | sed 1q)
  created=$(printf '%s\n' "$latest" | sed -n 's/.*"createdAt": *"\([0-9]*\)[0-9]\{9\}".*/\1/p' | sed 1q)
  [ "${attempt:-0}" -ge 3 ] && [ "${created:-0}" -ge "$(stat -c %Y "$manifests/$1.yaml")" ] &&
    [ "$(age "$manifests/$1.yaml")" -gt 20 ]
}
wait_for_pod() {
  left=150
  until is_ready "$1" "$2"; do
    left=$((left - 1))
    if [ "$left" -le 0 ] || { [ "$3" = yes ] && fails "$1"; }; then return 1; fi
    sleep 2
  done
}
static_pod() {
  live=$manifests/$1.yaml former=$formers/control-plane/$1.yaml
  hash=$(pod "$1") || hash=
  hash=${hash% *}
  if ! cmp -s "$new/manifests/$1.yaml" "$live"; then
    [ -e "$former" ] || copy "$live" "$former"
    put "$new/manifests/$1.yaml" "$live"
  else
    [ -e "$former" ] || return 0
  fi
  if wait_for_pod "$1" "$hash" yes; then
    keep "$former" "$live"
    return
  fi
  {
    echo "$1 does not become ready with its new settings, so it has its former ones again"
    crictl logs --tail 10 "$(crictl ps -a --label io.kubernetes.pod.namespace=kube-system --name "^$1\$" --latest -q 2>/dev/null)" 2>&1 | sed "s/^/$1: /" || :
  } >&2
  put "$former" "$live"
  if wait_for_pod "$1" "" no; then rm -f "$former"; else echo "$1 does not become ready with its former settings either" >&2; fi
  echo "hint: correct the settings of $1 in the cluster file, then run the same command again" >&2
  exit 1
}
# Prints the time of the kubelet's last sign of life and whether the node is ready.
life() {
  renewed=$(api kubelet -n kube-node-lease get lease "$node" -o 'jsonpath={.spec.renewTime}' 2>/dev/null) || return 1
  ready=$(api kubelet get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) || return 1
  echo "$renewed $ready"
}
# Restarts the kubelet and waits until it has renewed its lease, and until the node is as ready as before.
# Arguments: whether the node was ready.
restart_kubelet() {
  systemctl restart kubelet || :
  since=$(date -u +%Y-%m-%dT%H:%M:%S) left=60
  while [ "$left" -gt 0 ]; do
    left=$((left - 1))
    sleep 2
    systemctl is-active --quiet kubelet || continue
    now=$(life) || continue
    [ "${now#* }" = "$1" ] || [ "$1" != True ] || continue
    first=$(printf '%s\n' "$since" "${now% *}" | LC_ALL=C sort | sed 1q)
    [ "$first" != "$since" ] || return 0
  done
  return 1
}
# Replaces the files of the kubelet, and keeps the former ones.
write_kubelet() {
  former=$formers/kubelet
  if [ ! -e "$former" ]; then
    rm -rf "$former.new"
    mkdir "$former.new"
    for file in "$new"/kubelet/*; do
      [ ! -e "/var/lib/kubelet/${file##*/}" ] || cp -p "/var/lib/kubelet/${file##*/}" "$former.new/"
    done
    sync
    replace "$former.new" "$former"
  fi
  for file in "$new"/kubelet/*; do is_same "${file##*/}" || put "$file" "/var/lib/kubelet/${file##*/}"; done
}
kubelet() {
  former=$formers/kubelet
  if is_kubelet_same; then
    [ -e "$former" ] || return 0
  fi
  was=$(life) || was=
  was=${was#* }
  write_kubelet
  if restart_kubelet "$was"; then
    mkdir -p "$previous/var/lib/kubelet"
    for file in "$former"/*; do
      [ ! -e "$file" ] || copy "$file" "$previous/var/lib/kubelet/${file##*/}"
    done
    rm -rf "$former"
    return
  fi
  {
    echo "the kubelet does not become healthy with its new settings, so it has its former ones again"
    journalctl -u kubelet -n 10 --no-pager -o cat 2>/dev/null | sed 's/^/kubelet: /' || :
  } >&2
  for file in "$former"/*; do [ ! -e "$file" ] || put "$file" "/var/lib/kubelet/${file##*/}"; done
  if restart_kubelet "$was"; then rm -rf "$former"; else echo "the kubelet does not become healthy with its former settings either" >&2; fi
  echo "hint: correct the settings of the kubelet in the cluster file, then run the same command again" >&2
  exit 1
}
case $verb in
check) check ;;
written)
  generate
  is_kubelet_same || { echo "the files of the kubelet differ"; exit 1; }
  ;;
write)
  mkdir -p "$formers"
  generate
  write_kubelet
  ;;
apply)
  mkdir -p "$formers/control-plane"
  generate
  case $scope in
  control-plane) for name in kube-apiserver kube-controller-manager kube-scheduler; do static_pod "$name"; done ;;
  kubelet) kubelet ;;
  esac
  ;;
*) echo "usage: settings.sh check|apply|written|write kubelet|control-plane" >&2; exit 2 ;;
esac
