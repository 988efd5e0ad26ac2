# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # programs of awk; the variables are the caller's
# Hosts that leave a cluster, come back and are replaced (`kubexm node`), behind a load balancer that kubexm runs, while clients
# ask the endpoint. Sourced by tests/e2e-balancers, after tests/lab/membership.sh and poll.sh.

roles_of_nodes() { # TYPE: changes a cluster file: two registries, and node5, which is only a load balancer or is left out
  case $1 in
  keepalived-*) sed -e "s/^    worker: .*/&\n    registry: [node1, node2]\n    loadbalancer: [node1, node2, node3, node5]/" ;;
  *) sed -e "/^    - {name: node5,/d" -e "s/^    worker: .*/&\n    registry: [node1, node2]/" ;;
  esac
}
with_role() { sed -n "s/^    $1: \[\(.*\)\]/\1/p" "$cluster" | tr -s ', ' '\n' | sort; } # ROLE: prints its hosts
hosts_of_file() { sed -n 's/^    - {name: \([^,]*\),.*/\1/p' "$cluster"; }
balancers() { # prints the hosts on which the load balancer runs
  case $type in
  keepalived-*) with_role loadbalancer ;;
  kube-vip*) with_role control-plane ;;
  *) { with_role control-plane; with_role worker; } | sort ;;
  esac
}
has_address() { case $type in keepalived-* | kube-vip*) true ;; *) false ;; esac; }

sample_holders() { # prints, until it is killed, the time and the hosts that have the address of the endpoint
  local host found
  local -A namespaces
  for host in "${all[@]}"; do namespaces[$host]=$(namespace_of "$host"); done
  while :; do
    found=''
    for host in "${all[@]}"; do
      [ -z "$(ip -n "${namespaces[$host]}" -o addr show to "$vip" 2>/dev/null)" ] || found+=" $host"
    done
    echo "$EPOCHREALTIME$found"
    sleep 0.25
  done
}
# Prints the longest time, in seconds, in which fewer or more hosts than one had the address.
longest_with() { # none | several
  awk -v kind="$1" '{ if ((kind == "none" && NF == 1) || (kind == "several" && NF > 2)) { if (!since) since = $1
    if ($1 - since > longest) longest = $1 - since } else since = 0 } END { printf "%.1f\n", longest }' "$work/holders"
}
had_one_holder() { # the hosts that have the address change within two seconds
  sed 's/^[^ ]*/had by/' "$work/holders" | uniq -c
  [ -s "$work/holders" ] && within "$(longest_with several)" 2
}
and_later() { # COMMAND…: the seconds that it takes are in a file; returns ten seconds after its end
  local status=0 begun=$EPOCHREALTIME
  "$@" || status=$?
  awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }' >"$work/seconds"
  sleep 10
  return "$status"
}
asked() { # STATUS PATTERN VERB NAME… OPTIONS…: like node_ends, while the endpoint is asked and its holders are watched
  local status=0
  sample_holders >"$work/holders" &
  sampler=$!
  polled and_later node_ends "$@" || status=$?
  kill "$sampler"
  wait "$sampler" || true
  sampler=''
  return "$status"
}
# A client waits for at most ten seconds, as for a host that is cut off.
while_asked() { # DESCRIPTION STATUS PATTERN VERB NAME… OPTIONS…
  check "$1" asked "${@:2}"
  echo "    $type: kubexm node ${*:4:2}: $(cat "$work/seconds") s"
  outages
  check "the endpoint was never silent for more than 10 s" answered_each 10
  ! has_address || {
    echo "    $type: without a holder for at most $(longest_with none) s, with several ones for at most $(longest_with several) s"
    check "one host at a time had the address" had_one_holder
  }
}

