# shellcheck shell=bash disable=SC2154 # `work` is the caller's
# Services on this machine that represent those of a site: haproxy as a load balancer, an etcd, a registry.
# Sourced. The caller sets `work`, `lab`, `name` and `programs`, and calls `end_background` when it ends.

outside_started() { cut -d')' -f2 "/proc/$1/stat" 2>/dev/null | cut -d' ' -f21; }
background() { # COMMAND...: records it with its start time, so that a recycled PID is never killed
  setsid "$@" >>"$work/background.log" 2>&1 </dev/null &
  echo "$! $(outside_started $!)" >>"$work/pids"
}
end_background() {
  local pid start
  [ -e "$work/pids" ] || return 0
  while read -r pid start; do
    [ "$(outside_started "$pid")" != "$start" ] || kill "$pid" 2>/dev/null || true
  done <"$work/pids"
}
outside_programs() { # installs the required programs on this machine
  local pair
  for pair in haproxy:haproxy openssl:openssl; do
    command -v "${pair%:*}" >/dev/null || [ -x "/usr/sbin/${pair%:*}" ] ||
      DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${pair#*:}" >/dev/null
  done
}
# Adds an address to the bridge of the lab and sets `outside` to it. It disappears with the bridge.
outside_address() {
  local first
  first=$(sed -n 's/^node1 //p' "$("$lab" dir "$name")/hosts")
  outside=${first%.*}.2
  ip addr add "$outside/24" dev "$(ip -o -4 addr show to "${first%.*}.1/32" | awk '{ print $2 }')"
}
load_balancer() { # HOST...: in front of these control planes
  local host
  {
    cat <<EOF
defaults
  mode tcp
  timeout connect 3s
  timeout check 2s
  timeout client 10m
  timeout server 10m
  retries 3
  option redispatch 1
frontend api
  bind $outside:6443
  default_backend control-planes
backend control-planes
  option httpchk GET /readyz
  default-server check check-ssl verify none inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
EOF
    for host in "$@"; do sed -n "s/^$host \(.*\)/  server $host \1:6443/p" "$("$lab" dir "$name")/hosts"; done
  } >"$work/haproxy.cfg"
  background "$(PATH=$PATH:/usr/sbin command -v haproxy)" -db -f "$work/haproxy.cfg"
}
authority() { # NAME
  mkdir -p "$work/pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
    -keyout "$work/pki/$1.key" -out "$work/pki/$1.crt" 2>/dev/null
}
intermediate() { # NAME: a CA of the site for clusters, which the CA `root` of the site has signed
  local pki=$work/pki
  [ -e "$pki/root.key" ] || authority root
  openssl req -newkey rsa:2048 -nodes -subj "/C=DE/O=Site/CN=$1" -keyout "$pki/$1.key" -out "$pki/$1.csr" 2>/dev/null
  printf 'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n' >"$pki/$1.extensions"
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/root.crt" -CAkey "$pki/root.key" -CAcreateserial -days 900 \
    -extfile "$pki/$1.extensions" -out "$pki/$1.crt" 2>/dev/null
}
issuer_at() { # ADDRESS:PORT: of the certificate that a server presents
  openssl s_client -connect "$1" </dev/null 2>/dev/null | openssl x509 -noout -issuer -nameopt "oneline,-space_eq"
}
leaf() { # NAME EXTENSIONS: a certificate signed by the CA `ca`
  local pki=$work/pki
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" \
    -keyout "$pki/$1.key" -out "$pki/$1.csr" 2>/dev/null
  openssl x509 -req -in "$pki/$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 2 \
    -extfile <(printf '%s\n' "$2") -out "$pki/$1.crt" 2>/dev/null
}
outside_etcd() { # VERSION: with TLS and the files ca, server and client in pki
  local pki=$work/pki
  etcd_programs=$programs/etcd-$1
  authority ca
  leaf server "$(printf 'subjectAltName=IP:%s\nextendedKeyUsage=serverAuth,clientAuth' "$outside")"
  leaf client extendedKeyUsage=clientAuth
  background "$etcd_programs/etcd" --name outside --data-dir "$work/etcd" --logger zap --log-level warn \
    --listen-client-urls "https://$outside:2379" --advertise-client-urls "https://$outside:2379" \
    --listen-peer-urls http://127.0.0.1:0 --cert-file "$pki/server.crt" --key-file "$pki/server.key" \
    --client-cert-auth --trusted-ca-file "$pki/ca.crt"
}
etcdctl() {
  local pki=$work/pki
  "$etcd_programs/etcdctl" --endpoints "https://$outside:2379" --cacert "$pki/ca.crt" \
    --cert "$pki/client.crt" --key "$pki/client.key" "$@"
}
# With TLS and the files ca and registry in pki. The user `team` has the password in registry-password.
outside_registry() { # [NAME [DIRECTORY]]: with another name; with the images of a directory, which it does not change
  local pki=$work/pki hash storage="{filesystem: {rootdirectory: $work/registry}}"
  [ $# -lt 2 ] || storage="{filesystem: {rootdirectory: $2}, maintenance: {readonly: {enabled: true}}}"
  authority ca
  leaf registry "$(printf 'subjectAltName=IP:%s%s\nextendedKeyUsage=serverAuth' "$outside" "${1:+,DNS:$1}")"
  echo "open sesame" >"$work/registry-password"
  # The bcrypt hash of the password.
  # shellcheck disable=SC2016 # no variables
  hash='$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW'
  echo "team:$hash" >"$work/registry-users"
  cat >"$work/registry.yaml" <<EOF
version: 0.1
storage: $storage
http: {addr: "$outside:5443", tls: {certificate: $pki/registry.crt, key: $pki/registry.key}}
auth: {htpasswd: {realm: site, path: $work/registry-users}}
EOF
  background "$programs/registry-$REGISTRY/registry" serve "$work/registry.yaml"
}
# Without TLS and login, with the images of a directory, which it does not change.
outside_plain_registry() { # PORT DIRECTORY
  cat >"$work/plain-registry.yaml" <<EOF
version: 0.1
storage: {filesystem: {rootdirectory: $2}, maintenance: {readonly: {enabled: true}}}
http: {addr: "$outside:$1"}
EOF
  background "$programs/registry-$REGISTRY/registry" serve "$work/plain-registry.yaml"
}
