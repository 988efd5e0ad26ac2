#!/bin/sh -eu
# Prints facts about the host, one `key=value` in a line; some keys occur several times. The crate
# kubexm-host parses them and refuses a key that it does not know. The clock comes last.
# Arguments: paths whose file systems are of interest.
yes() { if "$@" >/dev/null 2>&1; then echo yes; else echo no; fi; }
has_default_route() {
  awk '$2 == "00000000" { found = 1 } END { exit !found }' /proc/net/route
}
has_default_route_ipv6() {
  awk '$1 $2 == "0000000000000000000000000000000000" && $10 != "lo" { found = 1 } END { exit !found }' /proc/net/ipv6_route
}
# Whether a module is loaded, built in, or available.
has_module() {
  [ -d "/sys/module/$1" ] ||
    grep -qs "/$1\.ko" "/lib/modules/$2/modules.builtin" "/lib/modules/$2/modules.dep"
}
# Whether the file system of a path is writable, as the kernel has mounted it: `test -w` of busybox asks only for the mode. A
# later mount is above those of the same path.
is_writable() {
  [ -w "$1" ] && awk -v target="$(readlink -f "$1")/" '
    { at = $5; sub("/*$", "/", at) }
    index(target, at) == 1 && length(at) >= deepest { deepest = length(at); is_ro = ("," $6 "," $NF ",") ~ /,ro,/ }
    END { exit is_ro }' /proc/self/mountinfo
}
has_container_selinux() { ls -d /var/lib/selinux/*/active/modules/*/container; }
echo "arch=$(uname -m)"
echo "kernel=$(uname -r)"
(
  # shellcheck source=/dev/null
  [ ! -r /etc/os-release ] || . /etc/os-release
  echo "os_id=${ID:-}"
  echo "os_codename=${VERSION_CODENAME:-}"
  echo "os_version=${VERSION_ID:-}"
  echo "os_like=${ID_LIKE:-}"
  echo "os_name=${PRETTY_NAME:-}"
)
# musl has no such variable.
echo "glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc //p')"
echo "machine_id=$(cat /etc/machine-id 2>/dev/null)"
echo "cpus=$(grep -c '^processor' /proc/cpuinfo)"
echo "memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
sed 1d /proc/swaps | while read -r name _; do echo "swap=$name"; done
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo cgroup=v2; else echo cgroup=v1; fi
# Every local address of the host. It uses no program that may be missing.
awk '/32 host LOCAL/ { print "address=" a } { a = $2 }' /proc/net/fib_trie | sort -u
awk '{ print $1 }' /proc/net/if_inet6 2>/dev/null |
  sed 's/\(....\)/\1:/g; s/:$//; s/^/address=/'
echo "default_route=$(yes has_default_route)"
echo "default_route_ipv6=$(yes has_default_route_ipv6)"
awk 'FNR > 1 && $4 == "0A" { n = split($2, part, ":"); print "listen=" part[n] }' /proc/net/tcp /proc/net/tcp6 2>/dev/null | sort -u
# Networks without a gateway: destination and mask as the kernel prints them.
awk 'FNR > 1 && $3 == "00000000" && $8 != "00000000" { print "onlink=" $2 " " $8 }' /proc/net/route 2>/dev/null | sort -u
# Those of IPv6, besides the addresses of the host and of links: the prefix has its length in hexadecimal digits, too.
awk '$5 ~ /^0+$/ && $2 != "00" && $2 != "80" && $1 !~ /^f[ef]/ && $10 != "lo" { print "onlink=" $1 "/" $2 }' \
  /proc/net/ipv6_route 2>/dev/null | sort -u
kernel=$(uname -r)
for module in dummy ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh; do
  ! has_module "$module" "$kernel" || echo "module=$module"
done
echo "systemd=$(yes test -d /run/systemd/system)"
for tool in tar gzip sha256sum flock systemctl apt-get dnf iptables nft conntrack socat ebtables ipset ethtool; do
  ! command -v "$tool" >/dev/null || echo "tool=$tool"
done
echo "firewalld=$(yes systemctl is-active firewalld)"
for port in $(firewall-cmd --list-ports 2>/dev/null); do echo "firewalld_port=$port"; done
# The unit of ufw is active even if ufw filters nothing.
echo "ufw=$(yes grep -qi '^ENABLED=yes' /etc/ufw/ufw.conf)"
echo "networkmanager=$(yes systemctl is-active NetworkManager)"
echo "selinux=$(cat /sys/fs/selinux/enforce 2>/dev/null)"
echo "container_selinux=$(yes has_container_selinux)"
# Directories that every install writes.
for folder in /etc /opt /usr/local /var/lib; do
  nearest=$folder
  while [ ! -e "$nearest" ]; do nearest=$(dirname "$nearest"); done
  is_writable "$nearest" || echo "readonly=$folder"
