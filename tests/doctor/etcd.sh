# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Failures of etcd and of certificates. Sourced by tests/e2e-doctor. `kind` is kubeadm or systemd. Each plant
# leaves a healthy cluster.

member_etcdctl() { # WORD…: on node1
  local pki=/etc/kubernetes/pki/etcd
  if [ "$kind" = systemd ]; then
    on node1 etcdctl "$@"
    return
  fi
  # shellcheck disable=SC2016 # expands on the host
  on node1 sh -c 'crictl exec "$(crictl ps -q --name "^etcd\$")" etcdctl "$@"' sh --endpoints https://127.0.0.1:2379 \
    --cacert "$pki/ca.crt" --cert "$pki/server.crt" --key "$pki/server.key" "$@"
}
ask_member() { # HOST CALL JSON: by the gateway of its API, because etcdctl can end an alarm and not begin one
  local folder=/etc/kubernetes/pki/etcd pair=healthcheck-client file
  [ "$kind" = kubeadm ] || folder=/etc/kubexm/etcd-member pair=admin
  for file in ca.crt "$pair.crt" "$pair.key"; do on "$1" cat "$folder/$file" >"$work/member-$file"; done
  curl -sSf -m 10 --cacert "$work/member-ca.crt" --cert "$work/member-$pair.crt" --key "$work/member-$pair.key" \
    "https://$(address_of "$1"):2379/v3/maintenance/$2" -d "$3"
}
alarm_of() { # HOST ACTIVATE|DEACTIVATE: the alarm that a member has other data than the others
  local id
  id=$(ask_member "$1" status '{}' | sed -n 's/.*"member_id":"\([0-9]*\)".*/\1/p')
  [ -n "$id" ] && ask_member "$1" alarm "{\"action\": \"$2\", \"memberID\": \"$id\", \"alarm\": \"CORRUPT\"}"
}
etcd_members() { # what both types share
  local host=node1
  [ "$kind" = kubeadm ] || host=node2
  # etcd refuses a change of members for some seconds after one of them has started.
  check "a member is added that no host runs" until_true 10 member_etcdctl member add ghost --learner --peer-urls=https://10.231.250.9:2380
  finds 20 "19 a member of etcd that no host runs" etcd-members '"never started" in str(found["etcd-members"])'
  undone etcd-members
  # An alarm of one member stops the writes of all.
  check "the alarm CORRUPT of $host begins" alarm_of "$host" ACTIVATE
  finds 30 "19 a member of etcd has other data than the others" etcd-alarm \
    "'CORRUPT' in found['etcd-alarm']['what'] and found['etcd-alarm']['hosts'] == ['$host'] and found['etcd-alarm']['fix']"
  check "the fix of etcd-alarm compares the members" follow_fix etcd-alarm
  check "the alarm CORRUPT of $host ends" alarm_of "$host" DEACTIVATE
  healthy
}

