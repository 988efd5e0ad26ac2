#!/bin/sh -eu
# Replaces the data of the member on this host by that of a snapshot. The former data stays in the data directory.
#   space      checks whether the snapshot and the new data have space, before they are sent
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
# of the member; all members as etcd expects them for a first start; the number of members; what is added to revisions; for `data`
# the revision, for `space` the size of the snapshot in bytes.
verb=$1 id=$2 kind=$3 data=$4 name=$5 peer=$6 members=$7 count=$8 bump=$9
shift 9
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
nearest() {
  path=$1
  until [ -e "$path" ]; do path=$(dirname "$path"); done
  echo "$path"
}
# An etcd that runs ends if its disk is full.
enough() { # PATH MIB
  have=$(($(df -Pk "$1" | awk 'NR == 2 { print $4 }') / 1024)) needed=$(($2 + 256))
  [ "$have" -ge "$needed" ] || {
    printf '%s\n' "$1 has $have MiB of free space, and the restore needs $needed MiB there" \
      "hint: make room there; nothing has changed yet" >&2
    exit 1
  }
}
space() { # BYTES
  [ ! -e "$folder/prepared" ] && [ ! -e "$folder/replaced" ] || exit 0
  # etcdutl writes logs beside the data.
  sent=$(($1 / 1048576 + 1)) made=$(($1 / 1048576 + 129))
  here=$(nearest "$folder") there=$(nearest "$data")
  if [ "$(stat -c %d "$here")" = "$(stat -c %d "$there")" ]; then
    enough "$there" $((sent + made))
  else
    enough "$here" "$sent"
    enough "$there" "$made"
  fi
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
    --bump-revision "$bump" --mark-compacted 2>&1) || {
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
space) space "$1" ;;
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
  etcdctl_of_member endpoint hashkv "--rev=$1" -w json
  etcdctl_of_member get '' --from-key --count-only "--rev=$1" -w fields | sed -n 's/^"Count" : //p'
  ;;
tidy)
  # The names of other files of a site can begin in the same way.
  for path in /var/lib/kubexm/restore "$data"/restore-[0-9]*T[0-9]*Z; do
    [ ! -e "$path" ] || { echo "$path is left"; exit 1; }
  done
  ;;
remove) rm -rf /var/lib/kubexm/restore "${data:?}"/restore-[0-9]*T[0-9]*Z ;;
*) echo "usage: restore.sh space|prepared|prepare|replaced|replace|healthy|data|tidy|remove" >&2; exit 2 ;;
esac