done
for path in "$@"; do
  nearest=$path
  [ ! -e "$path" ] || echo "exists=$path"
  # The registries whose images a registry of kubexm has there.
  for folder in "$path"/docker/registry/v2/repositories/*/; do
    [ ! -d "$folder" ] || echo "registry_source=$(basename "$folder")"
  done
  while [ ! -e "$nearest" ]; do nearest=$(dirname "$nearest"); done
  # Free KiB, size in KiB and mount point of the file system that the path is on or would be on.
  df -Pk "$nearest" 2>/dev/null |
    awk -v path="$path" 'NR == 2 { print "disk=" $4 " " $2 " " $6 " " path }'
  # Free inodes and all of them. Some file systems, as btrfs, have no limit, and report 0.
  df -Pi "$nearest" 2>/dev/null |
    awk -v path="$path" 'NR == 2 && $2 > 0 { print "inodes=" $4 " " $2 " " path }'
  is_writable "$nearest" || echo "disk_readonly=$path"
  # The file system of /etc/fstab that the path would be on if it were mounted, unless one is mounted below it. Both files write
  # special characters the same way.
  [ ! -r /etc/fstab ] || awk -v path="$path" -v target="$(readlink -m "$path" 2>/dev/null || echo "$path")/" '
    NR == FNR { mounted[$5] = 1; if (index(target, $5 "/") == 1 && length($5) > deepest) deepest = length($5); next }
    $1 ~ /^#/ || $2 !~ /^\/./ || "," $4 "," ~ /,noauto,/ { next }
    { sub("/+$", "", $2) }
    index(target, $2 "/") == 1 && length($2) > deepest && !($2 in mounted) { print "unmounted=" $2 " " path; exit }
  ' /proc/self/mountinfo /etc/fstab
done
echo "receipt=$(yes test -e /var/lib/kubexm/receipt.jsonl)"
[ ! -e /var/lib/kubexm/cluster ] ||
  echo "cluster=$(head -c 4096 /var/lib/kubexm/cluster | base64 | tr -d '\n')"
# Prints the beginning of a file, or of standard input, in base64.
encoded() { head -c 65536 "$@" | base64 | tr -d '\n'; }
line_end='
'
# Prints a file as a fact: key, path, and content in base64. The path can have spaces. One with a line end would be two
# facts, and no program uses such a file.
file_fact() {
  case $2 in *"$line_end"*) return 0 ;; esac
  printf '%s=%s %s\n' "$1" "$2" "$3"
}
# Certificates of authorities and the public key of service accounts, which are not secret.
pki=/etc/kubernetes/pki
authorities="$pki/ca.crt $pki/front-proxy-ca.crt $pki/etcd/ca.crt $pki/sa.pub /etc/kubexm/etcd/ca.crt /etc/kubexm/registry-ca.crt"
for file in $authorities; do
  [ ! -f "$file" ] || file_fact authority "$file" "$(encoded "$file")"
done
# Other certificates without their keys, of files that no program renews by itself.
for file in "$pki"/*.crt "$pki"/etcd/*.crt /etc/kubexm/*.crt /etc/kubexm/*/*.crt; do
  case " $authorities " in *" $file "*) continue ;; esac
  [ ! -f "$file" ] || file_fact certificate "$file" "$(encoded "$file")"
done
# Kubeconfigs have their certificates in base64. A damaged one can have anything there, so that it is encoded once more.
for file in /etc/kubernetes/*.conf; do
  [ -f "$file" ] || continue
  # A file that is not readable is a fact as well, with a damaged certificate.
  data=$(sed -n '/^ *client-certificate-data:/{s/^[^:]*: *//;s/"//g;p;q;}' "$file") || data='?'
  [ -z "$data" ] || file_fact kubeconfig "$file" "$(printf '%s' "$data" | encoded)"
done
# Certificates of the kubelet, which renews them itself. The files have keys as well. A kubelet without a certificate of
# the cluster for its server has one that no CA signed. A link to a file that does not exist is a fact without content.
kubelet=/var/lib/kubelet/pki
set -- "$kubelet/kubelet-client-current.pem" "$kubelet/kubelet-server-current.pem"
[ -e "$2" ] || set -- "$1" "$kubelet/kubelet.crt"
for file in "$@"; do
  [ -f "$file" ] || [ -L "$file" ] || continue
  certificates=$(sed -n '/^-----BEGIN CERTIFICATE-----$/,/^-----END CERTIFICATE-----$/p' "$file" 2>/dev/null | encoded)
  file_fact rotated "$file" "$certificates"
