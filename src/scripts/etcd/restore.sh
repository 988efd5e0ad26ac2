#!/bin/sh -eu
# Replaces the data of the member on this host by that of a snapshot. The former data stays in the data directory.
#   prepared   checks whether the new data is ready, or in its place
#   prepare    creates the new data beside the old one, while the cluster goes on to run
#   replaced   checks whether the new data is in its place
#   replace    moves the former data aside and the new data to its place; etcd must not run
#   healthy    checks whether the member answers, and every member votes
#   data       prints three lines about the data: its status and its hash at the revision of the restore as JSON of
#              etcdctl, and the number of keys at that revision
#   tidy       checks whether files of the restore are left
#   remove     removes them, but not the former data
# Arguments: verb; the ID of the restore; `kubeadm` or `systemd`, which runs etcd; its data directory; name and peer address
# of the member; all members as etcd expects them for a first start; the number of members; for `data` the revision.
verb=$1 id=$2 kind=$3 data=$4 name=$5 peer=$6 members=$7 count=$8 revision=${9:-0}
export PATH="/usr/local/bin:$PATH"
folder=/var/lib/kubexm/restore/$id
new=$data/restore-$id
is_running() {
  case $kind in
  systemd) case $(systemctl is-active etcd.service) in active | activating | reloading | deactivating) ;; *) return 1 ;; esac ;;
  *)
    running=$(crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$') || { echo "the container runtime does not answer" >&2; exit 1; }
    [ -n "$running" ]
    ;;
  esac
}
# Arguments: those of etcdctl.
etcdctl_of_member() {
  if [ "$kind" = systemd ]; then
    etcdctl --command-timeout=10s "$@"
    return
  fi
  container=$(crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name '^etcd$' | head -n 1)
  [ -n "$container" ] || { echo "the container of etcd does not run"; return 1; }
  pki=/etc/kubernetes/pki/etcd
  server=$(sed -n '/--listen-client-urls=/{s/.*--listen-client-urls=//;s/[,"].*//;p;q;}' \
    /etc/kubernetes/manifests/etcd.yaml 2>/dev/null || :)
  timeout 30 crictl exec -s "$container" etcdctl --command-timeout=10s --endpoints "${server:-https://127.0.0.1:2379}" \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}
prepare() {
  umask 077
  size=$(wc -c <"$folder/snapshot.db")
  mkdir -p "$data"
  # What an interrupted run has written.
  rm -rf "${new:?}"
  free=$(($(df -Pk "$data" | awk 'NR == 2 { print $4 }') * 1024))
  if [ "$free" -lt $((size + 104857600)) ]; then
    printf '%s\n' "$data has $((free / 1048576)) MiB of free space, and the new data needs $((size / 1048576 + 100)) MiB" \
      "hint: make room there; nothing has changed yet" >&2
    exit 1
  fi
  # The revision of every object is larger than all that clients have seen, so that none keeps a cache of what is lost.
  said=$("$folder/etcdutl" snapshot restore "$folder/snapshot.db" --name "$name" --initial-cluster "$members" \
    --initial-cluster-token "$id" --initial-advertise-peer-urls "$peer" --data-dir "$new" \
    --bump-revision 1000000000 --mark-compacted 2>&1) || {
    printf '%s\n' "etcdutl cannot restore the snapshot:" "$said" >&2
    exit 1
  }
  owner=$(stat -c %u:%g "$data/member" 2>/dev/null || :)
  [ "$kind" != systemd ] || owner=etcd:etcd
  chown -R "${owner:-0:0}" "$new"
  chmod -R go= "$new"
  if command -v restorecon >/dev/null; then restorecon -R "$new" || :; fi
  sync -f "$new" 2>/dev/null || sync
  : >"$folder/prepared"
}
replace_data() {
  if is_running; then
    echo "etcd still runs" >&2
    exit 1
  fi
  # A run that was killed between the two renames has moved the former data already.
  if [ -d "$new/member" ]; then
    former=$data/member.before-$id
    while [ -e "$former" ]; do former=${former}x; done
    [ ! -e "$data/member" ] || mv "$data/member" "$former"
    mv "$new/member" "$data/member"
    sync -f "$data" 2>/dev/null || sync
  fi
  [ -d "$data/member/wal" ] || { echo "$data/member has no data" >&2; exit 1; }
  rm -rf "${new:?}"
  if [ "$kind" = systemd ]; then
    umask 077
    mkdir -p /var/lib/kubexm/done
    # kubexm install must not create another cluster.
    : >/var/lib/kubexm/done/etcd-formed
    rm -f /run/kubexm/etcd-initial.env
  fi
  : >"$folder/replaced"
}
case $verb in
prepared) [ -e "$folder/prepared" ] || [ -e "$folder/replaced" ] || { echo "the new data is not ready"; exit 1; } ;;
prepare) prepare ;;
replaced) [ -e "$folder/replaced" ] || { echo "the member has its former data"; exit 1; } ;;
replace) replace_data ;;
healthy)
  said=$(etcdctl_of_member endpoint health 2>&1) || { printf '%s\n' "$said" | tail -n 1; exit 1; }
  list=$(etcdctl_of_member member list 2>&1) || { printf '%s\n' "$list" | tail -n 1; exit 1; }
  voters=$(printf '%s\n' "$list" | awk -F', ' '$2 == "started" && $6 == "false" { n++ } END { print n + 0 }')
  all=$(printf '%s\n' "$list" | grep -c ', ')
  [ "$voters $all" = "$count $count" ] || { echo "$voters of $count members have started"; exit 1; }
  ;;
data)
  etcdctl_of_member endpoint status -w json
  etcdctl_of_member endpoint hashkv "--rev=$revision" -w json
  etcdctl_of_member get '' --from-key --count-only "--rev=$revision" -w fields | sed -n 's/^"Count" : //p'
  ;;
tidy)
  for path in /var/lib/kubexm/restore "$data"/restore-*; do
    [ ! -e "$path" ] || { echo "$path is left"; exit 1; }
  done
  ;;
remove) rm -rf /var/lib/kubexm/restore "${data:?}"/restore-* ;;
*) echo "usage: restore.sh prepared|prepare|replaced|replace|healthy|data|tidy|remove" >&2; exit 2 ;;
esac
