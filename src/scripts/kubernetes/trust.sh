#!/bin/sh -eu
# Checks whether the objects of the cluster have the CAs that clients trust, or stores them for nodes that join. The controller
# manager writes the ConfigMap of each namespace.
# Arguments: `check` or `apply`, the CAs in PEM.
verb=$1 cas=$2
install -d -m 700 /run/kubexm
encoded=$(printf '%s' "$cas" | base64 -w 0)
# Prints the kubeconfig for joins; nothing in a cluster without kubeadm.
joins() { kubectl -n kube-public get configmap cluster-info --ignore-not-found -o 'jsonpath={.data.kubeconfig}'; }
cas_of() { printf '%s\n' "$1" | sed -n '/^ *certificate-authority-data:/{s/^[^:]*: *//;s/"//g;p;q;}'; }
# Prints the namespaces whose pods get other CAs. A line with a namespace is before its CAs.
others() {
  found=$(kubectl get configmaps -A --field-selector metadata.name=kube-root-ca.crt \
    -o 'jsonpath={range .items[*]}= {.metadata.namespace}{"\n"}{.data.ca\.crt}{"\n"}{end}') || return
  printf '%s\n' "$found" | CAS="$cas" awk '
    function judge() { sub(/\n+$/, "", text); if (name != "" && text != wanted) print name }
    BEGIN { wanted = ENVIRON["CAS"]; sub(/\n+$/, "", wanted) }
    /^= / { judge(); name = substr($0, 3); text = ""; next }
    { text = text $0 "\n" }
    END { judge() }'
}
case $verb in
check)
  found=$(joins) || exit 75
  if [ -n "$found" ] && [ "$(cas_of "$found")" != "$encoded" ]; then
    echo "the ConfigMap kube-public/cluster-info has other CAs"
    exit 1
  fi
  found=$(others) || exit 75
  [ -z "$found" ] || { printf '%s\n' "$found" | sed 's,$,: kube-root-ca.crt has other CAs,'; exit 1; }
  ;;
apply)
  found=$(joins)
  if [ -n "$found" ] && [ "$(cas_of "$found")" != "$encoded" ]; then
    new=$(printf '%s\n' "$found" | sed "s,^\( *certificate-authority-data:\).*,\1 $encoded,")
    # A whole file: kubectl must not take the first part of a patch, when this script ends early, for all of it.
    patch=/run/kubexm/cluster-info.yaml
    printf 'data:\n  kubeconfig: |\n%s\n' "$(printf '%s\n' "$new" | sed 's/^/    /')" >"$patch"
    kubectl -n kube-public patch configmap cluster-info --patch-file "$patch" >/dev/null
    rm "$patch"
  fi
  left=60
  until found=$(others) && [ -z "$found" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      printf '%s\n' "$found" | sed 's,$,: the controller manager does not write kube-root-ca.crt with the present CAs,' >&2
      exit 1
    }
    sleep 2
  done
  ;;
*) echo "usage: trust.sh check|apply" >&2; exit 2 ;;
esac
