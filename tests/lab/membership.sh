# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Hosts that join a cluster, leave it and are replaced: `kubexm node`, and what is left of a host. Sourced after `stage.sh`. The
# caller sets `kind` to kubeadm or systemd, which runs Kubernetes and etcd, and defines `kubectl`.

node() { # VERB NAME… OPTIONS…
  "$kubexm" node "$1" --output plain -f "$cluster" --bundle "$bundle" "${trust[@]}" --known-hosts "$(known_hosts)" \
    --state "$state" "${@:2}" </dev/null
}
node_ends() { # STATUS PATTERN VERB NAME… OPTIONS…: the command ends with this status, and its output matches
  local ended=0
  node "${@:3}" >"$work/node.log" 2>&1 || ended=$?
  cat "$work/node.log"
  [ "$ended" = "$1" ] && grep -q -e "$2" "$work/node.log"
}
hinted() { cat "$work/node.log"; grep -q -e "^ *hint: .*$1" "$work/node.log"; } # PATTERN: the last command gave this hint
edit_file() { # NAME: the user removes the host from the cluster file, where the command said so
  cp "$cluster" "$work/full.yaml"
  sed -i -e "/^    - {name: $1,/d" -e "/^    [a-z-]*: \[/{s/\b$1, //;s/, $1\b//}" "$cluster"
  ! grep -w "$1" "$cluster"
}
full_file() { cp "$work/full.yaml" "$cluster"; }
members() { # HOST NAME…: as listed on this host, etcd has these voters and no other member
  list_members "$1"
  [ "$(list_members "$1" | awk -F', ' '{ print $2, $3, $6 }' | sort)" = "$(printf 'started %s false\n' "${@:2}" | sort)" ]
}
list_members() { # HOST
  # shellcheck disable=SC2016 # expands on the host
  case $kind in
  systemd) on "$1" etcdctl member list ;;
  kubeadm) on "$1" sh -c 'pki=/etc/kubernetes/pki/etcd
    crictl exec "$(crictl ps -q --state running --name "^etcd$")" etcdctl --cacert $pki/ca.crt --cert $pki/server.crt --key $pki/server.key member list' ;;
  esac
}
no_trace() { # NAME HOST…: nothing of a removed host is in the cluster, and in the files of these hosts
  local gone=$1 host
  ! kubectl get nodes,csinodes --no-headers -o name | grep "/$gone\$" || return
  ! kubectl -n kube-node-lease get leases -o name | grep "/$gone\$" || return
  ! kubectl get csr --no-headers | grep "system:node:$gone\b" || return
  ! kubectl -n kube-system get secrets | grep -e bootstrap-token -e kubeadm-certs || return
  for host in "${@:2}"; do
    ! on "$host" grep -rw -e "$gone" -e "$(address_of "$gone")" /etc/hosts /etc/containerd/certs.d || return
    [ "$kind" = kubeadm ] || ! on "$host" ip route show proto 187 | grep -w "$(address_of "$gone")" || return
    prints_no . on "$host" find /var/lib/kubexm -name 'cordoned-*' || return
  done
}
new_machine() { # HOST: another machine with its name and address
  "$lab" renew-host "$name" "$1"
}
pulls_image() { # NODE: a new pod runs there, with an image that the node pulls again
  on "$1" crictl rmi "$agnhost" || true
  kubectl run "probe-$1" --image "$agnhost" --restart=Never --overrides "{\"spec\":{\"nodeName\":\"$1\"}}" -- pause
  kubectl wait pod "probe-$1" --for=condition=Ready --timeout=120s
  kubectl delete pod "probe-$1" --wait=false --grace-period=1
}
