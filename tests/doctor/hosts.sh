# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Failures of single hosts: clocks, disks, the kernel, the container runtime, the kubelet and its node. Sourced by
# tests/e2e-doctor. `kind` is kubeadm or systemd. Each function leaves a healthy cluster.

wrong_clock() { # HOST SECONDS: a program date that is ahead
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'printf "#!/bin/sh\nfor word; do case \$word in -d|-s) exec /usr/bin/date \"\$@\" ;; esac; done\nexec /usr/bin/date -d \"+$1 seconds\" \"\$@\"\n" >/usr/local/sbin/date; chmod +x /usr/local/sbin/date' sh "$2"
}
mount_over() { # HOST FILE: standard input over a file, as after a change of the kernel's state
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'name=/root/$(basename "$1"); cat >"$name"; mount --bind "$name" "$1"' sh "$2"
}
without_mount() { on "$1" umount "$2"; }
small_disks() { # node2 gets one that is read-only, node3 one without a free inode
  on node2 sh -c 'mkdir -p /var/lib/cni && mount -t tmpfs -o ro none /var/lib/cni'
  # shellcheck disable=SC2016 # expands on the host
  on node3 sh -c 'mkdir -p /var/lib/cni && mount -t tmpfs -o nr_inodes=30 none /var/lib/cni && n=0 &&
    while touch "/var/lib/cni/$n" 2>/dev/null; do n=$((n + 1)); done && test "$n" -gt 10'
}
# A file system of FUSE whose server never answers. It has the type of sshfs. The server is a process that only has the
# device open.
dead_mount() { # HOST
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -euc 'mkdir -p /mnt/share
    [ -e /dev/fuse ] || mknod /dev/fuse c 10 229
    exec 3<>/dev/fuse
    setsid sleep 900 >/dev/null 2>&1 </dev/null &
    echo $! >/run/dead-server
    LIBMOUNT_FORCE_MOUNT2=always mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,subtype=sshfs share /mnt/share
    grep -w fuse.sshfs /proc/mounts'
}
no_dead_mount() { # HOST: also if the fix has failed
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'umount -l /mnt/share 2>/dev/null; kill "$(cat /run/dead-server)"; rm -f /run/dead-server; rmdir /mnt/share'
}

