#!/bin/sh -eu
# Lets kubeadm store settings in the cluster, and keeps the former ConfigMap of kube-proxy until a change of it is complete.
# Verbs:
#   began          prints a line if a change of kube-proxy was interrupted
#   keep           keeps the present ConfigMap of kube-proxy, unless an interrupted change has kept one
#   proxy, store   store the settings of kube-proxy, or those for nodes that join later
#   back           gives kube-proxy the ConfigMap that was kept
#   done, drop     end a change: the ConfigMap that was kept becomes the previous one, or goes
# config: the configuration of `kubeadm init`
: "${verb=}" "${config=}"
export PATH="/usr/local/bin:$PATH" KUBECONFIG=/etc/kubernetes/admin.conf
umask 077
# The former settings of kube-proxy: until a change is complete, and after the latest change.
kept=/var/lib/kubexm/settings/kube-proxy previous=/var/lib/kubexm/previous/kube-proxy
init_phase() { # WORDS…: with the configuration
  install -d -m 700 /run/kubexm
  file=/run/kubexm/cluster-settings.$$
  trap 'rm -f "$file"' EXIT
  printf '%s' "$config" >"$file"
  kubeadm init phase "$@" --config "$file" >/dev/null
}
case $verb in
began) [ ! -e "$kept" ] || echo began ;;
keep)
  [ ! -e "$kept" ] || exit 0
  mkdir -p "${kept%/*}"
  rm -rf "$kept.new"
  mkdir "$kept.new"
  kubectl -n kube-system get configmap kube-proxy -o yaml >"$kept.new/map.yaml"
  replace "$kept.new" "$kept"
  ;;
proxy) init_phase addon kube-proxy ;;
store) init_phase upload-config all ;;
back) kubectl -n kube-system replace --force -f "$kept/map.yaml" >/dev/null ;;
done)
  mkdir -p "${previous%/*}"
  rm -rf "$previous"
  replace "$kept" "$previous"
  ;;
drop) rm -rf "$kept" ;;
*) echo "usage: cluster-settings.sh began|keep|proxy|store|back|done|drop" >&2; exit 2 ;;
esac
