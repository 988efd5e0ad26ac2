#!/bin/sh -eu
# Prints what `doctor` reads on a host besides its facts and `preflight/checks.sh`: one `key=value` in a line, in any order, and
# `end=` at the end. A key may occur several times. A question without an answer prints nothing. Needs no API server, and changes nothing: each
# question has a time limit, and prints a limited number of lines.
# Arguments: devices that carry packets of pods to other nodes.
export PATH="/usr/local/bin:$PATH"
manifests=/etc/kubernetes/manifests
kubelet=/var/lib/kubelet
clock() {
  echo "ntp=$(bounded 5 timedatectl show -p NTPSynchronized --value)"
  for unit in chrony chronyd systemd-timesyncd ntpd ntpsec; do
    if [ "$(bounded 5 systemctl is-active "$unit")" = active ]; then echo "ntp_unit=$unit"; fi
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
network() {
  for folder in /var/lib/cni/networks/*/; do
    [ -d "$folder" ] || continue
    echo "cni_leases=$(basename "$folder") $(find "$folder" -maxdepth 1 -name '[0-9a-f]*[.:]*' ! -name 'last_*' | wc -l)"
  done
  # All of them: with a number that is too small, the leases of pods that run would count as leftovers.
  if ready=$(timed 20 crictl pods -q --state ready); then echo "sandboxes=$(printf '%s\n' "$ready" | grep -c .)"; fi
  sed -n 's/^FLANNEL_SUBNET=//p' /run/flannel/subnet.env 2>/dev/null | each flannel_subnet || :
  bounded 5 ip -br addr show type bridge | awk '{ print $1, $3 }' | each bridge
  for link; do
    [ -d "/sys/class/net/$link" ] || continue
    echo "overlay=$link"
    bounded 5 ethtool -k "$link" | sed -n "s/^tx-checksum-ip-generic: */offload=$link /p"
  done
  awk 'FNR > 1 { split($2, part, ":"); print part[2] }' /proc/net/udp /proc/net/udp6 2>/dev/null | sort -u | head -n 200 | each udp
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
for question in clock kubelet network balancers; do "$question" "$@" & done
wait
[ ! -d "$manifests" ] || find "$manifests" -maxdepth 1 -name '*.yaml' -size 0 | head -n 10 | each empty_manifest
echo "end="
