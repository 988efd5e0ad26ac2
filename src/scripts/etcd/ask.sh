#!/bin/sh -eu
# Runs etcdctl as the administrator of the member of etcd on this host, and prints what it prints.
#   kind       `kubeadm` or `systemd`, which runs etcd
#   endpoints  addresses of other members to ask, with commas between them
#   most       after so many seconds etcdctl ends
# Further arguments: those of etcdctl.
: "${verb=}" "${kind=}" "${endpoints=}" "${most=}"
export PATH="/usr/local/bin:$PATH"
etcdctl_of_member "$@"
