# shellcheck shell=bash disable=SC2154 # run, frame.sh and hosts.sh set the variables
# Faults between the controller and its hosts, of logins, and of the state directory. Nothing is installed: the runs
# are dry runs.

fault host-dead connect message connect_dead
fault sshd-stopped connect message connect_sshd_stopped
fault sshd-hanging connect message connect_sshd_hanging
fault link-broken connect message connect_reset
fault link-slow connect recovers connect_slow
fault link-lossy connect recovers connect_lossy
fault mtu-small connect recovers connect_mtu
fault mtu-black-hole connect message connect_black_hole
fault no-dns connect message connect_no_dns
fault ssh-password-wrong connect message connect_password
fault sudo-password-wrong connect message connect_sudo
fault sudo-forbidden connect message connect_not_sudoer
fault host-key-changed connect message connect_key_changed
fault host-booting connect message connect_nologin
fault shell-broken connect message connect_shell
fault controller-disk-full connect message connect_state_full
fault controller-state-read-only connect message connect_state_read_only
fault state-damaged connect message connect_state_damaged
fault login-shell-greets connect recovers connect_greeting

before_connect() {
  have_hosts
  cluster_file ops "user: ops, password: '$password'" "" ""
}

connect_dead() {
  "$lab" unplug "$name" node2
  dry_run
  expect 4 "node2: cannot reach $two:22" "hint: check"
  "$lab" plug "$name" node2
  next_run 'dry run' dry_run
}
connect_sshd_stopped() {
  on_host node2 'systemctl stop ssh.socket ssh.service'
  dry_run
  expect 4 "node2: cannot reach $two:22: Connection refused" "hint: check that sshd runs on the host"
  start_sshd node2
  next_run 'dry run' dry_run
}
start_sshd() { # HOST: without ssh
  local pid
  pid=$(inside_pid "$1")
  nsenter -t "$pid" -a systemctl start ssh.service
}
inside_pid() { # HOST: PID 1 of the host on this machine
  local nspawn
  nspawn=$(sed -n "s/^host $1 \([0-9]*\) .*/\1/p" "$dir/record" | tail -n 1)
  pgrep -P "$nspawn"
}
connect_sshd_hanging() {
  local pid
  pid=$(on node2 cat /run/sshd.pid)
  on_host node2 "kill -STOP $pid"
  dry_run
  expect 4 "node2: cannot reach $two:22" "hint: "
  nsenter -t "$(inside_pid node2)" -a kill -CONT "$pid"
  next_run 'dry run' dry_run
}
connect_reset() {
  filter node2 "${resets[@]}"
  dry_run
  expect 4 "node2: cannot reach $two:22: Connection refused" "hint: "
  unfilter node2 "${resets[@]}"
  next_run 'dry run' dry_run
}
connect_slow() {
  slow_link node2 256kbit
  dry_run
  expect 0 "nothing was touched"
  fast_link node2
}
connect_lossy() {
  filter node2 "${losses[@]}"
  dry_run
  expect 0 "nothing was touched"
  unfilter node2 "${losses[@]}"
}
mtu() { # HOST MTU: of the whole link
  ip link set "$(link "$1")" mtu "$2"
  inside "$1" ip link set host0 mtu "$2"
}
connect_mtu() {
  mtu node2 600
  dry_run
  expect 0 "nothing was touched"
  mtu node2 1500
}
connect_black_hole() { # large packets are lost, and no one reports it
  filter node2 -m length --length 600:65535 -j DROP
  dry_run
  expect 4 "node2: cannot reach $two:22" "hint: "
  unfilter node2 -m length --length 600:65535 -j DROP
  next_run 'dry run' dry_run
}
connect_no_dns() {
  sed "s/address: $two/address: node2.site.invalid, internalAddress: $two/" "$work/cluster.yaml" >"$work/names.yaml"
  dry_run names
  expect 4 "node2: cannot reach node2.site.invalid:22: cannot resolve the name" "hint: correct address"
  next_run 'dry run' dry_run
}
connect_password() {
  cluster_file wrong "user: ops, password: wrong-secret" "" ""
  dry_run wrong
  expect 4 "node1: cannot log in as ops" "password (refused)" "hint: "
  next_run 'dry run' dry_run ops
}
connect_sudo() {
  cluster_file wrong "user: ops, privateKeyPath: $key, password: wrong-secret" "" ""
  dry_run wrong
  expect 4 "node1: cannot log in as ops: sudo refuses the password" "hint: correct password"
  next_run 'dry run' dry_run ops
}
connect_not_sudoer() {
  on_host node1 'mv /etc/sudoers.d/ops /root/ops'
  dry_run ops
  expect 4 "node1: cannot log in as ops: sudo" "hint: "
  on_host node1 'mv /root/ops /etc/sudoers.d/ops'
  next_run 'dry run' dry_run ops
}
connect_key_changed() {
  local other
  ssh-keygen -q -t ed25519 -N '' -f "$work/other" <<<y >/dev/null
  other=$(cut -d' ' -f1,2 "$work/other.pub")
  cp "$work/known" "$work/known.right"
  sed -i "s|^$two .*|$two $other|" "$work/known"
  dry_run
  expect 4 "node2: its SSH host key has CHANGED: $work/known:" "hint: "
  mv "$work/known.right" "$work/known"
  next_run 'dry run' dry_run
}
connect_nologin() { # a host that boots admits root only
  on_host node2 'echo "System is booting up." >/run/nologin'
  dry_run ops
  expect 4 "node2: cannot" "hint: "
  on_host node2 'rm /run/nologin'
  next_run 'dry run' dry_run ops
}
connect_shell() {
  on_host node2 'usermod -s /usr/sbin/nologin ops'
  dry_run ops
  expect 4 "node2: " "does not get a shell on the host" "hint: give the user a login shell"
  on_host node2 'usermod -s /bin/bash ops'
  next_run 'dry run' dry_run ops
}
connect_greeting() {
  on_host node2 'cp -p /home/ops/.bashrc /root/bashrc; echo "echo A greeting." >>/home/ops/.bashrc'
  dry_run ops
  expect 0 "nothing was touched"
  on_host node2 'mv /root/bashrc /home/ops/.bashrc'
}
install_to() { # STATE: an install that ends before it changes a host
  of_cluster cluster "$1"
  run install --unsigned --bundle "$bundle" "${cluster_options[@]}" --output plain
}
connect_state_full() {
  small_disk "$work/tiny" 64k
  fill_disk "$work/tiny"
  install_to tiny/state
  expect 2 "$work/tiny/state" "No space left on device" "hint: "
  holds "no host was touched" untouched node1 node2
  umount "$work/tiny"
  next_run 'dry run' dry_run
}
connect_state_read_only() {
  small_disk "$work/tiny" 64k
  mount -o remount,ro "$work/tiny"
  install_to tiny/state
  expect 2 "$work/tiny/state" "Read-only file system" "hint: "
  holds "no host was touched" untouched node1 node2
  umount "$work/tiny"
  next_run 'dry run' dry_run
}
connect_state_damaged() { # as after a power failure of the controller
  mkdir -p "$work/damaged"
  printf '{"id": "' >"$work/damaged/cluster.json"
  dry_run cluster damaged
  expect 2 "$work/damaged/cluster.json" "hint: restore the file from a backup"
  rm "$work/damaged/cluster.json"
  next_run 'dry run' dry_run cluster damaged
}
