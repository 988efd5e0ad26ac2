# shellcheck shell=bash disable=SC2154 # run, frame.sh and hosts.sh set the variables
# Faults of hosts that preflight must find before anything changes. Nothing is installed: the runs are dry runs.

fault usr-read-only preflight message preflight_usr
fault etc-read-only preflight message preflight_etc
fault port-occupied preflight message preflight_port
fault kubelet-port-occupied preflight message preflight_kubelet_port
fault registry-port-occupied preflight message preflight_registry_port
fault older-cluster preflight message preflight_older
fault runtime-of-another preflight message preflight_runtime
fault cluster-of-another preflight message preflight_other_cluster
fault ca-of-another preflight message preflight_other_ca
fault record-damaged preflight message preflight_record
fault disk-full-runtime preflight message preflight_disk
fault disk-full-registry preflight message preflight_registry_disk
fault clock-skew preflight message preflight_clock "a program date on the host that is one hour ahead"
fault clock-skew-small preflight recovers preflight_clock_small "a program date on the host that is two seconds ahead"
fault no-dns preflight recovers preflight_no_dns
fault no-default-route preflight message preflight_no_route
fault program-missing preflight message preflight_tar
fault packages-missing preflight message preflight_packages
fault machine-cloned preflight message preflight_clone
fault address-wrong preflight message preflight_address
fault architecture-wrong preflight message preflight_architecture

before_preflight() { have_hosts; }

# found TEXT HINT: dry run, and what preflight prints
found() {
  dry_run
  expect 2 "the hosts are not ready; nothing was touched" "$1" "hint: $2"
}
again() { next_run 'dry run' dry_run; }

