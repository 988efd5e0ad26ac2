# shellcheck shell=bash disable=SC2034,SC2154 # run, frame.sh and hosts.sh set the variables
# Faults while an install changes hosts. The cases are in the order of the install's phases: each run continues where
# the run before it ended, and a complete install at the end proves that all faults are repaired. A case that recovers
# is seen to pass the step of its fault; then its run is killed.

fault two-administrators apply message apply_two_administrators
fault two-runs-of-one-directory apply message apply_two_runs
fault apt-killed os-packages message apply_apt_killed
fault apt-locked os-packages recovers apply_apt_locked
fault disk-full-registry seed message apply_registry_full
fault usb-stick-removed seed message apply_stick "a file system on a loop device whose file is truncated"
fault controller-killed seed killed apply_killed
fault link-broken seed message apply_link_broken
fault registry-killed pull recovers apply_registry_killed
fault kubeadm-hanging init message apply_kubeadm_hanging
fault kubeadm-killed init message apply_kubeadm_killed
fault controller-killed init killed apply_killed_at_init
fault port-occupied join message apply_port
fault host-reboots join message apply_reboot "a container that is killed and started again"
fault kubeadm-hanging join recovers apply_kubeadm_hanging_at_join
fault link-slow-and-lossy install recovers apply_to_the_end

before_install() {
  have_hosts
  remember "${all[@]}"
}
# The complete install, the smoke test, and the rows that waited for them.
after_install() {
  local wrong=''
  [ -n "$complete" ] || { install_it; [ "$code" = 0 ] || wrong="exit code $code"; }
  works || wrong="${wrong:-the cluster does not work}"
  installed=yes
  [ -z "$wrong" ] || { echo "      at the end: $wrong"; tail -n 12 "$log" | cut -c1-240 | sed 's/^/      | /'; }
  settle install "install and smoke: 0" "$wrong"
}
complete=''
kubectl() { kubectl_on_node1 "$@"; }
works() { # the nodes are Ready, and a service answers by its name
  local image
  image=$agnhost
  until_true 60 ready 2 >"$work/works.log" 2>&1 || return
  { smoke_apply "$image" && smoke_rolled_out deployment/web && smoke_rolled_out daemonset/everywhere &&
    until_true 30 smoke_by_name && smoke_job && kubectl delete namespace smoke --wait=true &&
    kubectl delete pv smoke; } >>"$work/works.log" 2>&1 || {
    tail -n 5 "$work/works.log"
    kubectl get pods -A -o wide
    kubectl get events -A --field-selector type=Warning | tail -n 10
    return 1
  }
  # The data of the volume: a reset keeps what pods stored on their hosts.
  on node1 rm -rf /var/lib/kubelet/smoke && on node2 rm -rf /var/lib/kubelet/smoke
}

pending_install() { next_run_is install; }
kill_run() { kill -9 "$victim" 2>/dev/null || true; finish; }
# goes_on HOST STEP SECONDS: the step ends well; then kubexm is killed, so that the next case begins here
goes_on() {
  if reaches "$3" step "$1" "$2" '\(changed\|unchanged\|ran\|met\)'; then row_exit=0; else row_exit=$code; fi
  cp "$log" "$work/judged.log"
  kill_run
  pending_install
}

