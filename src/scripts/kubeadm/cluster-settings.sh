#!/bin/sh -eu
# Checks whether the cluster stores the settings of a configuration for nodes that join later, or stores them: in the
# ConfigMaps kubeadm-config, kubelet-config and kube-proxy. kube-proxy restarts on one node after another if its
# configuration changes, and gets its former one back if it does not become ready.
# Verbs: `check`, `apply`, or `mark` if `kubeadm init` has just stored them.
#   digest        digest of the whole configuration
#   proxy_digest  digest of the configuration of kube-proxy
#   config        the configuration of `kubeadm init`
: "${verb=}" "${digest=}" "${proxy_digest=}" "${config=}"
export PATH="/usr/local/bin:$PATH" KUBECONFIG=/etc/kubernetes/admin.conf
umask 077
# The former settings of kube-proxy: until a change is complete, and after the latest change.
kept=/var/lib/kubexm/settings/kube-proxy previous=/var/lib/kubexm/previous/kube-proxy
install -d -m 700 /run/kubexm
objects() { kubectl -n kube-system "$@"; }
# Prints the digest that a ConfigMap was marked with.
marked() {
  objects get configmap "$1" --ignore-not-found -o 'jsonpath={.metadata.annotations.kubexm\.io/settings}'
}
mark() { objects annotate --overwrite configmap "$1" "kubexm.io/settings=$2" >/dev/null; }
has_proxy() { [ -n "$(objects get daemonset kube-proxy --ignore-not-found -o name)" ]; }
proxy_config() { objects get configmap kube-proxy --ignore-not-found -o 'jsonpath={.data.config\.conf}'; }
mark_all() {
  mark kubeadm-config "$digest"
  mark kubelet-config "$digest"
}
restart_proxy() {
  objects rollout restart daemonset kube-proxy >/dev/null
  objects --request-timeout=0 rollout status daemonset kube-proxy --timeout=300s >/dev/null
}
# Keeps the present ConfigMap until kube-proxy is ready with another one. An interrupted change has kept it already.
keep_proxy() {
  [ ! -e "$kept" ] || return 0
  mkdir -p "${kept%/*}"
  rm -rf "$kept.new"
  mkdir "$kept.new"
  objects get configmap kube-proxy -o yaml >"$kept.new/map.yaml"
  proxy_config >"$kept.new/config.conf"
  replace "$kept.new" "$kept"
}
change_proxy() {
  keep_proxy
  kubeadm init phase addon kube-proxy --config "$file" >/dev/null
  if [ "$(proxy_config)" != "$(cat "$kept/config.conf")" ] && ! said=$(restart_proxy 2>&1); then
    objects replace --force -f "$kept/map.yaml" >/dev/null
    restart_proxy >/dev/null 2>&1 || :
    rm -rf "$kept"
    printf '%s\n' "$said" "kube-proxy does not become ready with its new settings, so it has its former ones again" \
      "hint: correct kubeProxy in the cluster file, then run the same command again" >&2
    exit 1
  fi
  mark kube-proxy "$proxy_digest"
  rm -rf "$previous"
  replace "$kept" "$previous"
}
case $verb in
check)
  for map in kubeadm-config kubelet-config; do
    found=$(marked "$map") || exit 75
    [ "$found" = "$digest" ] || { echo "the ConfigMap $map has other settings"; exit 1; }
  done
  has_proxy || exit 0
  [ ! -e "$kept" ] || { echo "a change of kube-proxy was interrupted"; exit 1; }
  found=$(marked kube-proxy) || exit 75
  [ "$found" = "$proxy_digest" ] || { echo "kube-proxy has other settings"; exit 1; }
  ;;
mark)
  mark_all
  ! has_proxy || mark kube-proxy "$proxy_digest"
  ;;
apply)
  file=/run/kubexm/cluster-settings.$$
  mkdir -p "${previous%/*}"
  trap 'rm -f "$file"' EXIT
  printf '%s' "$config" >"$file"
  if has_proxy && { [ -e "$kept" ] || [ "$(marked kube-proxy)" != "$proxy_digest" ]; }; then change_proxy; fi
  kubeadm init phase upload-config all --config "$file" >/dev/null
  mark_all
  ;;
*) echo "usage: cluster-settings.sh check|apply|mark" >&2; exit 2 ;;
esac
