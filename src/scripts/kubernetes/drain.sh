#!/bin/sh -eu
# Moves the pods of a node to others before its programs change, or lets the scheduler use the node again. A node that an
# administrator has cordoned stays cordoned.
# Verbs: `check`, `drain`; `returned`, `return`; `left` and then `leave` for a node that leaves the cluster.
#   node     name of the node
#   version  version of its kubelet after the change
#   seconds  time that the evictions may take
#   runtime  beginning of the runtime that the node reports after the change, empty for any
# Further arguments: options of `kubectl drain`.
: "${verb=}" "${node=}" "${version=}" "${seconds=}" "${runtime=}"
# Exists while this node is cordoned by kubexm.
mark=/var/lib/kubexm/cordoned-$node
# Prints a field of the node.
field() { patiently kubectl get node "$node" -o "jsonpath=$1"; }
is_current() { [ "$(field '{.status.nodeInfo.kubeletVersion}')" = "v$version" ]; }
is_ready() { [ "$(field '{.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
cordon() {
  [ "$(field '{.spec.unschedulable}')" != true ] || return 0
  : >"$mark"
  sync "$mark" /var/lib/kubexm 2>/dev/null || sync
  patiently kubectl cordon "$node" >/dev/null
}
uncordon() {
  [ -e "$mark" ] || return 0
  patiently kubectl uncordon "$node" >/dev/null
  rm -f "$mark"
  sync /var/lib/kubexm 2>/dev/null || sync
}
# Prints the pods that are left with the reason, other words of kubectl, and the budgets that permit no eviction.
# Arguments: what kubectl printed.
explain() {
  printf '%s\n' "$1" | awk '
    /^pod\/.* (evicted|deleted)$/ { sub(/^pod\//, ""); gone[$1] = 1 }
    /error when (evicting|deleting) pods\/"[^"]*" -n "[^"]*".*: / && !/global timeout reached/ {
      split($0, part, "\"")
      reason = $0
      sub(/^[^)]*\): /, "", reason)
      reasons[part[2]] = part[4] "/" part[2] ": " reason
    }
    END { for (pod in reasons) if (!(pod in gone)) print reasons[pod] }' | sort
  printf '%s\n' "$1" | grep -v -e 'error when evicting' -e '^evicting pod' -e '^Warning: ignoring' -e '^pod/' -e '^node/' \
    -e '^There are pending ' -e '^ ' | tail -n 8 || :
  kubectl get poddisruptionbudgets -A \
    -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.status.disruptionsAllowed}{"\t"}{.status.currentHealthy}{"\t"}{.status.desiredHealthy}{"\n"}{end}' 2>/dev/null |
    awk -F '\t' 'NF && $2 == 0 { print "the PodDisruptionBudget " $1 " permits no eviction: " $3 " pods are healthy, and it requires " $4 }' || :
}
# Prints the node of each pod of CoreDNS, whether it is ready, and its name.
dns_pods() {
  kubectl -n kube-system get pods -l k8s-app=kube-dns \
    -o 'jsonpath={range .items[*]}{.spec.nodeName}{" "}{.status.conditions[?(@.type=="Ready")].status}{" "}{.metadata.name}{"\n"}{end}'
}
# The cluster has no DNS if all pods of CoreDNS leave the same node: one of them moves before the others.
keep_dns() {
  left=60
  while :; do
    if pods=$(dns_pods); then
      here=$(printf '%s\n' "$pods" | awk -v node="$node" '$1 == node && $2 == "True" { print $3 }')
      elsewhere=$(printf '%s\n' "$pods" | awk -v node="$node" 'NF && $1 != node && $2 == "True"')
      # A single pod cannot move without an interruption.
      if [ -n "$elsewhere" ] || [ "$(printf '%s\n' "$pods" | grep -c ' ')" -lt 2 ]; then return; fi
      if [ "$(printf '%s\n' "$here" | grep -c .)" -ge 2 ]; then
        kubectl -n kube-system delete pod "$(printf '%s\n' "$here" | sed 1q)" --wait=false >/dev/null || :
      fi
    fi
    left=$((left - 1))
    if [ "$left" -le 0 ]; then
      {
        echo "no pod of CoreDNS is ready on another node than $node"
        if uncordon 2>/dev/null; then echo "the scheduler may use $node again"; fi
        echo "hint: kubectl -n kube-system get pods -l k8s-app=kube-dns shows why; then run the same command again"
      } >&2
      exit 1
    fi
    sleep 2
  done
}
drain() {
  cordon
  keep_dns
  said=$(kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data "--timeout=${seconds}s" "$@" 2>&1) && return
  {
    echo "the pods of $node did not leave it within $seconds seconds"
    explain "$said"
    if uncordon 2>/dev/null; then echo "the scheduler may use $node again"; fi
    case $said in
    *"use --force to override"*)
      echo "hint: nothing creates the pods without a controller again: delete them, or permit it with --drain-force"
      ;;
    *)
      echo "hint: add replicas or change the budget, then run the same command again; --drain-disable-eviction deletes the pods" \
        "without regard to budgets"
      ;;
    esac
  } >&2
  exit 1
}
# Prints the persistent volumes of pods of DaemonSets that are on the node: they stay there, and keep theirs.
kept() (
  claims=$(kubectl get pods -A --field-selector "spec.nodeName=$node" \
    -o 'jsonpath={range .items[*]}{.metadata.namespace}{"\t"}{.metadata.name}{"\t"}{.spec.volumes[*].persistentVolumeClaim.claimName}{"\t"}{.spec.volumes[?(@.ephemeral)].name}{"\t"}{.metadata.ownerReferences[*].kind}{"\n"}{end}') &&
    volumes=$(kubectl get persistentvolumes \
      -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.spec.claimRef.namespace}{"\t"}{.spec.claimRef.name}{"\n"}{end}') || exit
  printf '%s\n--\n%s\n' "$claims" "$volumes" | awk -F '\t' '
    $0 == "--" { listed = 1; next }
    listed { if (($2 "/" $3) in claimed) print $1; next }
    $5 == "DaemonSet" {
      n = split($3, names, " ")
      for (i = 1; i <= n; i++) claimed[$1 "/" names[i]] = 1
      n = split($4, names, " ")
      for (i = 1; i <= n; i++) claimed[$1 "/" $2 "-" names[i]] = 1
    }'
)
# Prints the attachments of the node, apart from those of pods that stay. One without a persistent volume has an inline volume.
attached() (
  found=$(kubectl get volumeattachments \
    -o 'jsonpath={range .items[*]}{.spec.nodeName}{" "}{.metadata.name}{" "}{.spec.source.persistentVolumeName}{"\n"}{end}') || exit
  found=$(printf '%s\n' "$found" | awk -v node="$node" '$1 == node { print $2, $3 }')
  [ -n "$found" ] || exit 0
  staying=$(kept) || exit
  printf '%s\n' "$found" | awk -v staying=" $(printf '%s' "$staying" | tr '\n' ' ') " '$2 == "" || !index(staying, " " $2 " ") { print $1 }'
)
# Waits until no volume is attached to the node any more. Volumes that are still attached when the kubelet stops or the node is
# deleted stay attached for minutes, so that no other node can use them.
detached() {
  left=60 deadline=$(($(date +%s) + 120))
  until volumes=$(attached) && [ -z "$volumes" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] && [ "$(date +%s)" -lt "$deadline" ] || return 1
    sleep 2
  done
}
return_node() {
  left=150
  until is_current 2>/dev/null && is_ready 2>/dev/null; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || {
      echo "$node is not Ready with a kubelet of version $version" >&2
      echo "hint: read journalctl -u kubelet on $node, then run the same command again" >&2
      exit 1
    }
    sleep 2
  done
  uncordon
}
case $verb in
check)
  found=$(field '{.status.nodeInfo.kubeletVersion}') || exit 75
  [ "$found" = "v$version" ] || { echo "its kubelet has the version $found"; exit 1; }
  [ -n "$runtime" ] || exit 0
  found=$(field '{.status.nodeInfo.containerRuntimeVersion}') || exit 75
  case $found in "$runtime".*) ;; *) echo "its pods run with $found"; exit 1 ;; esac
  ;;
drain)
  drain "$@"
  detached || :
  ;;
left)
  found=$(patiently kubectl get node "$node" --ignore-not-found -o name) || exit 75
  [ -z "$found" ] || { echo "the cluster has the node"; exit 1; }
  ;;
leave)
  ready=$(field '{.status.conditions[?(@.type=="Ready")].status}') || exit 1
  [ "$ready" = True ] || set -- "$@" --skip-wait-for-delete-timeout=1
  drain "$@"
  # A kubelet that has ended detaches nothing, and one that is not ready may. The reset of the host and the end of its node do.
  [ "$ready" != Unknown ] || exit 0
  detached || [ "$ready" != True ] || {
    {
      echo "volumes are still attached to $node: $(echo "$volumes" | tr '\n' ' ')"
      echo "hint: read the log of the CSI driver of these volumes, then run the same command again"
    } >&2
    exit 1
  }
  ;;
returned) [ ! -e "$mark" ] || { echo "kubexm has cordoned $node"; exit 1; } ;;
return) return_node ;;
*) echo "usage: drain.sh check|drain|left|leave|returned|return" >&2; exit 2 ;;
esac