configured_backends() { # HOST
  case $type in
  *haproxy*) on "$1" awk '$1 == "server" { print $3 }' /etc/kubexm/haproxy/haproxy.cfg | sort -u ;;
  *nginx*) on "$1" awk '$1 == "server" && /max_fails/ { print $2 }' /etc/kubexm/nginx/nginx.conf | sort -u ;;
  esac
}
configured_peers() { # HOST
  on "$1" sed -n '/unicast_peer {/,/}/s/^ *\([0-9][0-9.]*\)$/\1/p' /etc/kubexm/keepalived/keepalived.conf | sort
}
addresses() { local host; while read -r host; do echo "$(address_of "$host")${1:-}"; done | sort; } # [SUFFIX]: of hosts of stdin
# Prints the hosts that run a static pod, with the digest of its configuration, if it has one.
pods_of_balancer() {
  local pod=kube-vip
  [ "$type" = kube-vip ] || pod=kubexm-${type%-pod}
  kubectl -n kube-system get pods -l "app.kubernetes.io/name=$pod" --field-selector status.phase=Running \
    -o "jsonpath={range .items[*]}{.spec.nodeName} {.metadata.annotations.kubexm\.io/configuration}{\"\\n\"}{end}" | sed 's/ $//' | sort
}
expected_pods() { # prints the same for the present files of the hosts
  local host digest
  for host in $(balancers); do
    case $type in
    haproxy-pod) digest=$(on "$host" sha256sum /etc/kubexm/haproxy/haproxy.cfg) ;;
    nginx-pod) digest=$(on "$host" sha256sum /etc/kubexm/nginx/nginx.conf) ;;
    *) digest='' ;;
    esac
    echo "$host${digest:+ sha256:${digest%% *}}"
  done
}
# The load balancers have exactly the control planes of the cluster file as backends, and each other as peers.
balancers_are_current() {
  local host
  for host in $(balancers); do
    case $type in
    kube-vip*) ;;
    *)
      echo "$host: backends"
      diff <(with_role control-plane | addresses :6443) <(configured_backends "$host") || return
      ;;
    esac
    case $type in
    keepalived-*)
      echo "$host: peers"
      diff <(balancers | grep -vx "$host" | addresses) <(configured_peers "$host") || return
      ;;
    esac
  done
  case $type in
  kube-vip | haproxy-pod | nginx-pod)
    echo "static pods"
    diff <(expected_pods) <(pods_of_balancer)
    ;;
  esac
}
balancers_do_not_name() { # NAME: in no file, on no host of the cluster file
  local host
  for host in $(hosts_of_file); do
    # shellcheck disable=SC2016 # expands on the host
    on "$host" sh -c 'for path in /etc/kubexm/haproxy /etc/kubexm/nginx /etc/kubexm/keepalived /etc/kubexm/kube-vip \
      /etc/kubexm/static-pods /etc/kubernetes/manifests/*kube-vip*.yaml /etc/kubernetes/manifests/kubexm-*.yaml; do
        [ ! -e "$path" ] || ! grep -rwF -e "$1" -e "$2" "$path" || exit 1
      done' sh "$1" "$(address_of "$1")" || { echo "$host"; return 1; }
  done
}
resets() { # HOST: prints how many connections to the host had no program to answer
  ip netns exec "$(namespace_of "$1")" awk '$1 == "Tcp:" { if (at) print $at
    for (i = 2; i <= NF && !at; i++) if ($i == "OutRsts") at = i }' /proc/net/snmp
}
# A load balancer that runs with a former configuration checks each of its backends once a second.
not_asked() { # HOST
  local before refused
  before=$(resets "$1")
  sleep 5
  refused=$(($(resets "$1") - before))
  echo "$refused connections were refused in 5 s"
  [ "$refused" -le 2 ]
}
has_no_balancer() { # HOST: no process, unit, timer and address of a load balancer
  # shellcheck disable=SC2016 # expands on the host
  on "$1" sh -c '
    ! ps -eo comm= | grep -x -e haproxy -e nginx -e keepalived -e kube-vip || exit 1
    ! systemctl list-units --all --type=service,socket,timer --no-legend --plain "kubexm-*" | grep . || exit 1
    for address; do ! ip -o addr show to "$address" | grep . || exit 1; done' sh "$vip" "$service"
}
another_holds() { # HOST: one other host has the address
  local found
  found=$(holder)
  echo "$found"
  [ -n "$found" ] && ! grep -x "$1" <<<"$found"
}
give_address() { # HOST…: keepalived of the present holder restarts until one of these hosts has the address
  local found host tries=12
  until found=$(holder); [ -n "$found" ] && [[ " $* " = *" $found "* ]]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    for host in $found; do on "$host" systemctl restart kubexm-keepalived; done
    sleep 6
  done
  echo "$found"
}
settles() { # COUNT: the nodes, of which there are this many, the load balancers and the address after a change
  check "all nodes are Ready" until_true 120 ready "$1"
  check "the load balancers have the present hosts" until_true 60 balancers_are_current
  ! has_address || check "one host has the address" until_true 20 one_holder
}
leaves_nothing() { # NAME
  local host
  local -a others
  mapfile -t others < <(hosts_of_file)
  check "nothing of $1 is left in the cluster and on the others" no_trace "$1" "${others[@]}"
  check "no file of a load balancer names $1" balancers_do_not_name "$1"
  check "no load balancer asks $1" until_true 20 not_asked "$1"
  check "$1 has no load balancer any more" has_no_balancer "$1"
  # The script of the site wrote it.
  on "$1" rm -f /run/site-notify
  as_before "$1"
}
others_than() { with_role control-plane | grep -vx "$1"; } # CONTROL-PLANE: prints the other ones
plan_of() { # HOST: a dry run prints the plan, with the step after which another host has the address
  check "a dry run prints the plan" node_ends 0 "Revert the .* changes of kubexm on $1" remove "$1" --dry-run
  sed -n '/^removal/,/^point of/s/^/    /p' "$work/node.log"
  ! has_address || check "the plan hands over the address" grep "Let another .* have $vip" "$work/node.log"
}