damaged_member() { # HOST: one letter differs in each file of its log
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -euc 'systemctl stop etcd; cp -a /var/lib/etcd /root/etcd
    for file in /var/lib/etcd/member/wal/*.wal; do sed -i s,/registry/,/Registry/, "$file"; done
    systemctl --no-block start etcd
    ! diff -rq /var/lib/etcd/member/wal /root/etcd/member/wal'
}
former_member() { # HOST: with the data that it had when it stopped
  on "$1" sh -c 'systemctl stop etcd; rm -rf /var/lib/etcd && mv /root/etcd /var/lib/etcd; systemctl reset-failed etcd; systemctl start etcd'
}
# A single member of kubeadm that stops or is damaged ends the API for minutes, so that only units have these.
etcd_units() {
  on node2 systemctl stop etcd
  finds 20 "19 a member of etcd is stopped" etcd-member 'found["etcd-member"]["hosts"] == ["node2"]'
  on node3 systemctl stop etcd
  finds 20 "20 etcd has no quorum" etcd-member 'follows("etcd-quorum", "etcd-member") and "1 of 3" in found["etcd-quorum"]["what"]'
  undone etcd-member
  check "the log of a member is damaged" damaged_member node2
  finds 30 "19 the data of a member is damaged" etcd-data \
    'found["etcd-data"]["hosts"] == ["node2"] and "crc mismatch" in str(found["etcd-data"]["evidence"]) and follows("etcd-member", "etcd-data")'
  check "the member gets its data back" former_member node2
  healthy
}

fill_etcd() {
  local each
  # Former revisions of one object: a compaction removes them. The API server compacts every five minutes.
  if [ "$kind" = kubeadm ]; then
    for each in $(seq 80); do
      kubectl create configmap filler --from-file=x=<(head -c 675000 /dev/urandom | base64 -w 0) --dry-run=client -o yaml |
        kubectl replace --force=false -f - >/dev/null 2>&1 || kubectl create configmap filler --from-literal=x="$each" >/dev/null 2>&1 || break
    done
  else
    # shellcheck disable=SC2016 # expands on the host
    on node1 sh -c 'for each in $(seq 80); do head -c 900000 /dev/urandom | base64 -w 0 | etcdctl put /lab/filler >/dev/null 2>&1 || break; done; test "$each" -lt 80'
  fi
}
etcd_without_space() {
  part "$kind: etcd without space"
  check "etcd is filled" fill_etcd
  finds 60 "19 etcd has no space" etcd-alarm '"NOSPACE" in str(findings)'
  undone etcd-alarm
  case $kind in
  kubeadm) kubectl delete configmap filler >/dev/null ;;
  systemd) on node1 etcdctl del /lab/filler >/dev/null ;;
  esac
  took "etcd without space"
}

# A certificate of a host with dates of the past, for the same key and signed by the same CA.
expired() { # CA KEY: reads a certificate and prints it
  openssl x509 -x509toreq -copy_extensions copyall -signkey "$2" |
    openssl x509 -req -copy_extensions copyall -CA "$work/$1.crt" -CAkey "$work/$1.key" -set_serial 1 -days -1
}
expire_node1() {
  local pki=/etc/kubernetes/pki pair data files
  files="$pki/apiserver:kubernetes $pki/apiserver-kubelet-client:kubernetes $pki/front-proxy-client:front-proxy"
  if [ "$kind" = kubeadm ]; then
    files+=" $pki/apiserver-etcd-client:etcd $pki/etcd/server:etcd $pki/etcd/peer:etcd $pki/etcd/healthcheck-client:etcd"
    for pair in ca:kubernetes etcd/ca:etcd front-proxy-ca:front-proxy; do
      on node1 cat "$pki/${pair%:*}.crt" >"$work/${pair#*:}.crt"
      on node1 cat "$pki/${pair%:*}.key" >"$work/${pair#*:}.key"
    done
  else
    # The members stay valid: the other ones of the three would have no quorum without node3. The keys of CAs are here.
    files+=" /etc/kubexm/etcd/client:etcd"
    for pair in "etcd-$name:etcd" kubernetes/kubernetes:kubernetes kubernetes/front-proxy-ca:front-proxy; do
      cp "$state/pki/${pair%:*}.crt" "$work/${pair#*:}.crt"
      cp "$state/pki/${pair%:*}.key" "$work/${pair#*:}.key"
    done
  fi
  for pair in $files; do
    on node1 cat "${pair%:*}.key" >"$work/leaf.key"
    on node1 cat "${pair%:*}.crt" | expired "${pair#*:}" "$work/leaf.key" >"$work/expired.crt" 2>/dev/null
    # shellcheck disable=SC2016 # expands on the host
    on node1 sh -c 'cat >"$1"' sh "${pair%:*}.crt" <"$work/expired.crt"
  done
  for pair in admin controller-manager scheduler; do
    on node1 sed -n 's/^ *client-key-data: //p' "/etc/kubernetes/$pair.conf" | tr -d '"' | base64 -d >"$work/leaf.key"
    data=$(on node1 sed -n 's/^ *client-certificate-data: //p' "/etc/kubernetes/$pair.conf" | tr -d '"' | base64 -d |
      expired kubernetes "$work/leaf.key" 2>/dev/null | base64 -w 0)
    on node1 sed -i "s|client-certificate-data: .*|client-certificate-data: $data|" "/etc/kubernetes/$pair.conf"
  done
}
end_control_plane() { # of node1; it starts again with the certificates that have expired
  if [ "$kind" = systemd ]; then
    on node1 systemctl --no-block restart kube-apiserver kube-controller-manager kube-scheduler
    return
  fi
  # shellcheck disable=SC2016 # expands on the host
  on node1 sh -c 'crictl stop $(crictl ps -q --name "^etcd\$|^kube-(api|con|sch)") >/dev/null'
}
answers() { kubectl get --raw /readyz; }
silent() { ! answers; }
expired_certificates() {
  part "$kind: no API server, an unreachable host, expired certificates"
  expire_node1
  "$lab" unplug "$name" node3
  end_control_plane
  check "the API server does not answer" until_true 60 silent
  finds 60 "5 expired certificates, an unreachable host, and no API server" certificates,unreachable \
    'found["unreachable"]["hosts"] == ["node3"] and "node1" in found["certificates"]["hosts"] and checks["pods"]["verdict"] == "unknown"'
  "$lab" plug "$name" node3
  look
  check "the fix of certificates works" follow_fix certificates
  healthy
}
