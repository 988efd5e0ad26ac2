#!/bin/sh -eu
# Stops programs of a control plane, or starts them again: static pods of kubeadm, or units. Static pods wait in a
# directory of kubexm meanwhile. `restart` restarts units once in a restore.
# Arguments: `stopped`, `stop`, `started`, `start`, `restarted` or `restart`; the ID of the restore; `kubeadm` or `systemd`;
# names of programs.
verb=$1 id=$2 kind=$3
shift 3
folder=/var/lib/kubexm/restore/$id
export PATH="/usr/local/bin:$PATH"
pods=/etc/kubernetes/manifests
# A restore of another backup can continue where one has stopped programs.
kept=/var/lib/kubexm/restore/manifests
# Prints the running containers of a program.
# Arguments: name.
containers() {
  crictl ps -q --state running --label io.kubernetes.pod.namespace=kube-system --name "^$1\$" || { echo "the container runtime does not answer" >&2; exit 1; }
}
is_active() {
  case $(systemctl is-active "$1.service") in active | activating | reloading | deactivating) ;; *) return 1 ;; esac
}
# Prints the programs that still run.
running() {
  for name in "$@"; do
    case $kind in
    systemd) ! is_active "$name" || echo "$name" ;;
    *)
      found=$(containers "$name")
      [ -z "$found" ] && [ ! -e "$pods/$name.yaml" ] || echo "$name"
      ;;
    esac
  done
}
stop_pods() {
  umask 077
  mkdir -p "$kept"
  for name in "$@"; do
    [ -e "$pods/$name.yaml" ] || continue
    cp "$pods/$name.yaml" "$kept/.$name.new"
    replace "$kept/.$name.new" "$kept/$name.yaml"
    rm "$pods/$name.yaml"
  done
  round=0
  until found=$(running "$@") && [ -z "$found" ]; do
    round=$((round + 1))
    [ "$round" -lt 90 ] || { echo "does not stop: $(echo "$found" | paste -sd' ')" >&2; exit 1; }
    # The kubelet stops them, unless it does not run.
    if [ "$round" -gt 15 ] || ! systemctl is-active --quiet kubelet.service; then
      for name in $found; do
        for container in $(containers "$name"); do crictl stop --timeout 30 "$container" >/dev/null || :; done
      done
    fi
    sleep 2
  done
}
start_pods() {
  for name in "$@"; do
    [ ! -e "$pods/$name.yaml" ] || continue
    [ -e "$kept/$name.yaml" ] || {
      printf '%s\n' "neither $pods nor $kept has $name.yaml" "hint: copy the file of the backup to $pods" >&2
      exit 1
    }
    umask 077
    # The kubelet ignores names that begin with a dot.
    cp "$kept/$name.yaml" "$pods/.$name.kubexm-new"
    replace "$pods/.$name.kubexm-new" "$pods/$name.yaml"
  done
  systemctl start kubelet.service
}
case $verb in
stopped)
  found=$(running "$@")
  [ -z "$found" ] || { echo "runs: $(echo "$found" | paste -sd' ')"; exit 1; }
  ;;
stop)
  case $kind in
  systemd) for name in "$@"; do systemctl stop "$name.service"; done ;;
  *) stop_pods "$@" ;;
  esac
  ;;
started)
  for name in "$@"; do
    case $kind in
    systemd) systemctl is-active --quiet "$name.service" || { echo "$name does not run"; exit 1; } ;;
    *) [ -e "$pods/$name.yaml" ] || { echo "$name has no static pod"; exit 1; } ;;
    esac
  done
  ;;
start)
  case $kind in
  systemd)
    for name in "$@"; do
      systemctl reset-failed "$name.service" 2>/dev/null || :
      # A member waits for the others.
      systemctl start --no-block "$name.service"
    done
    ;;
  *) start_pods "$@" ;;
  esac
  ;;
restarted)
  [ -e "$folder/restarted" ] || { echo "has not restarted"; exit 1; }
  # A later step stops the kubelet for a moment, and can be interrupted.
  for name in "$@"; do systemctl is-active --quiet "$name.service" || { echo "$name does not run"; exit 1; }; done
  ;;
restart)
  umask 077
  mkdir -p "$folder"
  for name in "$@"; do systemctl restart "$name.service"; done
  : >"$folder/restarted"
  ;;
*) echo "usage: control-plane.sh stopped|stop|started|start|restarted|restart" >&2; exit 2 ;;
esac