preflight_usr() {
  on_host node2 'mount --bind /usr /usr && mount -o remount,bind,ro /usr'
  found "node2: cannot write /usr/local: the file system is mounted read-only" "mount it for writing"
  on_host node2 'umount -l /usr'
  again
}
preflight_etc() {
  on_host node2 'mount --bind /etc /etc && mount -o remount,bind,ro /etc'
  found "node2: cannot write /etc: the file system is mounted read-only" "mount it for writing"
  on_host node2 'umount -l /etc'
  again
}
occupied() { # HOST PORT
  listen_on "$1" "$2"
  found "$1: port $2 is in use" "stop the program that listens on it"
  listen_no_more
  again
}
preflight_port() { occupied node1 6443; }
preflight_kubelet_port() { occupied node2 10250; }
preflight_registry_port() { occupied node1 5000; }
preflight_older() {
  on_host node2 'mkdir -p /etc/kubernetes && : >/etc/kubernetes/kubelet.conf'
  found "node2: has files of a Kubernetes that kubexm did not install" "run kubeadm reset"
  on_host node2 'rm -r /etc/kubernetes'
  again
}
preflight_runtime() {
  on_host node2 "mkdir -p /run/containerd && perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(/run/containerd/containerd.sock), Listen => 1) or die'"
  found "node2: has a container runtime that kubexm did not install" "remove the runtime"
  on_host node2 'rm -r /run/containerd'
  again
}
preflight_other_cluster() {
  on_host node2 "mkdir -p /var/lib/kubexm && echo '{\"name\":\"other\",\"id\":\"6b1f4ce8-2f5a-4b0e-9a55-0f6f4f7f6f3a\",\"created\":\"2026-01-31T12:00:00Z\"}' >/var/lib/kubexm/cluster"
  found "node2: belongs to cluster 'other'" "pass the state directory of that cluster"
  on_host node2 'rm -r /var/lib/kubexm'
  again
}
preflight_other_ca() {
  openssl req -x509 -newkey ed25519 -nodes -keyout "$work/ca.key" -out "$work/ca.crt" -subj /CN=kubernetes -days 2 2>/dev/null
  on_host node2 "mkdir -p /etc/kubernetes/pki && echo '$(cat "$work/ca.crt")' >/etc/kubernetes/pki/ca.crt"
  found "node2: has /etc/kubernetes/pki/ca.crt of a Kubernetes that kubexm did not install" "remove the files"
  on_host node2 'rm -r /etc/kubernetes'
  # kubeadm init would take it over.
  on_host node1 "mkdir -p /etc/kubernetes/pki && echo '$(cat "$work/ca.crt")' >/etc/kubernetes/pki/ca.crt"
  found "node1: has /etc/kubernetes/pki/ca.crt of a Kubernetes that kubexm did not install" "remove the files"
  on_host node1 'rm -r /etc/kubernetes'
  again
}
preflight_record() { # as after a power failure while the host's record was written
  on_host node2 "mkdir -p /var/lib/kubexm && printf '{\"name\":' >/var/lib/kubexm/cluster"
  found "node2: its record /var/lib/kubexm/cluster is damaged" "if the host belongs to this cluster, remove the file"
  on_host node2 'rm -r /var/lib/kubexm'
  again
}
preflight_disk() {
  small_disk_on node2 /var/lib/containerd 16m
  found "node2: /var/lib/containerd has 16 MiB free" "free space on /var/lib/containerd"
  no_small_disk_on node2 /var/lib/containerd
  again
}
preflight_registry_disk() {
  small_disk_on node1 /var/lib/kubexm/registry 16m
  found "node1: /var/lib/kubexm/registry has 16 MiB free" "free space on /var/lib/kubexm/registry"
  no_small_disk_on node1 /var/lib/kubexm/registry
  again
}
wrong_clock() { # HOST SECONDS
  on_host "$1" "printf '#!/bin/sh\nif [ \"\$1\" = +%%s.%%N ]; then echo \$((\$(/usr/bin/date +%%s) + $2)).0; else exec /usr/bin/date \"\$@\"; fi\n' \
    >/usr/local/sbin/date && chmod 755 /usr/local/sbin/date"
}
right_clock() { on_host "$1" 'rm /usr/local/sbin/date'; }
preflight_clock() {
  wrong_clock node2 3600
  found "s ahead of the clock of this machine" "set the clock"
  right_clock node2
  again
}
preflight_clock_small() {
  wrong_clock node2 2
  dry_run
  expect 0 "nothing was touched"
  right_clock node2
}
preflight_no_dns() { # a warning: only pods that resolve outside names need one
  on_host node2 'cp -p /etc/resolv.conf /root/resolv.conf && : >/etc/resolv.conf'
  dry_run
  expect 0 "node2: /etc/resolv.conf has no name server" "hint: add a nameserver line"
  on_host node2 'mv /root/resolv.conf /etc/resolv.conf'
}
preflight_no_route() {
  inside node2 ip route del default
  found "node2: has no route to the service address" "add a default route"
  inside node2 ip route add default via "${one%.*}.1"
  again
}
preflight_tar() {
  on_host node2 'mv /usr/bin/tar /root/tar'
  found "node2: the program 'tar' is missing" "install it from the packages of your distribution"
  on_host node2 'mv /root/tar /usr/bin/tar'
  again
}
preflight_packages() {
  on_host node2 'cp -p /usr/lib/os-release /root/ && sed -i "s/^VERSION_CODENAME=.*/VERSION_CODENAME=other/; s/^VERSION_ID=.*/VERSION_ID=99/; s/^ID=.*/ID=other/" /usr/lib/os-release'
  found "are missing, and the bundle has no packages for" "install them"
  on_host node2 'mv /root/os-release /usr/lib/os-release'
  again
}
preflight_clone() {
  on_host node2 'cp -p /etc/machine-id /root/machine-id'
  on_host node2 "echo $(on node1 cat /etc/machine-id) >/etc/machine-id"
  found "has the same machine-id as" "run rm /etc/machine-id"
  on_host node2 'mv /root/machine-id /etc/machine-id'
  again
}
preflight_address() {
  cluster_file cluster "user: root, privateKeyPath: $key" "" "internalAddress: ${one%.*}.77"
  found "node2: none of its interfaces has the address ${one%.*}.77" "correct internalAddress"
  cluster_file cluster "user: root, privateKeyPath: $key" "" ""
  again
}
preflight_architecture() {
  cluster_file cluster "user: root, privateKeyPath: $key" "" "arch: arm64"
  found "node2: is amd64, but the cluster file states arm64" "correct arch"
  cluster_file cluster "user: root, privateKeyPath: $key" "" ""
  again
}
