# shellcheck shell=bash disable=SC2154 # run, frame.sh and hosts.sh set the variables
# Faults of a cluster that is installed, and of the installs after the first one. Each case ends with an install that
# exits 0; the smoke test runs at the end of the group.

fault kubelet-stopped second-install recovers upkeep_kubelet
fault runtime-stopped second-install recovers upkeep_runtime
fault registry-stopped second-install recovers upkeep_registry
fault file-changed second-install recovers upkeep_file
fault program-deleted second-install recovers upkeep_program
fault unit-deleted second-install recovers upkeep_unit
fault registry-blob-truncated second-install recovers upkeep_blob
fault certificate-expired second-install recovers upkeep_certificate
fault receipt-truncated second-install recovers upkeep_receipt
fault administrator-died second-install recovers upkeep_dead_lock "a lock on the host that ended one second after its start"
fault administrator-elsewhere second-install message upkeep_lock "a lock of another machine, written to the host"
fault ca-lost second-install message upkeep_ca
fault cluster-of-another second-install message upkeep_other_state
fault bundle-damaged second-install message upkeep_bundle
fault host-dead second-install message upkeep_dead
fault link-broken second-install message upkeep_link
fault controller-killed second-install killed upkeep_killed
fault ctrl-c second-install message upkeep_interrupted
fault disk-full-host second-install message upkeep_disk
fault no-dns second-install recovers upkeep_no_dns
fault all-hosts-reboot after-install recovers upkeep_reboot "containers that are killed and started again"

have_cluster() {
  have_hosts
  [ -z "${installed:-}" ] || return 0
  remember "${all[@]}"
  must "install" install_cluster_first
  installed=yes
}
install_cluster_first() {
  install_it
  [ "$code" = 0 ] || { tail -n 20 "$log"; return 1; }
}
before_upkeep() { have_cluster; }
after_upkeep() { works || results+=("$group|smoke|after-install|recovers|-|-|FAIL"); }

both_ready() { [ "$(kubectl get nodes --no-headers 2>/dev/null | awk '$2 == "Ready"' | wc -l)" = 2 ]; }
healed() { # the install repairs the cluster by itself
  install_it
  expect 0 "kubeconfig: "
  holds "both nodes are Ready" until_true 60 both_ready
}
again_installed() { next_run install install_it; }

