# shellcheck shell=bash disable=SC2154 # run, frame.sh and hosts.sh set the variables
# Faults of a reset. Each run continues where the run before it ended. The last one must leave hosts as they were before
# the first install.

fault etcd-stopped reset message reset_etcd
fault controller-disk-full reset message reset_disk_full
fault administrator-elsewhere reset message reset_lock "a lock of another machine, written to the host"
fault controller-killed reset killed reset_killed
fault host-dead reset message reset_dead
fault file-of-the-site reset recovers reset_foreign_file
fault reset-of-clean-hosts reset recovers reset_again

before_reset() { have_cluster; }
after_reset() {
  local host wrong=''
  reset_it
  [ "$code" = 0 ] || wrong="exit code $code"
  for host in "${all[@]}"; do
    compare "$host" >"$work/differences.$host" || { wrong="$host is not clean"; sed 's/^/      | /' "$work/differences.$host"; }
  done
  [ -z "$wrong" ] || echo "      at the end: $wrong"
  settle reset "reset, hosts clean: 0" "$wrong"
}
reset_it() {
  of_cluster cluster state
  run reset --yes "${cluster_options[@]}" --output plain
}
pending_reset() { next_run_is reset; }

reset_etcd() { # the API server and etcd do not run
  on_host node1 'mv /etc/kubernetes/manifests/etcd.yaml /root/'
  holds "etcd has stopped" until_true 60 etcd_stopped
  reset_it
  expect 2 "no snapshot of etcd could be taken before the reset" "hint: " "--no-snapshot"
  on_host node1 'mv /root/etcd.yaml /etc/kubernetes/manifests/'
  holds "etcd runs again" until_true 90 fails_quietly etcd_stopped
  holds "the API server answers" until_true 90 both_ready
  pending_reset
}
etcd_stopped() { on node1 sh -c '! pgrep -x etcd'; }
reset_disk_full() {
  small_disk "$work/state/archive" 64k
  reset_it
  expect 2 "cannot write $work/state/archive/" "No space left on device" "hint: free some space"
  umount "$work/state/archive"
  pending_reset
}
reset_lock() {
  foreign_lock 99999999999
  reset_it
  expect 2 "node1: is locked by \`kubexm install\` of ada@admin1 (process 4711" "hint: wait until that command ends"
  on_host node1 'rm /run/kubexm.lock'
  pending_reset
}
reset_foreign_file() { # a reset keeps what it does not know, and lists it
  on_host node2 'mkdir -p /etc/kubernetes && echo site >/etc/kubernetes/site.conf'
  reset_it
  expect 0 "node2: /etc/kubernetes/site.conf stays"
  holds "it stays" on node2 grep -x site /etc/kubernetes/site.conf
  on_host node2 'rm -r /etc/kubernetes'
}
reset_killed() {
  of_cluster cluster state
  begin reset --yes "${cluster_options[@]}" --output json
  reaches 120 grep -q '"state":"reverted"' "$log" && sleep "0.$((RANDOM % 10))"
  kill_run
  expect 137
  pending_reset
}
reset_dead() {
  "$lab" unplug "$name" node2
  reset_it
  expect 4 "these hosts were not reset, the others were" "node2: cannot reach $two:22" "hint: run the same command again when they answer"
  "$lab" plug "$name" node2
  pending_reset
}
reset_again() { # hosts without a receipt, and a state directory without a cluster
  reset_it
  reset_it
  expect 0
}