another_machine() { new_machine "$1" && sleep 5; } # HOST: with time to start its services

control_plane_leaves() {
  local victim witness
  local -a planes
  [[ $type != keepalived-* ]] || check "a control plane has the address" give_address node1 node2 node3
  victim=$(victim_of)
  part "$type: $victim, which serves the endpoint, leaves and comes back"
  plan_of "$victim"
  while_asked "kubexm node remove" 0 "$victim left the cluster" remove "$victim" --yes
  part_start=$EPOCHREALTIME
  ! has_address || check "another host has the address" until_true 20 another_holds "$victim"
  check "the cluster file does not have $victim any more" edit_file "$victim"
  settles 3
  leaves_nothing "$victim"
  mapfile -t planes < <(with_role control-plane)
  check "etcd has two members" members "${planes[0]}" "${planes[@]}"
  [[ $type != kube-vip* ]] || {
    check "the service answers" until_true 60 answers_here
    check "one host has the address of the service" until_true 20 one_holder "$service"
  }
  check "a new pod runs" pulls_image node4
  check "the status names no difference to the plan" no_drift
  install_again
  took "the cluster without $victim"

  witness=${planes[0]}
  full_file
  while_asked "kubexm node add" 0 "$victim is in the cluster" add "$victim"
  part_start=$EPOCHREALTIME
  settles 4
  mapfile -t planes < <(with_role control-plane)
  check "etcd has three members" members "$witness" "${planes[@]}"
  check "a new pod runs on $victim" pulls_image "$victim"
  install_again
  took "the cluster with $victim"
}
control_plane_is_replaced() {
  local victim witness
  local -a planes
  [[ $type != keepalived-* ]] || check "a control plane has the address" give_address node1 node2 node3
  victim=$(victim_of)
  witness=$(others_than "$victim" | sed -n 1p)
  part "$type: $victim, which serves the endpoint, dies and is replaced"
  "$lab" kill-host "$name" "$victim"
  ! has_address || check "another host has the address" until_true 30 another_holds "$victim"
  check "the endpoint answers" until_true 30 kubectl get nodes
  check "another machine starts with its name" another_machine "$victim"
  remember "$victim"
  check "a dry run prints the plan" node_ends 0 "Install $victim again, as a new host of the cluster" replace "$victim" --dry-run
  sed -n '/^replacement/,/^point of/s/^/    /p' "$work/node.log"
  while_asked "kubexm node replace" 0 "$victim is in the cluster again" replace "$victim" --yes
  part_start=$EPOCHREALTIME
  settles 4
  mapfile -t planes < <(with_role control-plane)
  check "etcd has three members" members "$witness" "${planes[@]}"
  check "a new pod runs on $victim" pulls_image "$victim"
  install_again
  took "the cluster with the new $victim"
}
balancer_leaves() { # node5 is nothing else
  part "$type: node5, which has the address and is only a load balancer, leaves, comes back, dies and is replaced"
  check "node5 has the address" give_address node5
  plan_of node5
  while_asked "kubexm node remove" 0 "node5 left the cluster" remove node5 --yes
  part_start=$EPOCHREALTIME
  check "another host has the address" until_true 20 another_holds node5
  check "the cluster file does not have node5 any more" edit_file node5
  settles 4
  leaves_nothing node5
  install_again
  full_file
  while_asked "kubexm node add" 0 "node5 is in the cluster" add node5
  settles 4
  install_again
  check "node5 has the address" give_address node5
  "$lab" kill-host "$name" node5
  check "another host has the address" until_true 30 another_holds node5
  check "another machine starts with its name" another_machine node5
  remember node5
  while_asked "kubexm node replace" 0 "node5 is in the cluster again" replace node5 --yes
  settles 4
  check "the new node5 can have the address" give_address node5
  check "the endpoint answers" until_true 20 kubectl get nodes
  install_again
  took "node5 left, came back and was replaced, with all checks"
}
changed_nodes() {
  control_plane_leaves
  control_plane_is_replaced
  [[ $type != keepalived-* ]] || balancer_leaves
}
