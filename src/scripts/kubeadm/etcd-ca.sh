#!/bin/sh -eu
# Reports an API server that started before the CA of an etcd outside of the cluster changed. It reads the CA only when it
# starts; it reads the client certificate for each connection.
# Arguments: `check`, path of the CA.
[ "$1" = check ] || { echo "usage: etcd-ca.sh check PATH" >&2; exit 2; }
changed=$(stat -c %Y "$2" 2>/dev/null) || exit 0
age=$(($(date +%s) - changed)) uptime=$(sed 's/\..*//' /proc/uptime)
for process in /proc/[0-9]*; do
  [ "$(cat "$process/comm" 2>/dev/null)" = kube-apiserver ] || continue
  # The 22nd field is the time of the start in hundredths of a second after the boot. The 2nd one is in parentheses.
  started=$(sed 's/.*) //' "$process/stat" 2>/dev/null | cut -d ' ' -f 20)
  [ -n "$started" ] || continue
  [ "$age" -lt $((uptime - started / 100)) ] || continue
  echo "etcd.external.caFile is not applied: the API server on this host started before $2 changed"
  echo "hint: move /etc/kubernetes/manifests/kube-apiserver.yaml to another directory for one minute and back, on one host after another"
  exit 78
done
