#!/bin/sh -eu
# Replaces the data of the member on this host by that of a snapshot. The former data stays in the data directory.
#   space      checks whether the snapshot and the new data have space, before they are sent
#   prepared   checks whether the new data is ready, or in its place
#   prepare    creates the new data beside the old one, while the cluster keeps running
#   replaced   checks whether the new data is in its place
#   replace    moves the former data aside and the new data to its place; etcd must not run
#   tidy       checks whether files of the restore are left
#   remove     removes them, but not the former data
# Parameters:
#   id       the ID of the restore
#   kind     `kubeadm` or `systemd`, which runs etcd
#   data     its data directory
#   name     the name of the member
#   peer     its address for other members
#   members  all members as etcd expects them for a first start
#   bump     what is added to revisions
#   bytes    for `space` the size of the snapshot
: "${verb=}" "${id=}" "${kind=}" "${data=}" "${name=}" "${peer=}" "${members=}" "${bump=}" "${bytes=}"
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
space() {
  [ ! -e "$folder/prepared" ] && [ ! -e "$folder/replaced" ] || exit 0
  # etcdutl writes logs beside the data.
  sent=$((bytes / 1048576 + 1)) made=$((bytes / 1048576 + 129))
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
  # With the mode, a default access list of the data directory permits nothing.
  mkdir -m 700 "$new"
  enter_own "$data" "restore-$id"
  # The revision of every object is larger than all that clients have seen, so that none keeps a cache of what is lost.
  said=$("$folder/etcdutl" snapshot restore "$folder/snapshot.db" --name "$name" --initial-cluster "$members" \
    --initial-cluster-token "$id" --initial-advertise-peer-urls "$peer" --data-dir data \
    --bump-revision "$bump" --mark-compacted 2>&1) || {
    printf '%s\n' "etcdutl cannot restore the snapshot:" "$said" >&2
    exit 1
  }
  owner=$(stat -c %u:%g "$data/member" 2>/dev/null || :)
  [ "$kind" != systemd ] || owner=etcd:etcd
  chmod -R go= data
  chown -Rh "${owner:-0:0}" data
  mv data/member member
  rmdir data
  if command -v restorecon >/dev/null; then restorecon -R member || :; fi
  sync -f . 2>/dev/null || sync
  enter_own "$data" "restore-$id"
  : >"$folder/prepared"
}
replace_data() {
  ! is_running || { echo "etcd still runs" >&2; exit 1; }
  # A run that was killed between the two renames has moved the former data already.
  if [ -d "$new/member" ]; then
    # An earlier version of kubexm gave the directory to the user of etcd.
    chown -h 0:0 "$new"
    enter_own "$data" "restore-$id"
    former=$data/member.before-$id
    while [ -e "$former" ]; do former=${former}x; done
    [ ! -e "$data/member" ] || mv -T "$data/member" "$former"
    mv -T member "$data/member"
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
space) space ;;
prepared) [ -e "$folder/prepared" ] || [ -e "$folder/replaced" ] || { echo "the new data is not ready"; exit 1; } ;;
prepare) prepare ;;
replaced) [ -e "$folder/replaced" ] || { echo "the member has its former data"; exit 1; } ;;
replace) replace_data ;;
tidy)
  # The names of other files of a site can begin in the same way.
  for path in /var/lib/kubexm/restore "$data"/restore-[0-9]*T[0-9]*Z; do
    [ ! -e "$path" ] || { echo "$path is left"; exit 1; }
  done
  ;;
remove) rm -rf /var/lib/kubexm/restore "${data:?}"/restore-[0-9]*T[0-9]*Z ;;
*) echo "usage: restore.sh space|prepared|prepare|replaced|replace|tidy|remove" >&2; exit 2 ;;
esac