done
# Names in /etc/hosts outside of the block that kubexm manages.
sed '/^# kubexm begin$/,/^# kubexm end$/d' /etc/hosts 2>/dev/null |
  awk '{ sub(/#.*/, "") } NF > 1 { for (i = 2; i <= NF; i++) print "hosts_entry=" $1 " " $i }' | sed 500q
echo "kubernetes=$(yes test -e /etc/kubernetes/kubelet.conf -o -e /etc/kubernetes/admin.conf)"
for socket in /run/containerd/containerd.sock /run/docker.sock /run/crio/crio.sock /run/isulad.sock; do
  [ ! -S $socket ] || echo "runtime=$socket"
done
echo "initialized=$(yes test -e /var/lib/kubexm/done/kubeadm-init)"
echo "pods_ended=$(yes test -e /var/lib/kubexm/pods-ended)"
# Files with which the first control plane changes objects of the cluster.
echo "cluster_files=$(yes test -e /etc/kubexm/kubeadm-init.yaml -o -e /etc/kubexm/access.yaml)"
echo "etcd_formed=$(yes test -e /var/lib/kubexm/done/etcd-formed)"
registry=/etc/kubexm/registry/config.yml
[ ! -e $registry ] || echo "registry_login=$(yes grep -q '^auth:' $registry)"
echo "joined=$(yes test -e /var/lib/kubexm/done/kubeadm-join -o -e /var/lib/kubexm/done/kubernetes-node)"
# Settings with which the programs of an installed host run, `applied=NAME VALUE`. An install cannot change them.
setting() { [ -z "$2" ] || echo "applied=$1 $2"; }
# Prints the value of a flag in a static pod or in a unit. Either may have quotes around it.
flag() {
  [ ! -f "$2" ] || awk -v flag="--$1=" '
    (at = index($0, flag)) {
      value = substr($0, at + length(flag)); quote = substr($0, at - 1, 1)
      if (quote == "\"" || quote == "\047") sub(quote ".*", "", value)
      else if ($0 !~ /^ *- /) sub(/[ \\].*/, "", value)
      print value
      exit
    }' "$2"
}
# Prints the value of the first field with this name in a YAML file.
field() { [ ! -f "$2" ] || sed -n "/^ *$1:/{s/^ *$1: *//;s/[\"']//g;p;q;}" "$2"; }
# Prints how Calico's manifest carries packets between nodes. The line after the name of a variable has its value.
calico_encapsulation() {
  awk '
    /CALICO_IPV4POOL_IPIP/ { getline; ipip = /Always/ }
    /CALICO_IPV4POOL_VXLAN/ { getline; vxlan = /Always/ }
    END { print vxlan ? "vxlan" : ipip ? "ipip" : "none" }' "$1"
}
# Prints the value of a field with quotation marks in Cilium's manifest.
quoted_field() { sed -n "/^ *\"*$1\"*: */{s/^[^:]*: *//;s/[\"']//g;p;q;}" "$2"; }
cilium_routing() {
  case $(quoted_field routing-mode "$1") in
  native) echo native ;;
  *) quoted_field tunnel-protocol "$1" ;;
  esac
}
marker=/var/lib/kubexm/done
pods=/etc/kubernetes/manifests units=/etc/systemd/system
kind='' api='' manager='' version=''
if [ -e $marker/kubeadm-init ] || [ -e $marker/kubeadm-join ]; then
  kind=kubeadm api=$pods/kube-apiserver.yaml manager=$pods/kube-controller-manager.yaml
elif [ -e $marker/kubernetes-node ]; then
  kind=systemd api=$units/kube-apiserver.service manager=$units/kube-controller-manager.service
