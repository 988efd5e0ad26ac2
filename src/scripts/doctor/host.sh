#!/bin/sh -eu
# Prints what `doctor` reads on a host besides its facts: one `key=value` in a line, in any order, and `end=` at the end. A key
# may occur several times. A question without an answer prints nothing. Needs no API server, and changes nothing: each
# question has a time limit, and prints a limited number of lines.
# Argument: the data directory of the container runtime.
export PATH="/usr/local/bin:$PATH"
data=$1
manifests=/etc/kubernetes/manifests
kubelet=/var/lib/kubelet
# Runs a command with a limit in seconds.
timed() {
  limit=$1
  shift
  timeout -k 1 "$limit" "$@" 2>/dev/null </dev/null
}
# The same; prints at most 40 lines.
bounded() { timed "$@" | head -n 40 | cut -c1-1000; }
# Prints each line of standard input as a value of this key.
each() { sed "s/^/$1=/"; }
clock() {
  echo "ntp=$(bounded 5 timedatectl show -p NTPSynchronized --value)"
  for unit in chrony chronyd systemd-timesyncd ntpd ntpsec; do
    if [ "$(bounded 5 systemctl is-active "$unit")" = active ]; then echo "ntp_unit=$unit"; fi
  done
}
disks() {
  # Network file systems whose server does not answer: whatever touches them hangs.
  awk '$3 ~ /^(nfs|nfs4|cifs|ceph|9p|fuse\.sshfs|glusterfs)$/ { print $2, $3 }' /proc/mounts | head -n 20 | while read -r mount kind; do
    timeout -k 1 3 stat -f "$mount" >/dev/null 2>&1 || echo "dead_mount=$mount $kind"
  done
  for path in "$kubelet" "$data" /var/lib/etcd /var/lib/cni /var/log/pods; do
    [ -d "$path" ] || continue
    bounded 5 df -Pi "$path" | awk -v path="$path" 'NR == 2 && $2 > 0 { print "inodes=" path, $4, $2, $6 }'
  done
  for path in "$kubelet" "$data" /var/lib/etcd /var/lib/cni /var/log/pods /usr/local/bin /opt/cni/bin; do
    [ -d "$path" ] || continue
    # The last mount with the longest path that contains this one.
    awk -v path="$path/" '{ mount = $2 == "/" ? "/" : $2 "/" } index(path, mount) == 1 && length(mount) >= length(best) { best = mount; options = $4 }
      END { print "mount=" substr(path, 1, length(path) - 1), options }' /proc/mounts
  done
}
kernel() {
  sed 1d /proc/swaps | head -n 20 | each swap
  awk '$1 !~ /^#/ && $3 == "swap" { print $1 }' /etc/fstab 2>/dev/null | head -n 20 | each swap_fstab
  bounded 5 systemctl list-units --type=swap --state=active --no-legend --plain | awk '{ print $1 }' | each swap_unit
  bounded 5 stat -fc %T /sys/fs/cgroup | each cgroup
  for name in net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/bridge/bridge-nf-call-iptables net/netfilter/nf_conntrack_count \
    net/netfilter/nf_conntrack_max fs/inotify/max_user_instances fs/inotify/max_user_watches; do
    [ ! -r "/proc/sys/$name" ] || echo "sysctl=$name $(cat "/proc/sys/$name")"
  done
}
kubelet() {
  config=$kubelet/config.yaml
  [ -f "$config" ] || return 0
  # Not the whole file: the headers of a server of manifests can be secret.
  grep -E '^(kind|failSwapOn|failCgroupV1|cgroupDriver): ' "$config" | each kubelet
  current=$kubelet/pki/kubelet-client-current.pem
  if [ -s "$current" ]; then echo "kubelet_certificate=present"
  elif [ -L "$current" ]; then echo "kubelet_certificate=its link leads to $(readlink "$current"), which is missing or empty"
  else echo "kubelet_certificate=the file does not exist"; fi
  # A kubeconfig has the certificate in it, or names the file.
  if [ -f /etc/kubernetes/kubelet.conf ]; then
    grep -o 'client-certificate: .*' /etc/kubernetes/kubelet.conf | each kubelet_conf
  else echo "kubelet_conf=missing"; fi
  # Flags that are not in its configuration.
  for file in $kubelet/kubeadm-flags.env /etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service \
    /etc/systemd/system/kubelet.service.d/*.conf; do
    [ ! -f "$file" ] || grep -e ' --\|"--\|=--' "$file" | head -n 30 | cut -c1-1000 | sed "s,^,kubelet_flags=$file ," || :
  done
  # What CoreDNS forwards to if it has no servers of its own.
  resolv=$(sed -n "/^resolvConf: */{s///;s/[\"']//g;p;q;}" "$config")
  resolv=${resolv:-/etc/resolv.conf}
  if [ -f "$resolv" ]; then
    echo "resolv_conf=$resolv"
    awk '$1 == "nameserver" { print $2 }' "$resolv" | head -n 10 | each nameserver
  fi
}
# Passes on at most 40 rules that name a port, and 40 others: some firewalls ban thousands of addresses by a rule for each.
some() { awk '/dport/ ? ++ports <= 40 : ++others <= 40' | cut -c1-1000; }
# Rules of an administrator or of another firewall that drop packets.
rules() {
  timed 5 iptables-save -t filter | grep -E -e '-j (DROP|REJECT)' -e '^:(INPUT|FORWARD|OUTPUT) DROP' |
    grep -vE -e '^-A (KUBE|cali|CILIUM|FLANNEL|CNI)' | some | each rule
  timed 5 nft list ruleset | awk '/^table/ { table = $3 } /(drop|reject)$/ && table !~ /^(kube|filter|nat|mangle|raw|cali)/ { gsub(/^[ \t]+/, ""); print table ": " $0 }' |
    some | each rule
}
network() {
  find /etc/cni/net.d -maxdepth 1 \( -name '*.conf' -o -name '*.conflist' -o -name '*.json' \) 2>/dev/null | LC_ALL=C sort | head -n 20 | each cni_file || :
  for folder in /var/lib/cni/networks/*/; do
    [ -d "$folder" ] || continue
    echo "cni_leases=$(basename "$folder") $(find "$folder" -maxdepth 1 -name '[0-9a-f]*[.:]*' ! -name 'last_*' | wc -l)"
  done
  # All of them: with a number that is too small, the leases of pods that run would count as leftovers.
  if ready=$(timed 20 crictl pods -q --state ready); then echo "sandboxes=$(printf '%s\n' "$ready" | grep -c .)"; fi
  sed -n 's/^FLANNEL_SUBNET=//p' /run/flannel/subnet.env 2>/dev/null | each flannel_subnet || :
  bounded 5 ip -br addr show type bridge | awk '{ print $1, $3 }' | each bridge
  for link in flannel.1 vxlan.calico cilium_vxlan cilium_geneve; do
    [ -d "/sys/class/net/$link" ] || continue
    echo "overlay=$link"
    bounded 5 ethtool -k "$link" | sed -n "s/^tx-checksum-ip-generic: */offload=$link /p"
  done
  awk 'FNR > 1 { split($2, part, ":"); print part[2] }' /proc/net/udp /proc/net/udp6 2>/dev/null | sort -u | head -n 200 | each udp
  rules
}
# Backends of the load balancers that kubexm runs here. Only of the sections that kubexm writes, which have no empty lines in
# them: a user may have added others at the end of the file.
balancers() {
  for file in /etc/kubexm/*/haproxy.cfg /etc/kubexm/haproxy.cfg; do
    [ ! -f "$file" ] || awk '!NF { ours = 0 } /^backend / { ours = $2 == "control-planes" || $2 == "open-ports" }
      ours && $1 == "server" { print $3 }' "$file" | head -n 40 | each backend
  done
  for file in /etc/kubexm/*/nginx.conf /etc/kubexm/nginx.conf; do
    [ ! -f "$file" ] || awk '$1 == "upstream" { ours = $2 == "control-planes" } ours && $1 == "}" { exit }
      ours && $1 == "server" { sub(/;.*/, "", $2); print $2 }' "$file" | head -n 40 | each backend
  done
}
# The subcommands run at the same time: the slowest one determines the duration.
for question in clock disks kernel kubelet network balancers; do "$question" & done
wait
[ ! -d "$manifests" ] || find "$manifests" -maxdepth 1 -name '*.yaml' -size 0 | head -n 10 | each empty_manifest
echo "end="
