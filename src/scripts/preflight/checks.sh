#!/bin/sh -eu
# Prints what the checks of hosts read besides facts, on a host without a cluster and on one of a cluster: one `key=value` in a
# line, in any order, and `end=` at the end. A key may occur several times. A question without an answer prints nothing. Changes
# nothing: each question has a time limit, and prints a limited number of lines.
# Parameters:
#   data         the data directory of the container runtime
#   etcd         the directory in which kubeadm creates a member of etcd
#   directories  directories of the cluster whose content must survive a boot, separated by blanks
#   files        files and directories that kubexm changes, separated by blanks
#   chains       the beginnings of the names of chains and tables of network plugins, separated by blanks
#   units        the units of the container runtime and of the kubelet, separated by blanks
# Arguments: addresses to which the host needs a route.
: "${verb=}" "${data=}" "${etcd=}" "${directories=}" "${files=}" "${chains=}" "${units=}"
export PATH="/usr/local/bin:$PATH"
kubelet=/var/lib/kubelet
disks() {
  # Network file systems whose server does not answer: whatever touches them hangs.
  awk '$3 ~ /^(nfs|nfs4|cifs|ceph|9p|fuse\.sshfs|glusterfs)$/ { print $2, $3 }' /proc/mounts | head -n 20 | while read -r mount kind; do
    timeout -k 1 3 stat -f "$mount" >/dev/null 2>&1 || echo "dead_mount=$mount $kind"
  done
  for path in "$kubelet" "$data" /var/lib/etcd /var/lib/cni /var/log/pods; do
    [ -d "$path" ] || continue
    bounded 5 df -Pi "$path" | awk -v path="$path" 'NR == 2 && $2 > 0 { print "inodes=" path, $4, $2, $6 }'
  done
  all="$kubelet $data /var/lib/etcd /var/lib/cni /var/log/pods /usr/local/bin /opt/cni/bin $directories"
  deepest "$all" /proc/mounts | each mount
  # What the next boot mounts.
  ! [ -r /etc/fstab ] || awk '$1 !~ /^#/ && "," $4 "," !~ /,noauto,/' /etc/fstab | deepest "$all" | each next_mount
  # Overlays need the types of directory entries, which XFS has without ftype only if it is of 2014 or newer.
  point=$(deepest "$data" /proc/mounts | awk '$3 == "xfs" { print $4 }')
  [ -z "$point" ] || xfs_ftype "$point" | each xfs || :
  for path in "$kubelet" "$data" "${etcd:-/var/lib/etcd}" /var/lib/cni /var/log/pods; do
    target=$(readlink -f "$path") || continue
    [ "$target" = "$path" ] || echo "link=$path $target"
  done
  unsaved_mounts "$directories"
  [ -z "$etcd" ] || find "$etcd" -mindepth 1 -maxdepth 1 2>/dev/null | head -n 20 | sed 's,.*/,etcd_entry=,'
}
kernel() {
  sed 1d /proc/swaps | head -n 20 | each swap
  awk '$1 !~ /^#/ && $3 == "swap" { print $1 }' /etc/fstab 2>/dev/null | head -n 20 | each swap_fstab
  bounded 5 systemctl list-units --type=swap --state=active --no-legend --plain | awk '{ print $1 }' | each swap_unit
  # What turns swap on again besides units: the agent of Azure.
  ! grep -qsiE '^[[:space:]]*ResourceDisk\.Format[[:space:]]*=[[:space:]]*y' /etc/waagent.conf ||
    grep -HsiE '^[[:space:]]*ResourceDisk\.EnableSwap[[:space:]]*=[[:space:]]*y' /etc/waagent.conf | each swap_setting || :
  bounded 5 stat -fc %T /sys/fs/cgroup | each cgroup
  for name in net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/bridge/bridge-nf-call-iptables net/netfilter/nf_conntrack_count \
    net/netfilter/nf_conntrack_max fs/inotify/max_user_instances fs/inotify/max_user_watches kernel/modules_disabled; do
    [ ! -r "/proc/sys/$name" ] || echo "sysctl=$name $(cat "/proc/sys/$name")"
  done
  for unit in systemd-sysctl.service systemd-modules-load.service; do
    [ "$(timed 5 systemctl is-enabled "$unit")" != masked ] || echo "masked_unit=$unit"
  done
  # What the next boot sets, in this order: a comment with the name of each file before its lines. ufw comes last.
  {
    timed 5 systemd-analyze cat-config sysctl.d || :
    ! grep -qis '^ENABLED=yes' /etc/ufw/ufw.conf || { echo "# /etc/ufw/sysctl.conf" && cat /etc/ufw/sysctl.conf; }
  } 2>/dev/null | grep -E '^(# /|[^#;[:space:]])' | head -n 2000 | cut -c1-300 | each next_sysctl || :
}
modules() { unloaded_modules; }
network() {
  # Name servers, of which pods get those of one of these files.
  for file in /etc/resolv.conf /run/systemd/resolve/resolv.conf; do
    [ ! -r "$file" ] || awk -v file="$file" '$1 == "nameserver" { print file, $2 }' "$file" | head -n 10 | each resolver
  done
  ! timed 5 systemctl is-active -q systemd-resolved || echo "resolved=active"
  bounded 5 ip -o addr show dev cni0 | awk '{ print $4 }' | each cni0
  find -H /etc/cni/net.d -maxdepth 1 \( -name '*.conf' -o -name '*.conflist' -o -name '*.json' \) 2>/dev/null | LC_ALL=C sort | head -n 20 | each cni_file || :
  packet_rules "$chains"
}
routes() {
  command -v ip >/dev/null || return 0
  networks
  for address; do
    if said=$(timed 5 ip route get "$address"); then echo "route=$address $(printf '%s\n' "$said" | head -n 1 | cut -c1-200)"; else echo "no_route=$address"; fi
  done
}
system() {
  timed 5 systemctl show-environment | sed "s/=\$'\(.*\)'\$/=\1/" | proxies "" ""
  for unit in $units; do
    unit_variables "$unit" | proxies unit_ "$unit="
    [ "$(timed 5 systemctl show -p LoadState "$unit")" = LoadState=loaded ] || echo "unit_unknown=$unit"
  done
  # Files that kubexm writes, and that nothing can change.
  if command -v lsattr >/dev/null; then
    for file in $files; do
      # shellcheck disable=SC2016 # expands in the other shell, which can hang on a dead mount
      bounded 5 sh -c '[ ! -e "$1" ] || lsattr -d "$1"' sh "$file" | awk '$1 ~ /[ia]/ { print $2 }'
    done | head -n 40 | each immutable
  fi
  fapolicyd_rules
  # cloud-init writes /etc/hosts again at each boot. The files are in the order in which it merges them: the last value counts.
  [ -e /etc/cloud/cloud-init.disabled ] || (
    LC_ALL=C instance=/var/lib/cloud/instance
    grep -HsE '^ *manage_etc_hosts *:' /etc/cloud/cloud.cfg /etc/cloud/cloud.cfg.d/*.cfg "$instance/vendor-cloud-config.txt" \
      "$instance/vendor2-cloud-config.txt" "$instance/cloud-config.txt" | head -n 20 | each cloud_hosts
  ) || :
}
# shellcheck disable=SC2086 # units have no blanks
overrides() { unit_overrides $units etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service kube-proxy.service; }
resolvers() { resolv_writers | each resolv_writer; }
packages() {
  if command -v dpkg >/dev/null && command -v apt-get >/dev/null; then
    said=$(timeout -k 1 20 apt-get check -qq -o Debug::NoLocking=true 2>&1 </dev/null) || printf '%s\n' "$said" | grep . | tail -n 3 | cut -c1-300 | each packages
    timed 20 dpkg --audit | sed -n 's/^ \([a-z0-9][^ ]*\) .*/\1/p' | head -n 10 | each packages
  fi
  # Packages that miss others do not keep dnf from installing more. A damaged database does.
  if ! command -v dpkg >/dev/null && command -v rpm >/dev/null; then
    timeout -k 1 20 rpm -qa --qf '' 2>&1 >/dev/null </dev/null | grep -i error | grep -viE 'skipping h#|signature' | head -n 3 | cut -c1-300 | each rpm_database || :
  fi
}
# They run at the same time: the slowest one determines the duration. A write of at most 4096 bytes stays together.
for question in disks kernel modules network routes system overrides packages resolvers; do
  "$question" "$@" | cut -c1-4000 | while IFS= read -r line; do printf '%s\n' "$line"; done &
done
wait
echo "end="
