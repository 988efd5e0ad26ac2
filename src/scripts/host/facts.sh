#!/bin/sh -eu
# Prints facts about the host, one `key=value` in a line; some keys occur several times. The crate kubexm-host parses them
# and refuses a key that it does not know. The script decides nothing: it prints what programs say and what files have.
# The clock comes last.
# Named arguments, which are lists: programs; kernel modules; sockets of container runtimes; files of network plugins, and an extended
# regular expression of their lines with settings; files of load balancers. Then paths whose file systems are of interest.
: "${verb=}" "${tools=}" "${modules=}" "${sockets=}" "${plugins=}" "${lines=}" "${files=}"
yes() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }
# Whether a module is loaded, built in, or available.
has_module() {
  [ -d "/sys/module/$1" ] || grep -qs "/$1\.ko" "/lib/modules/$kernel/modules.builtin" "/lib/modules/$kernel/modules.dep"
}
# Prints the beginning of a file, or of standard input, in base64.
encoded() { head -c 65536 "$@" | base64 | tr -d '\n'; }
line_end='
'
# Prints a file as a fact: key, path, and content in base64. The path can have spaces. One with a line end would be two
# facts, and no program uses such a file.
file_fact() { case $2 in *"$line_end"*) ;; *) printf '%s=%s %s\n' "$1" "$2" "$3" ;; esac; }
# Prints a path, and facts about the file system that it is on or would be on: whether it is writable, the numbers of free
# blocks, all blocks, bytes of a block, free inodes and all inodes, and its line of mountinfo. It has the flags: `test -w` of
# busybox asks only for the mode.
place() {
  nearest=$2
  while [ ! -e "$nearest" ]; do nearest=$(dirname "$nearest"); done
  echo "$1=$2"
  echo "writable=$(yes test -w "$nearest")"
  echo "space=$(stat -f -c '%a %b %S %d %c' "$nearest" 2>/dev/null)"
  echo "mount=$(exec 2>/dev/null <"$nearest"; grep "^$(sed -n 's/^mnt_id:[^0-9]*//p' /proc/self/fdinfo/0) " /proc/self/mountinfo)"
}
# Prints what a program says about its version: the one that runs, and not one that an interrupted upgrade has installed and
# not started yet.
version() {
  program=/proc/$(systemctl show -p MainPID --value "$1.service" 2>/dev/null || :)/exe
  [ -e "$program" ] || program=/usr/local/bin/$1
  echo "version=$1 $(timeout 20 "$program" --version 2>/dev/null | head -n 1)"
}
kernel=$(uname -r)
echo "arch=$(uname -m)"
echo "kernel=$kernel"
echo "hostname=$(uname -n)"
# musl has no such variable.
echo "glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)"
echo "machine_id=$(cat /etc/machine-id 2>/dev/null)"
echo "cpus=$(grep -c '^processor' /proc/cpuinfo)"
echo "memory=$(grep '^MemTotal:' /proc/meminfo)"
# Every local address of the host. It uses no program that may be missing.
awk '/32 host LOCAL/ { print "address=" a } { a = $2 }' /proc/net/fib_trie | sort -u
awk '{ print "address=" $1 }' /proc/net/if_inet6 2>/dev/null || :
# Destination, gateway and mask of networks without a gateway, as the kernel prints them; for IPv6
# destination, length of the prefix, and gateway. The nodes of a cluster can have thousands of other routes.
awk 'FNR > 1 && $3 == "00000000" { print "route=" $2, $3, $8 }' /proc/net/route 2>/dev/null | sort -u
awk '$10 != "lo" && $2 != "80" && $5 ~ /^0+$/ { print "route6=" $1, $2, $5 }' /proc/net/ipv6_route 2>/dev/null | sort -u
awk 'FNR > 1 && $4 == "0A" { n = split($2, part, ":"); print "listen=" part[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort -u
for module in $modules; do ! has_module "$module" || echo "module=$module"; done
for tool in $tools; do
  ! command -v "$tool" >/dev/null || echo "tool=$tool"