upkeep_kubelet() {
  on_host node2 'systemctl stop kubelet'
  healed
  holds "it runs" on node2 systemctl is-active kubelet
}
upkeep_runtime() {
  on_host node2 'systemctl stop containerd'
  healed
  holds "it runs" on node2 systemctl is-active containerd
}
upkeep_registry() {
  on_host node1 'systemctl stop kubexm-registry'
  healed
  holds "it runs" on node1 systemctl is-active kubexm-registry
}
upkeep_file() {
  local before
  before=$(on node2 sha256sum /etc/containerd/config.toml)
  on_host node2 'echo "# changed" >>/etc/containerd/config.toml'
  healed
  holds "the file is as before" [ "$before" = "$(on node2 sha256sum /etc/containerd/config.toml)" ]
}
upkeep_program() {
  on_host node2 'rm /usr/local/bin/kubelet'
  healed
  holds "it is there" on node2 test -x /usr/local/bin/kubelet
}
upkeep_unit() {
  on_host node1 'rm /etc/systemd/system/kubexm-registry.service'
  healed
  holds "it runs" on node1 systemctl is-active kubexm-registry
}
upkeep_blob() { # one of the registry's blobs, as after a power failure
  local blobs blob
  mapfile -t blobs < <(on node1 find /var/lib/kubexm/registry -name data -size +1000k | sort)
  [ ${#blobs[@]} -gt 0 ] || return
  blob=${blobs[RANDOM % ${#blobs[@]}]}
  on_host node1 "truncate -s 1000 $blob"
  healed
  holds "the blob has its digest" on node1 sh -c "echo '$(basename "$(dirname "$blob")")  $blob' | sha256sum -c"
}
expired_certificate() { # CERTIFICATE KEY CA CA-KEY: replaces the certificate by one that ended yesterday
  local ca=$work/expired
  rm -rf "$ca"
  mkdir -p "$ca"
  : >"$ca/index"
  echo 1000 >"$ca/serial"
  printf '%s\n' '[ca]' 'default_ca=d' '[d]' "database=$ca/index" "serial=$ca/serial" "new_certs_dir=$ca" \
    default_md=sha256 policy=p copy_extensions=copy unique_subject=no '[p]' commonName=supplied organizationName=optional >"$ca/conf"
  if openssl x509 -x509toreq -copy_extensions copy -in "$1" -signkey "$2" -out "$ca/request" 2>"$ca/log" &&
    openssl ca -batch -config "$ca/conf" -in "$ca/request" -out "$ca/new" -cert "$3" -keyfile "$4" -notext \
      -startdate 20260101000000Z -enddate 20260102000000Z 2>>"$ca/log"; then
    cp "$ca/new" "$1"
  else
    problem "no expired certificate: $(tail -n 2 "$ca/log")"
  fi
}
upkeep_certificate() { # of the registry; install renews it
  local pki=$work/state/pki ca
  ca=$(compgen -G "$pki/kubexm-*.crt")
  expired_certificate "$pki/registry.crt" "$pki/registry.key" "$ca" "${ca%.crt}.key"
  on node1 sh -c 'cat >/etc/kubexm/registry/tls.crt' <"$pki/registry.crt"
  on_host node1 'systemctl restart kubexm-registry'
  healed
  holds "it is valid" openssl x509 -noout -checkend 86400 -in "$pki/registry.crt"
  holds "the host has it" cmp "$pki/registry.crt" <(on node1 cat /etc/kubexm/registry/tls.crt)
}
upkeep_receipt() { # a power failure cut the last line
  on_host node2 'cp -p /var/lib/kubexm/receipt.jsonl /root/receipt; truncate -s -20 /var/lib/kubexm/receipt.jsonl'
  healed
  on_host node2 'mv /root/receipt /var/lib/kubexm/receipt.jsonl'
}
foreign_lock() { # END: by the host's time since boot
  on_host node1 "printf '%s\n' '$1' token origin '{\"user\":\"ada\",\"machine\":\"admin1\",\"pid\":4711,\"command\":\"install\",\"state\":\"/x\",\"since\":\"2026-01-31T12:00:00Z\"}' >/run/kubexm.lock"
}
upkeep_dead_lock() {
  foreign_lock 1
  healed
}
upkeep_lock() {
  foreign_lock 99999999999
  install_it
  expect 2 "node1: is locked by \`kubexm install\` of ada@admin1 (process 4711" "hint: wait until that command ends"
  on_host node1 'rm /run/kubexm.lock'
  again_installed
}
upkeep_ca() {
  local ca
  ca=$(compgen -G "$work/state/pki/kubexm-*.crt")
  mv "$ca" "$work/away.crt"
  install_it
  expect 2 "$ca" "hint: restore the file from a backup"
  mv "$work/away.crt" "$ca"
  again_installed
}
upkeep_other_state() {
  install_to other-state
  expect 2 "node1: belongs to cluster" "hint: pass the state directory of that cluster"
  rm -rf "$work/other-state"
  again_installed
}
upkeep_bundle() { # one byte of the content
  local damaged=$work/damaged.tar.zst
  cp --reflink=auto "$bundle" "$damaged"
  flip_byte "$damaged" "$(($(stat -c %s "$bundle") / 4 + RANDOM * 1000))"
  of_cluster cluster state
  run install --unsigned --bundle "$damaged" "${cluster_options[@]}" --output plain
  expect 3 "$damaged" "hint: copy the bundle again"
  rm -f "$damaged"
  again_installed
}
upkeep_dead() {
  "$lab" unplug "$name" node2
  install_it
  expect 4 "node2: cannot reach $two:22" "hint: "
  "$lab" plug "$name" node2
  again_installed
}
begun_applying() { grep -q '"event":"phase","name":"apply"' "$log"; }
upkeep_link() {
  begin_install
  reaches 120 begun_applying && filter node1 "${resets[@]}"
  finish
  expect 4 "node1: cannot reach $one:22" "hint: "
  unfilter node1 "${resets[@]}"
  again_installed
}
upkeep_killed() {
  begin_install
  reaches 120 begun_applying && sleep "0.$((RANDOM % 10))"
  kill_run
  expect 137
  again_installed
}
upkeep_interrupted() {
  begin_install
  reaches 120 begun_applying && kill -INT "$victim"
  finish
  expect 1 "hint: run the same command again to go on"
  again_installed
}
upkeep_disk() { # a directory whose disk is full when install must write a file there
  on_host node2 'cp -a /etc/containerd /run/containerd-copy && mount -t tmpfs -o size=256k tmpfs /etc/containerd &&
    cp -a /run/containerd-copy/. /etc/containerd/ && rm -r /run/containerd-copy &&
    echo "# changed" >>/etc/containerd/config.toml && ! cat /dev/zero >/etc/containerd/filled 2>/dev/null'
  install_it
  expect 5 "node2: Write /etc/containerd/config.toml" "No space left on device" "hint: run the same command again to go on"
  on_host node2 'umount -l /etc/containerd'
  again_installed
}
upkeep_no_dns() {
  on_host node2 'mv /etc/resolv.conf /root/resolv.conf'
  healed
  on_host node2 'mv /root/resolv.conf /etc/resolv.conf'
}
upkeep_reboot() {
  local host
  for host in node1 node2; do
    "$lab" unplug "$name" "$host"
    "$lab" kill-host "$name" "$host"
  done
  for host in node1 node2; do "$lab" start-host "$name" "$host" >"$work/quiet" 2>&1; done
  holds "the cluster works without an install" until_true 120 both_ready
  healed
}