clocks_and_disks() {
  part "$kind: clocks and disks"
  wrong_clock node3 3600
  finds 20 "6 a clock that is an hour ahead" clock 'found["clock"]["hosts"] == ["node3"]'
  on node3 rm /usr/local/sbin/date
  healthy

  check "a read-only disk and one without inodes are mounted" small_disks
  on node1 touch /etc/kubernetes/manifests/empty.yaml
  finds 20 "22 no inodes, a read-only disk, an empty manifest, at once" inodes,mount-options,static-pods \
    'found["inodes"]["hosts"] == ["node3"] and found["mount-options"]["hosts"] == ["node2"] and found["static-pods"]["hosts"] == ["node1"]'
  check "the fix of mount-options works" follow_fix mount-options
  check "the fix of inodes shows where files are" follow_fix inodes
  on node1 rm /etc/kubernetes/manifests/empty.yaml
  without_mount node2 /var/lib/cni || true
  without_mount node3 /var/lib/cni || true
  healthy

  check "a mount without a server" dead_mount node3
  finds 30 "a mount whose server does not answer" dead-mount \
    'found["dead-mount"]["hosts"] == ["node3"] and "/mnt/share" in found["dead-mount"]["what"]'
  check "the fix of dead-mount works" follow_fix dead-mount
  check "no server of the mount is left" no_dead_mount node3
  healthy

  # The pods of the node keep their volumes below the mount.
  on node3 sh -c 'systemctl stop kubelet; cp -a /var/lib/kubelet /root/kubelet; mount -t tmpfs -o size=20m none /var/lib/kubelet;
    cp -a /root/kubelet/pki /root/kubelet/*.yaml /root/kubelet/*.env /var/lib/kubelet/ 2>/dev/null; dd if=/dev/zero of=/var/lib/kubelet/full bs=1M count=19 2>/dev/null; :'
  finds 30 "22 a full disk" disk-space 'found["disk-space"]["hosts"] == ["node3"] and follows("kubelet", "disk-space")'
  check "the fix of disk-space shows what is large" follow_fix disk-space
  on node3 sh -c 'umount /var/lib/kubelet; rm -rf /root/kubelet; systemctl start kubelet'
  healthy
  took "clocks and disks"
}

kubelet_refuses_flag() {
  case $kind in
  kubeadm) on node3 sed -i 's/"$/ --no-such-flag=1"/' /var/lib/kubelet/kubeadm-flags.env ;;
  systemd) on node3 sh -c "echo 'KUBELET_EXTRA_ARGS=\"--no-such-flag=1\"' >/etc/default/kubelet" ;;
  esac
  on node3 systemctl restart kubelet || true
}
kernel_and_runtime() {
  part "$kind: kernel, runtime and kubelets"
  printf 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swapfile file 1048572 0 -2\n' | mount_over node2 /proc/swaps
  on node3 sysctl -qw net.ipv4.ip_forward=0
  finds 20 "11 swap, 12 no forwarding, at once" kernel-network,swap 'found["swap"]["hosts"] == ["node2"] and found["kernel-network"]["hosts"] == ["node3"]'
  on node2 systemctl restart kubelet || true
  finds 60 "11 swap, with a kubelet that ends" kernel-network,swap 'follows("kubelet", "swap")'
  without_mount node2 /proc/swaps
  check "the fix of kernel-network works" follow_fix kernel-network
  on node2 systemctl restart kubelet
  healthy

  kubelet_refuses_flag
  finds 60 "8 a flag that the kubelet does not know" kubelet-settings '"--no-such-flag" in " ".join(found["kubelet-settings"]["evidence"])'
  undone kubelet-settings
  [ "$kind" = kubeadm ] || on node3 rm /etc/default/kubelet

  on node2 sed -i 's/SystemdCgroup = true/SystemdCgroup = false/; s,pause:[0-9.]*,pause:3.1,' /etc/containerd/config.toml
  on node3 sh -c 'sed -i "s,/etc/containerd/certs.d,/etc/containerd/empty," /etc/containerd/config.toml; mv /etc/kubexm/registry-ca.crt /root/'
  finds 30 "1 sandbox image, 2 no mirrors, 3 no CA, 10 cgroup driver, at once" cgroup-driver,registry-ca,registry-mirrors,sandbox-image \
    'found["sandbox-image"]["hosts"] == ["node2"] and found["registry-mirrors"]["hosts"] == ["node3"]'
  undone registry-mirrors

  on node2 sh -c 'cp -a /etc/containerd/config.toml /root/ && sed -i "s/^version = .*/&\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]/" /etc/containerd/config.toml && systemctl restart containerd'
  finds 60 "9 the CRI is disabled" runtime-configuration '"disabled" in found["runtime-configuration"]["what"]'
  undone runtime-configuration
  on node2 cp -a /root/config.toml /etc/containerd/config.toml

  on node2 systemctl kill -s STOP containerd
  finds 30 "a runtime that hangs" runtime 'found["runtime"]["hosts"] == ["node2"]'
  undone runtime

  on node3 sh -c 'systemctl restart containerd; sleep 2; touch /etc/containerd/config.toml'
  finds 30 "an older configuration of the runtime" runtime-stale 'found["runtime-stale"]["hosts"] == ["node3"]'
  undone runtime-stale

  on node2 systemctl stop kubelet
  finds 30 "8 a kubelet that is stopped" kubelet 'found["kubelet"]["hosts"] == ["node2"]'
  undone kubelet
  took "kernel, runtime and kubelets"
}

other_node_address() { # HOST ADDRESS: in the file with the flags of its kubelet
  local file=/var/lib/kubelet/kubeadm-flags.env
  [ "$kind" = kubeadm ] || file=/etc/systemd/system/kubelet.service
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -euc 'ip addr add "$1/32" dev host0; sed -i "s/--node-ip=[0-9.]*/--node-ip=$1/" "$2"; systemctl daemon-reload; systemctl restart kubelet' sh "$2" "$file"
}
nodes() {
  part "$kind: nodes"
  # As a unit, the kubelet has a first certificate in its kubeconfig, with which it replaces a lost one itself.
  if [ "$kind" = kubeadm ]; then
    on node2 sh -c 'rm -f /var/lib/kubelet/pki/kubelet-client-current.pem; systemctl restart kubelet' || true
    finds 60 "7 the kubelet's certificate is lost" kubelet-credentials 'found["kubelet-credentials"]["hosts"] == ["node2"]'
    undone kubelet-credentials
  fi

  other_node_address node3 10.231.250.99
  finds 60 "23 the node has another address" node-address 'found["node-address"]["hosts"] == ["node3"]'
  undone node-address
  on node3 ip addr del 10.231.250.99/32 dev host0

  on node2 sh -c 'rm -f /var/lib/kubelet/pki/kubelet-server*; systemctl restart kubelet'
  finds 60 "17 a certificate of a kubelet's server is not approved" kubelet-requests 'found["kubelet-requests"]["hosts"] == ["node2"]'
  undone kubelet-requests
  took "nodes"
}