fi
if [ -n "$kind" ]; then
  setting kubernetesType $kind
  setting dnsDomain "$(field clusterDomain /var/lib/kubelet/config.yaml)"
  socket=$(sed -n 's/.*--container-runtime-endpoint=\([^ "]*\).*/\1/p' /var/lib/kubelet/kubeadm-flags.env 2>/dev/null || :)
  [ -n "$socket" ] || socket=$(field containerRuntimeEndpoint /var/lib/kubelet/instance-config.yaml)
  [ -n "$socket" ] || socket=$(field containerRuntimeEndpoint /var/lib/kubelet/config.yaml)
  setting runtime "$socket"
  server=$(field server /etc/kubernetes/admin.conf)
  # The kubelet of a control plane can use its own API server.
  [ -n "$server" ] || [ -f "$api" ] || server=$(field server /etc/kubernetes/kubelet.conf)
  setting endpoint "${server#https://}"
  for plugin in flannel calico cilium; do
    [ ! -e /etc/kubexm/$plugin.yaml ] || setting network $plugin
  done
  [ ! -f /etc/kubexm/flannel.yaml ] ||
    setting flannelBackend "$(sed -n '/"Type": "/{s/.*"Type": "//;s/".*//;p;q;}' /etc/kubexm/flannel.yaml)"
  [ ! -f /etc/kubexm/calico.yaml ] || setting calicoEncapsulation "$(calico_encapsulation /etc/kubexm/calico.yaml)"
  [ ! -f /etc/kubexm/cilium.yaml ] || setting ciliumRouting "$(cilium_routing /etc/kubexm/cilium.yaml)"
  [ ! -e /etc/cni/net.d/10-kubexm-bridge.conflist ] || setting network bridge
  name=$(flag hostname-override $units/kubelet.service)
  [ -n "$name" ] || name=$(sed -n 's/.*--hostname-override=\([^ "]*\).*/\1/p' /var/lib/kubelet/kubeadm-flags.env 2>/dev/null || :)
  # Without the flag, the kubelet uses the name of the host. An install that failed may not have written its unit.
  if [ -z "$name" ] && { [ $kind = kubeadm ] || [ -e $units/kubelet.service ]; }; then
    name=$(uname -n | tr '[:upper:]' '[:lower:]')
  fi
  setting nodeName "$name"
fi
if [ -f "$api" ]; then
  setting controlPlane yes
  case $kind in
  kubeadm) version=$(sed -n '/^ *image: .*kube-apiserver:v/{s/.*:v//;s/[@"].*//;p;q;}' "$api") ;;
  systemd)
    # The program that runs, and not one that an interrupted upgrade has installed and not started yet.
    program=/proc/$(systemctl show -p MainPID --value kube-apiserver.service 2>/dev/null || :)/exe
    [ -e "$program" ] || program=/usr/local/bin/kube-apiserver
    version=$(timeout 20 "$program" --version 2>/dev/null | sed -n 's/^Kubernetes v//p')
    ;;
  esac
  setting version "$version"
  setting serviceCIDR "$(flag service-cluster-ip-range "$api")"
  setting advertiseAddress "$(flag advertise-address "$api")"
  setting apiServerPort "$(flag secure-port "$api")"
  setting etcdServers "$(flag etcd-servers "$api")"
  [ -z "$(flag encryption-provider-config "$api")" ] || setting encryption encrypted
  [ ! -e $marker/encryption-identity ] || setting encryption plain
  setting podCIDR "$(flag cluster-cidr "$manager")"
  setting clusterName "$(flag cluster-name "$manager")"
fi
if [ -e $pods/etcd.yaml ] && [ "$kind" = kubeadm ]; then
  setting etcd kubeadm
  setting etcdDataDir "$(flag data-dir $pods/etcd.yaml)"
fi
if [ -f /etc/kubexm/etcd-member/etcd.env ]; then
  setting etcd systemd
  setting etcdDataDir "$(sed -n 's/^ETCD_DATA_DIR=//p' /etc/kubexm/etcd-member/etcd.env | tr -d "\"'")"
  # The program that has the data, and not one that waits for its start.
  program=/proc/$(systemctl show -p MainPID --value etcd.service 2>/dev/null || :)/exe
  [ -e "$program" ] || program=/usr/local/bin/etcd
  setting etcdVersion "$(timeout 20 "$program" --version 2>/dev/null | sed -n 's/^etcd Version: *//p')"
fi
for program in keepalived haproxy nginx; do
  [ ! -e $units/kubexm-$program.service ] || setting balancer $program
done
# A node runs the pods in the directory of its kubelet. Before it is a node, `kubeadm init` copies them from another one.
manifests=$pods
[ -n "$kind" ] || manifests=/etc/kubexm/static-pods
for program in haproxy nginx; do
  [ ! -e "$manifests/kubexm-$program.yaml" ] || setting balancer "$program pod"
done
# The source of the pod is on the first control plane with kubeadm only.
[ ! -e /etc/kubexm/kube-vip/hosts ] || setting balancer "kube-vip pod"
echo "nameserver=$(awk '$1 == "nameserver" { print $2; exit }' /etc/resolv.conf 2>/dev/null)"
echo "clock=$(date +%s.%N)"