done
echo "firewalld=$(yes systemctl is-active firewalld)"
for port in $(firewall-cmd --list-ports 2>/dev/null); do echo "firewalld_port=$port"; done
# The unit of ufw is active even if ufw filters nothing.
echo "ufw=$(yes grep -qi '^ENABLED=yes' /etc/ufw/ufw.conf)"
echo "networkmanager=$(yes systemctl is-active NetworkManager)"
echo "networkd=$(yes systemctl is-active systemd-networkd)"
echo "selinux=$(cat /sys/fs/selinux/enforce 2>/dev/null)"
echo "container_selinux=$(yes ls -d /var/lib/selinux/*/active/modules/*/container)"
# The options can have passwords.
awk '$1 !~ /^#/ && "," $4 "," !~ /,noauto,/ { print "fstab=" $2 }' /etc/fstab 2>/dev/null || :
# Directories that every install writes.
for folder in /etc /opt /usr/local /var/lib; do place folder "$folder"; done
for path in "$@"; do
  place path "$path"
  echo "exists=$(yes test -e "$path")"
  echo "resolved=$(readlink -m "$path" 2>/dev/null || echo "$path")"
  # The registries whose images a registry of kubexm has there.
  for folder in "$path"/docker/registry/v2/repositories/*/; do [ ! -d "$folder" ] || echo "registry_source=$(basename "$folder")"; done
done
pods=/etc/kubernetes/manifests units=/etc/systemd/system pki=/etc/kubernetes/pki kubelet=/var/lib/kubelet marker=/var/lib/kubexm/done
# Files with settings, without secrets.
for file in /etc/os-release /etc/hosts /etc/resolv.conf /proc/swaps /var/lib/kubexm/cluster /var/lib/kubexm/begun.json /etc/kubexm/etcd-member/etcd.env \
  $kubelet/config.yaml $kubelet/instance-config.yaml $kubelet/kubeadm-flags.env $units/kubelet.service $pods/etcd.yaml \
  $pods/kube-apiserver.yaml $pods/kube-controller-manager.yaml $units/kube-apiserver.service $units/kube-controller-manager.service; do
  [ ! -f "$file" ] || file_fact file "$file" "$(encoded "$file")"
done
# Those of network plugins are large. A setting is in a line, or in the next one.
for file in $plugins; do
  [ ! -f "$file" ] || file_fact file "$file" "$(grep -EA1 "$lines" "$file" | encoded)"
done
# Certificates without their keys, of files that no program renews by itself, and the public key of service accounts.
for file in "$pki"/sa.pub "$pki"/*.crt "$pki"/etcd/*.crt /etc/kubexm/*.crt /etc/kubexm/*/*.crt; do
  [ ! -f "$file" ] || file_fact certificate "$file" "$(encoded "$file")"
done
# Kubeconfigs have keys as well. One that is not readable is a fact, too, with a damaged certificate.
for file in /etc/kubernetes/*.conf; do
  [ -f "$file" ] || continue
  lines=$(grep -E '^ *(server|client-certificate-data):' "$file") || [ $? = 1 ] || lines='client-certificate-data: ?'
  file_fact kubeconfig "$file" "$(printf '%s' "$lines" | encoded)"
done
# So have those of the kubelet, which renews them itself. A link to a file that does not exist is a fact without content.
for file in $kubelet/pki/kubelet-client-current.pem $kubelet/pki/kubelet-server-current.pem $kubelet/pki/kubelet.crt; do
  [ -f "$file" ] || [ -L "$file" ] || continue
  file_fact rotated "$file" "$(sed -n '/^-----BEGIN CERTIFICATE-----$/,/^-----END CERTIFICATE-----$/p' "$file" 2>/dev/null | encoded)"
done
for socket in $sockets; do
  [ ! -S "$socket" ] || echo "runtime=$socket"
done
registry=/etc/kubexm/registry/config.yml
[ ! -e $registry ] || echo "registry_login=$(yes grep -q '^auth:' $registry)"
# Files whose content does not matter.
for file in $files /sys/fs/cgroup/cgroup.controllers /run/systemd/system $kubelet/pki/kubelet-server-current.pem /etc/kubernetes/kubelet.conf \
  /etc/kubernetes/admin.conf /etc/kubexm/kubeadm-init.yaml /etc/kubexm/access.yaml /var/lib/kubexm/receipt.jsonl \
  /var/lib/kubexm/pods-ended $marker/kubeadm-init $marker/kubeadm-join $marker/kubernetes-node $marker/etcd-formed \
  $marker/encryption-identity; do
  [ ! -e "$file" ] || echo "present=$file"
done
[ ! -e $marker/kubernetes-node ] || [ ! -f $units/kube-apiserver.service ] || version kube-apiserver
[ ! -f /etc/kubexm/etcd-member/etcd.env ] || version etcd
echo "clock=$(date +%s.%N)"
