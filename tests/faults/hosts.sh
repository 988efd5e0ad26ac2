# shellcheck shell=bash disable=SC2034,SC2154 # run, stage.sh and frame.sh set the variables
# The hosts of all groups after `bundle`, and faults of a host or of its link. Sourced. One lab serves all groups.

have_hosts() {
  [ -z "${all[*]:-}" ] || return 0
  bundle_for "the bundle is built" "$manifests/kubernetes-$minor.yaml"
  hosts_up 2
  dir=$("$lab" dir "$name")
  key=$dir/id_ed25519 password=$(cat "$dir/ops-password")
  one=$(address_of node1) two=$(address_of node2)
  subnet=${one#10.231.} subnet=${subnet%.*}
  cp "$(known_hosts)" "$work/known"
  cluster_file cluster "user: root, privateKeyPath: $key" "" ""
  cluster=$work/cluster.yaml
}
# cluster_file NAME DEFAULTS FIELDS-OF-NODE1 FIELDS-OF-NODE2
cluster_file() {
  "$lab" cluster "$name" "v$version" | sed -e "s|defaults: {.*}|defaults: {$2}|" \
    -e "s|\(name: node1, address: [0-9.]*\)}|\1${3:+, $3}}|" \
    -e "s|\(name: node2, address: [0-9.]*\)}|\1${4:+, $4}}|" >"$work/$1.yaml"
}

# Options of kubexm for a cluster file and a state directory.
of_cluster() { # NAME STATE
  cluster_options=(-f "$work/$1.yaml" --known-hosts "$work/known" --state "$work/$2")
}
dry_run() { # [CLUSTER [STATE]]: connect and preflight, without a change
  of_cluster "${1:-cluster}" "${2:-dry}"
  run install --dry-run --unsigned --bundle "$bundle" "${cluster_options[@]}" --output plain
}
install_options() { # the arguments of an install are in `installing`
  of_cluster cluster state
  installing=(install --unsigned --bundle "$bundle" "${cluster_options[@]}")
}
install_it() { # [OPTIONS…]
  install_options
  run "${installing[@]}" --output plain "$@"
}
begin_install() { # [OPTIONS…]: in the background, with events
  install_options
  begin "${installing[@]}" --output json "$@"
}
untouched() { # HOST…: kubexm left nothing
  local host
  for host in "$@"; do on "$host" test ! -e /var/lib/kubexm || return; done
}

namespace() { echo "kx$subnet-$1"; }        # HOST
link() { echo "v$subnet-${1#node}"; }       # HOST: the end of its link on this machine
inside() { ip netns exec "$(namespace "$1")" "${@:2}"; } # HOST COMMAND…: in its network, as a program of this machine

slow_link() { # HOST RATE: both directions
  tc qdisc add dev "$(link "$1")" root tbf rate "$2" burst 16kb latency 500ms
  inside "$1" tc qdisc add dev host0 root tbf rate "$2" burst 16kb latency 500ms
}
fast_link() { # HOST
  tc qdisc del dev "$(link "$1")" root
  inside "$1" tc qdisc del dev host0 root
}
filter() { # HOST RULE…: in front of everything that reaches the host
  inside "$1" iptables -I INPUT -i host0 "${@:2}"
}
unfilter() { # HOST RULE…
  inside "$1" iptables -D INPUT -i host0 "${@:2}"
}
resets=(-p tcp --dport 22 -j REJECT --reject-with tcp-reset)
losses=(-m statistic --mode random --probability 0.05 -j DROP)
listen_on() { # HOST PORT: another program
  # Without the descriptors of the caller, such as a lock on the lab. `exec` keeps the process in `listener`.
  (close_descriptors; exec ip netns exec "$(namespace "$1")" /usr/bin/python3 -m http.server "$2") </dev/null >/dev/null 2>&1 &
  listener=$!
  processes+=("$listener")
  disown
  until_true 10 port_is_open "$1" "$2"
}
port_is_open() { grep -q ":$2\b" <<<"$(inside "$1" ss -Hltn)"; }
listen_no_more() { kill -9 "$listener"; }

on_host() { # HOST SCRIPT: as root
  on "$1" sh -c "$2" >"$work/quiet" 2>&1 || problem "$1: $2: $(tail -n 1 "$work/quiet")"
}
small_disk_on() { # HOST DIR SIZE
  on_host "$1" "mkdir -p $2 && mount -t tmpfs -o size=$3 tmpfs $2"
}
no_small_disk_on() { # HOST DIR: removes the directory if it is empty
  on_host "$1" "umount $2; rmdir -p --ignore-fail-on-non-empty $2"
}
