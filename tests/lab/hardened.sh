# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# Checks of the secure defaults on a running cluster. Sourced with the functions of stage.sh. `hardened` needs a function
# `kubectl`.

hardened() { # CONTROL-PLANE NODE...: the control plane also runs the registry
  local control_plane=$1 node port
  shift
  check "the API server has an audit log without the content of Secrets" audit_log "$control_plane"
  check "profiling is off" profiling_is_off
  check "the API server refuses CBC suites and accepts GCM suites" suites "$control_plane" "$control_plane" 6443
  for node in "$control_plane" "$@"; do
    check "$node: the cluster's CA has signed the serving certificate of the kubelet" suites "$control_plane" "$node" 10250
    check "$node: only root can read the units and the configuration of the kubelet" kubelet_files "$node"
  done
  # Health of the kubelet, metrics of kube-proxy, the controller manager, the scheduler.
  for port in 10248 10249 10257 10259; do
    check "port $port listens on loopback only" listens_on_loopback "$control_plane" "$port"
  done
  check "the metrics of etcd, if it runs there, listen on loopback only" listens_on_loopback "$control_plane" 2381 or-not
  check "the registry listens on the internal address only" listens_on "$control_plane" 5000
  check "the registry runs as its own user" runs_as "$control_plane" kubexm-registry kubexm-registry
  check "the unit of the registry is confined" confined "$control_plane" kubexm-registry 2.0
  echo "    exposure of kubexm-registry.service by systemd-analyze: $(exposure "$control_plane" kubexm-registry)"
  check "an anonymous pull is refused" pull_answers "$control_plane" 401
  check "a pull with another password is refused" pull_answers "$control_plane" 401 kubexm:wrong
  check "a pull with the login of the state directory is answered" pull_answers "$control_plane" 200 "$(sed -n 1p "$state/pki/registry-login")"
  for node in "$control_plane" "$@"; do
    check "$node: only root can read the registry's login" login_is_private "$node"
  done
}
audit_log() { # HOST
  kubectl create secret generic audited --from-literal "content=not in the log" >/dev/null
  kubectl delete secret audited >/dev/null
  on "$1" grep -q '"resource":"secrets","namespace":"default","name":"audited"' /var/log/kubernetes/audit.log || return 1
  # The base64 of "not in the log", in a request or in a response.
  ! on "$1" grep -q -e bm90IGluIHRoZSBsb2c -e 'not in the log' /var/log/kubernetes/audit.log
}
profiling_is_off() {
  local said
  said=$(kubectl get --raw /debug/pprof/ 2>&1) && { sed -n 1,3p <<<"$said"; return 1; }
  grep -i 'not find\|NotFound' <<<"$said"
}
suites() { # CONTROL-PLANE HOST PORT: curl on this machine verifies the certificate with the cluster's CA
  local url
  url=https://$(address_of "$2"):$3/healthz
  on "$1" cat /etc/kubernetes/pki/ca.crt >"$work/cluster-ca.crt" || return 1
  curl -sS -o /dev/null --cacert "$work/cluster-ca.crt" --tls-max 1.2 \
    --ciphers ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256 "$url" || return 1
  ! curl -sS -o /dev/null --cacert "$work/cluster-ca.crt" --tls-max 1.2 \
    --ciphers ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA "$url" 2>&1
}
kubelet_files() { # HOST
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'set -- /var/lib/kubelet/config.yaml /etc/systemd/system/kubelet.service
    for file in /etc/systemd/system/kubelet.service.d/*.conf /var/lib/kubelet/kubeadm-flags.env; do
      [ ! -e "$file" ] || set -- "$@" "$file"
    done
    found=$(find "$@" ! -perm 600); echo "$found"; [ -z "$found" ]'
}
listens_on() { # HOST PORT
  local addresses
  addresses=$(on "$1" ss -ltnH "sport = :$2" | awk '{ print $4 }')
  echo "$addresses"
  [ "$addresses" = "$(address_of "$1"):$2" ]
}
listens_on_loopback() { # HOST PORT [or-not]
  local addresses
  addresses=$(on "$1" ss -ltnH "sport = :$2" | awk '{ print $4 }')
  echo "$addresses"
  [ "$addresses" = "127.0.0.1:$2" ] || [ "${3:-}$addresses" = or-not ]
}
pull_answers() { # HOST STATUS [USER:PASSWORD]: the registry answers a request for a manifest with this status
  local url said repository
  repository=$(on "$1" sh -c 'cd /var/lib/kubexm/registry/docker/registry/v2/repositories && find . -name _manifests' |
    sed -n 's,^\./\(.*pause\)/_manifests$,\1,p' | sed -n 1p)
  [ -n "$repository" ] || return 1
  url=https://$(address_of "$1"):5000/v2/$repository/tags/list
  said=$(printf '%s\n' "${3:+user = \"$3\"}" | curl -sk -K - -o /dev/null -w '%{http_code}' "$url")
  echo "$url: $said"
  [ "$said" = "$2" ]
}
login_is_private() { # HOST: with containerd
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c 'cd /etc/containerd/certs.d && grep -l Authorization */hosts.toml && [ -z "$(find . -name hosts.toml ! -perm 600)" ]'
}
runs_as() { # HOST UNIT USER
  local pid
  pid=$(on "$1" systemctl show -p MainPID --value "$2")
  on "$1" ps -o user:32=,args= -p "$pid"
  [ "$(on "$1" ps -o user:32= -p "$pid" | tr -d ' ')" = "$3" ]
}
# Prints the exposure of a unit, from 0 to 10.
exposure() { # HOST UNIT
  on "$1" systemd-analyze security --no-pager "$2" | sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p'
}
confined() { # HOST UNIT MOST: its exposure is at most this
  local found
  found=$(exposure "$1" "$2")
  echo "exposure $found"
  awk -v found="$found" -v most="$3" 'BEGIN { exit !(found != "" && found <= most) }'
}
