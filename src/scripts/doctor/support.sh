#!/bin/sh -eu
# Prints files and answers of a host for people who help: a line `= NAME` before the lines of each one, which start with `|`,
# a line `left_out=NAME: REASON` for each one that is not there, and `end=` at the end. kubexm removes keys, tokens and
# passwords before it writes any of it. Private keys, kubeconfigs and encryption keys are never read. Changes nothing.
# Arguments: seconds after which nothing more is asked; a part, and its arguments.
#   host                   facts: processes, disks, network, kernel
#   configuration PATTERN…  configurations of kubelet, network, units; static pods; receipts; files of runtimes and load balancers
#   journal UNIT LINES     the newest lines of a unit
#   pods LINES             the newest lines of each container of the cluster, at most 60 of them
export PATH="/usr/local/bin:$PATH"
limit=0
# Prints an answer. Arguments: its name; largest number of lines; a command.
answer() {
  name=$1 most=$2
  shift 2
  time_for "$deadline" 20 "$name" || return 0
  echo "= $name"
  { timeout -k 1 "$limit" "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | first "$most" 1000000 | sed 's/^/|/'
}
# Prints files of at most 256 KiB each.
files() {
  for file; do
    [ -f "$file" ] || continue
    time_for "$deadline" 5 "files$file" || continue
    echo "= files$file"
    timeout -k 1 "$limit" head -c 300000 "$file" | first 100000 262144 | sed 's/^/|/'
  done
}
host() {
  answer uname.txt 5 uname -a
  answer os-release.txt 40 cat /etc/os-release
  answer uptime.txt 5 uptime
  answer time.txt 40 timedatectl
  answer memory.txt 80 cat /proc/meminfo
  answer pressure.txt 20 sh -c 'grep . /proc/pressure/*'
  answer swaps.txt 20 cat /proc/swaps
  answer mounts.txt 400 cat /proc/mounts
  answer disks.txt 100 df -hT
  answer inodes.txt 100 df -i
  # Not the arguments, which may be secret.
  answer processes.txt 1000 ps -eo pid,ppid,stat,etime,rss,comm
  answer units.txt 400 systemctl list-units --all --no-pager --plain --type=service,swap,mount,timer
  answer failed-units.txt 100 systemctl --failed --no-pager --plain
  answer addresses.txt 400 ip -d addr
  answer routes.txt 400 ip route show table all
  answer rules.txt 100 ip rule
  answer sockets.txt 1000 ss -lntup
  answer iptables.txt 4000 iptables-save
  answer nft.txt 4000 nft list ruleset
  answer sysctl.txt 4000 sh -c 'sysctl -a 2>/dev/null | grep -E "^(net|vm|fs|kernel)\."'
  answer modules.txt 400 cat /proc/modules
  answer kernel-log.txt 500 sh -c 'dmesg | tail -n 500'
  answer crictl-info.txt 60 crictl info -o go-template --template '{{range .status.conditions}}{{.type}} {{.status}} {{.reason}} {{.message}}{{"\n"}}{{end}}'
  answer crictl-version.txt 20 crictl version
  answer crictl-containers.txt 500 crictl ps -a
  answer crictl-pods.txt 500 crictl pods
  answer crictl-images.txt 500 crictl images --digests
  answer certificates.txt 200 sh -c 'ls -lR /etc/kubernetes /var/lib/kubelet/pki /etc/kubexm'
}
configuration() {
  files /var/lib/kubelet/config.yaml /var/lib/kubelet/instance-config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet \
    /etc/sysconfig/kubelet /etc/crictl.yaml /etc/cni/net.d/* /run/flannel/subnet.env /etc/kubernetes/manifests/*.yaml \
    /etc/kubexm/registry/config.yml /etc/kubexm/etcd-member/etcd.env /etc/hosts /etc/resolv.conf /run/systemd/resolve/resolv.conf \
    /etc/sysctl.d/*.conf /etc/modules-load.d/*.conf /etc/fstab /etc/chrony/chrony.conf /etc/chrony.conf \
    /etc/systemd/timesyncd.conf /etc/systemd/system/kube*.service /etc/systemd/system/kubelet.service.d/*.conf \
    /etc/systemd/system/etcd.service
  for pattern; do
    # shellcheck disable=SC2086 # a pattern is expanded here
    files $pattern
  done
  receipt=/var/lib/kubexm/receipt.jsonl
  [ ! -f $receipt ] || ! time_for "$deadline" 20 "files$receipt" || {
    echo "= files$receipt"
    timeout -k 1 "$limit" cat $receipt | newest 4000000 | sed 's/^/|/'
  }
}
journal() {
  time_for "$deadline" 30 "journal/$1.log" || return 0
  echo "= journal/$1.log"
  timeout -k 1 "$limit" journalctl -u "$1" -n "$2" -o short-iso --no-pager --quiet 2>&1 </dev/null | newest 6000000 | sed 's/^/|/' || :
}
pods() {
  # The pods of users may log what they want: only those of the cluster are read.
  logs=$(timeout -k 1 10 find /var/log/pods -mindepth 3 -maxdepth 3 -path '/var/log/pods/kube-*' -name '*.log' 2>/dev/null | sort)
  [ -n "$logs" ] || return 0
  count=$(printf "%s\n" "$logs" | wc -l)
  [ "$count" -le 60 ] || { echo "left_out=pods: $((count - 60)) of $count logs"; count=60; }
  printf "%s\n" "$logs" | tail -n 60 | while read -r file; do
    name=pods/${file#/var/log/pods/}
    time_for "$deadline" 10 "$name" || continue
    echo "= $name"
    timeout -k 1 "$limit" tail -n "$1" "$file" 2>/dev/null | newest "$((12000000 / count))" | sed 's/^/|/' || :
  done
}
seconds=$1 part=$2
shift 2
case $part in
host | configuration | journal | pods) ;;
*) echo "support.sh does not know the part '$part'" >&2; exit 2 ;;
esac
read -r now _ </proc/uptime
deadline=$((${now%.*} + seconds))
# If a part fails, its end is missing, and what it has printed is not lost.
{ "$part" "$@"; echo "end="; } | below_limit