apply_two_administrators() {
  begin_install
  reaches 120 step node1 "" started || true
  kill -STOP "$victim"
  rm -rf "$work/state-copy"
  cp -a "$work/state" "$work/state-copy"
  local first=$victim first_log=$log
  install_to state-copy
  expect 2 "node1: is locked by \`kubexm install\`" "(process $first" "hint: wait until that command ends"
  victim=$first log=$first_log
  kill -CONT "$victim"
  kill_run
  rm -rf "$work/state-copy"
  pending_install
}
apply_two_runs() {
  begin_install
  reaches 120 step node1 "" started || true
  kill -STOP "$victim"
  local first=$victim first_log=$log
  install_it
  expect 2 "$work/state" "hint: "
  victim=$first log=$first_log
  kill -CONT "$victim"
  kill_run
  pending_install
}
apply_apt_killed() { # on the control plane, because all later phases wait for it
  begin_install
  reaches 120 step node1 "Install packages" started || true
  until_true 20 on node1 sh -c 'pkill -9 -x dpkg && pkill -9 -x apt-get' || problem "apt did not run"
  finish
  expect 5 "node1" "Install packages" "hint: run the same command again to go on"
  pending_install
}
apply_apt_locked() { # another program of the administrator has apt's lock until 10 s after apt began
  # shellcheck disable=SC2016 # Perl's variables
  on node1 sh -c 'exec perl -MFcntl -e '\''open($f, ">>", "/var/lib/dpkg/lock-frontend") or die;
    $lock = pack("s s x4 q q i x4", F_WRLCK, 0, 0, 0, 0); fcntl($f, F_SETLK, $lock) or die;
    open($g, ">", "/run/locked") or die; sleep 1 while -e "/run/locked"'\' &
  until_true 10 on node1 test -e /run/locked || problem "apt's lock was not taken"
  begin_install
  reaches 120 step node1 "Install packages" started && sleep 10
  holds "apt waits for its lock" fails_quietly step node1 "Install packages" '\(changed\|unchanged\|failed\)'
  on_host node1 'rm /run/locked'
  goes_on node1 "Install packages" 240
}
apply_registry_full() {
  small_disk_on node1 /var/lib/kubexm/registry 64m
  install_it
  expect 5 "registry/serve@node1: Upload" "No space left on device" "hint: run the same command again to go on"
  no_small_disk_on node1 /var/lib/kubexm/registry
  pending_install
}
apply_stick() {
  stick "$work/stick" $(($(stat -c %s "$bundle") / 1048576 + 60))
  cp "$bundle" "$work/stick/b.tar.zst"
  stick_cold "$work/stick"
  of_cluster cluster state
  # A fast machine uploads all images before a shell notices that the upload has begun.
  slow_link node1 80mbit
  begin install --unsigned --bundle "$work/stick/b.tar.zst" "${cluster_options[@]}" --output json
  reaches 240 step node1 "Upload .* images" started && stick_removed
  finish
  fast_link node1
  expect 5 "$work/stick/b.tar.zst" "Input/output error" "hint: the disk does not answer"
  stick_gone "$work/stick"
  pending_install
}
apply_killed() { # after a random number of seconds of the upload
  begin_install
  reaches 240 step node1 "Upload .* images" started && sleep "0.$((RANDOM % 10))"
  kill_run
  expect 137
  pending_install
}
apply_link_broken() {
  slow_link node1 80mbit
  begin_install
  reaches 240 step node1 "Upload .* images" started && filter node1 "${resets[@]}"
  finish
  fast_link node1
  expect 4 "node1: cannot reach $one:22" "hint: "
  unfilter node1 "${resets[@]}"
  pending_install
}
apply_registry_killed() { # systemd starts it again after 2 s; the first control plane pulls before it runs kubeadm
  begin_install
  reaches 240 step node1 "Pull and pin" started
  for _ in 1 2 3; do
    on node1 systemctl kill -s KILL kubexm-registry.service || true
    sleep 1
  done
  goes_on node1 "Pull and pin" 240
}
kubeadm_runs() { on "$1" pgrep -x kubeadm >/dev/null; } # HOST
reaches_kubeadm() { # HOST VERB
  reaches 300 step "$1" "Run kubeadm $2" started && reaches 120 kubeadm_runs "$1"
}
hangs() { # HOST VERB: kubeadm is stopped until kubexm prints what it waits for
  reaches_kubeadm "$1" "$2"
  on_host "$1" 'pkill -STOP -x kubeadm'
  reaches 90 grep -q "\"event\":\"waiting\",\"host\":\"$1\",\"what\":\"Run kubeadm $2" "$log"
}
apply_kubeadm_hanging() { # the operator reads what kubexm waits for, and ends it
  begin_install
  hangs node1 init
  on_host node1 'pkill -9 -x kubeadm'
  finish
  expect 5 "node1: Run kubeadm init" "hint: run the same command again to go on"
  pending_install
}
apply_kubeadm_killed() {
  begin_install
  reaches_kubeadm node1 init && sleep "1.$((RANDOM % 10))"
  on_host node1 'pkill -9 -x kubeadm'
  finish
  expect 5 "node1: Run kubeadm init" "hint: run the same command again to go on"
  pending_install
}
apply_killed_at_init() { # kubeadm continues on the host, and the next run waits for it
  begin_install
  reaches_kubeadm node1 init && sleep "0.$((RANDOM % 10))"
  kill_run
  expect 137
  pending_install
}
apply_port() { # a program took the port after preflight
  listen_on node2 10250
  install_it
  expect 5 "node2" "Run kubeadm join" "10250" "hint: run the same command again to go on"
  listen_no_more
  pending_install
}
apply_reboot() {
  begin_install
  reaches 300 step node2 "Run kubeadm join" started
  # The network goes first: on a busy machine, ending the host takes longer than the join.
  "$lab" unplug "$name" node2
  "$lab" kill-host "$name" node2
  finish
  expect 4 "node2: cannot reach $two:22" "hint: "
  "$lab" start-host "$name" node2 >"$work/quiet" 2>&1
  pending_install
}
apply_kubeadm_hanging_at_join() {
  begin_install
  hangs node2 join
  on_host node2 'pkill -CONT -x kubeadm'
  goes_on node2 "Run kubeadm join" 240
}
apply_to_the_end() {
  slow_link node2 40mbit
  filter node2 -m statistic --mode random --probability 0.01 -j DROP
  install_it
  expect 0 "kubeconfig: "
  [ "$code" != 0 ] || complete=yes
  unfilter node2 -m statistic --mode random --probability 0.01 -j DROP
  fast_link node2
}
