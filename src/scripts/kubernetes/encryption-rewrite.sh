#!/bin/sh -eu
# Checks whether all Secrets were written again since the first key changed, or writes them again. Each API server reads
# a changed configuration within a minute.
# Arguments: `check`, `known`, which checks whether API servers have had the time to read it, or `apply`; name of the marker file;
# path of the configuration.
verb=$1 marker=/var/lib/kubexm/done/$2 file=$3
case $verb in
check) [ -e "$marker" ] || { echo "Secrets may be encrypted with another key, or not at all"; exit 1; } ;;
known)
  [ -e "$marker" ] || [ $(($(date +%s) - $(stat -c %Y "$file"))) -ge 75 ] || { echo "$file changed less than 75 seconds ago"; exit 1; }
  ;;
apply)
  manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  if [ -e "$manifest" ] && ! grep -q -e "--encryption-provider-config=$file" "$manifest"; then
    echo "the API server does not read $file: kubeadm sets its flags only when it creates a node" >&2
    echo "hint: add the flags of /etc/kubexm/kubeadm-init.yaml to each control plane, or set security.encryption.provider: none" >&2
    exit 1
  fi
  # Another program may change a Secret between the two commands.
  left=5
  until said=$(kubectl --request-timeout=60s get secrets -A -o json | kubectl replace -f - 2>&1 >/dev/null); do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { printf '%s\n' "$said" >&2; exit 1; }
    sleep 3
  done
  umask 077
  mkdir -p /var/lib/kubexm/done
  rm -f /var/lib/kubexm/done/encryption-*
  : >"$marker"
  ;;
*) echo "usage: encryption-rewrite.sh check|known|apply" >&2; exit 2 ;;
esac
