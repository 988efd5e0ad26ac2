# shellcheck shell=sh
# Runs etcdctl as the administrator of the member of etcd on this host, which $kind runs, `kubeadm` or `systemd`. It asks the
# member, or those at the addresses in $endpoints, for at most $most seconds.
# Arguments: those of etcdctl.
etcdctl_of_member() {
  if [ "${kind:-}" = systemd ]; then
    files=/etc/kubexm/etcd-member
    ETCDCTL_ENDPOINTS=${endpoints:-https://127.0.0.1:2379} ETCDCTL_CACERT=$files/ca.crt ETCDCTL_CERT=$files/admin.crt \
      ETCDCTL_KEY=$files/admin.key timeout "${most:-30}" /usr/local/lib/kubexm/etcdctl "$@"
    return
  fi
  pki=/etc/kubernetes/pki/etcd
  # The first address is that of the loopback interface, in the address family of the member.
  server=${endpoints:-$(sed -n '/--listen-client-urls=/{s/.*--listen-client-urls=//;s/[,"].*//;p;q;}' \
    /etc/kubernetes/manifests/etcd.yaml 2>/dev/null || :)}
  in_etcd etcdctl --endpoints "${server:-https://127.0.0.1:2379}" \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}
