#!/bin/sh -eu
# Ends all pods of this node before a containerd of another major or minor version replaces its own, also static pods and those
# of DaemonSets: shims and sandboxes of the former containerd would go on to run with the new one. The kubelet is stopped
# until `start`.
# Arguments: `ended` or `end`, and the version of the new containerd; or the name of the node after `started` or `start`, or
# after `resume`, which starts what a run that was killed has left stopped, and prints `started` if there was something.
verb=$1
export PATH="/usr/local/bin:$PATH"
# Exists while the kubelet is stopped by this script.
mark=/var/lib/kubexm/pods-ended
timer=kubexm-pods
# Held while pods end or start: a command goes on to run on the host when its kubexm is killed.
lock=/run/kubexm/pods.lock
# Starts containerd and the kubelet if no run follows a run that was killed, so that the lease of its lock ends.
# shellcheck disable=SC2016 # the text is a script
watch='exec 9>"$3"
flock -n 9 || exit 0
[ -e "$1" ] || { systemctl stop "$2.timer"; exit; }
end=$(sed -n 1p /run/kubexm.lock 2>/dev/null || :)
case $end in "" | *[!0-9]*) end=0 ;; esac
[ "$end" -le "$(cut -d. -f1 /proc/uptime)" ] || exit 0
systemctl start containerd.service kubelet.service
rm -f "$1"
systemctl stop "$2.timer"'
# Prints the major and minor version in what a program says about itself, as in `2.2`.
minor() { sed -n 's/^.*[ v]\([0-9]\{1,\}\.[0-9]\{1,\}\)\.[0-9].*$/\1/p' | sed 1q; }
# Prints that of the containerd that runs; nothing if none runs.
running() {
  ! systemctl is-active --quiet containerd.service || crictl version 2>/dev/null | sed -n 's/^RuntimeVersion:/&/p' | minor
}
place() { stat -Lc %d:%i "$1" 2>/dev/null || :; }
# Prints the folders of the shims of pods in /proc. Hosts in containers of this host have another root.
shims() {
  root=$(place /)
  [ "$(place /proc/1/root/)" = "$root" ] || return 0
  for process in /proc/[0-9]*; do
    case $(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || :) in
    "/usr/local/bin/containerd-shim-runc-v2 -namespace k8s.io "*)
      [ "$(place "$process/root/")" != "$root" ] || echo "$process"
      ;;
    esac
  done
}
# Whether a shim has another version than the new containerd. A program that was replaced can still be run by its process.
has_other_shim() {
  same=
  for process in $(shims); do
    file=$(place "$process/exe")
    case " $same " in *" $file "*) continue ;; esac
    found=$("$process/exe" -v 2>/dev/null | minor)
    [ "$found" = "$1" ] || [ ! -e "$process" ] || return 0
    same="$same $file"
  done
  return 1
}
# Prints the pods in the network of the host, or those in the network of pods.
# Arguments: `NODE` or `POD`.
pods_in() {
  for pod in $(crictl pods -q); do
    network=$(crictl inspectp -o go-template --template '{{.status.linux.namespaces.options.network}}' "$pod" 2>/dev/null || :)
    case $1-$network in NODE-NODE) echo "$pod" ;; POD-NODE) ;; POD-*) echo "$pod" ;; esac
  done
}
# Lets containers end at the same time, each within half a minute.
stop_containers() { xargs -r -n 1 -P 16 crictl stop --timeout 30 >/dev/null 2>&1 || :; }
# Ends pods, and prints the last errors of those that do not end.
end_pods() {
  [ $# -gt 0 ] || return 0
  for pod; do crictl ps -q --state running --pod "$pod" 2>/dev/null || :; done | stop_containers
  tries=3
  until said=$(crictl rmp -f "$@" 2>&1); do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { printf '%s\n' "$said" | grep -v '^Removed' | tail -n 5; return 1; }
    sleep 2
    # shellcheck disable=SC2046 # one word for each pod
    set -- $(for pod; do crictl pods -q --id "$pod" 2>/dev/null || :; done)
    [ $# -gt 0 ] || return 0
  done
}
api() {
  kubectl --kubeconfig "/etc/kubernetes/$1.conf" --cache-dir /run/kubexm/kubectl --request-timeout=10s "$2" "$3" "$4" "$5" "$6" \
    2>/dev/null
}
# Whether static pods answer: the API server of this host with its etcd, or the load balancer by which the kubelet connects.
# The node is Ready if its kubelet has said so since it started: what the former one said stays for most of a minute.
# Arguments: name of the node; time when the kubelet started.
answers() {
  manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  if [ -e "$manifest" ]; then
    port=$(sed -n 's/^.*--secure-port=\([0-9]*\).*$/\1/p' "$manifest" | sed 1q)
    api admin --server "https://127.0.0.1:${port:-6443}" --tls-server-name=kubernetes get --raw=/readyz >/dev/null || return 1
  fi
  found=$(api kubelet get node "$1" -o 'jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}') ||
    return 1
  [ "${found%% *}" = True ] && [ "$(printf '%s\n' "$2" "${found#* }" | sort | sed 1q)" = "$2" ]
}
# Starts the kubelet, and gives the static pods some minutes: kubeadm needs them. Later steps report those that do not answer.
# Arguments: name of the node; nothing not to wait.
start_kubelet() {
  systemctl start kubelet.service
  # It may run already. Microseconds since the start of the machine.
  began=$(systemctl show -p ActiveEnterTimestampMonotonic kubelet.service | sed -n 's/^.*=//p')
  began=$(($(date +%s) - $(cut -d. -f1 /proc/uptime) + ${began:-0} / 1000000))
  began=$(date -u -d "@$began" +%Y-%m-%dT%H:%M:%SZ)
  until=$(($(date +%s) + 240))
  until [ -z "${1-}" ] || answers "$1" "$began"; do
    [ "$(date +%s)" -lt "$until" ] || break
    sleep 2
  done
  systemctl stop "$timer.timer" 2>/dev/null || :
  rm -f "$mark"
  sync "$(dirname "$mark")" 2>/dev/null || sync
}
# Ends the script. The kubelet must not stay stopped.
# Arguments: what the runtime said.
refuse() {
  {
    echo "the pods of this host do not end, so its containerd cannot be replaced"
    [ -z "$1" ] || printf '%s\n' "$1"
    if start_kubelet; then echo "the kubelet runs again"; fi
    echo "hint: crictl pods lists them; correct the cause, then run the same command again"
  } >&2
  exit 1
}
end() {
  : >"$mark"
  sync "$mark" "$(dirname "$mark")" 2>/dev/null || sync
  # Those of earlier runs.
  systemctl stop kubexm-kubelet-start.timer "$timer.timer" 2>/dev/null || :
  systemd-run --quiet --collect --unit="$timer" '--on-calendar=*:*:00/20' --timer-property=AccuracySec=1s \
    sh -euc "$watch" kubexm "$mark" "$timer" "$lock"
  systemctl stop kubelet.service
  # A run that was killed may have stopped it before its shims ended.
  systemctl is-active --quiet containerd.service || systemctl start containerd.service || :
  if systemctl is-active --quiet containerd.service; then
    # Network plugins need the pods of the host's network, and clients need the API server, until the others have ended.
    # shellcheck disable=SC2046 # one word for each pod
    said=$(end_pods $(pods_in POD)) || refuse "$said"
    # kube-vip gives its address away before its API server ends, and the API server answers until load balancers have
    # noticed.
    for name in kube-vip kube-apiserver etcd; do
      crictl ps --state running --label io.kubernetes.pod.namespace=kube-system --name "^$name\$" -q 2>/dev/null | stop_containers
    done
    # shellcheck disable=SC2046 # one word for each pod
    said=$(end_pods $(pods_in NODE)) || refuse "$said"
    found=$(crictl pods -q) || refuse "$found"
    [ -z "$found" ] || refuse "$found"
  fi
  left=10
  while [ -n "$(shims)" ] && [ "$left" -gt 0 ]; do
    left=$((left - 1))
    sleep 1
  done
  # The runtime does not know these any more. Their containers are their children.
  for process in $(shims); do
    for child in $(grep -lsx "PPid:[[:blank:]]*${process#/proc/}" /proc/[0-9]*/status || :); do
      child=${child#/proc/}
      kill -KILL "${child%/status}" 2>/dev/null || :
    done
    kill -KILL "${process#/proc/}" 2>/dev/null || :
  done
  systemctl stop containerd.service
}
# Waits until no earlier run ends or starts pods.
alone() {
  install -d -m 700 /run/kubexm
  exec 9>"$lock"
  flock -w 600 9 || { echo "the pods of an earlier run do not end within 10 minutes" >&2; exit 1; }
}
case $verb in end | start | resume) alone ;; esac
case $verb in
ended)
  new=$(echo "v$2" | minor)
  if systemctl is-active --quiet containerd.service; then
    now=$(running)
    [ -n "$now" ] || { echo "containerd does not tell its version" >&2; exit 75; }
    [ "$now" = "$new" ] || { echo "its pods run with containerd $now"; exit 1; }
  fi
  ! has_other_shim "$new" || { echo "pods of another containerd run"; exit 1; }
  ;;
end) end ;;
started) [ ! -e "$mark" ] || { echo "the kubelet is stopped"; exit 1; } ;;
start) start_kubelet "$2" ;;
resume)
  [ -e "$mark" ] || exit 0
  # Its own turn in the plan repairs a containerd that does not start.
  systemctl start containerd.service || exit 0
  # The next run asks the API server, which may be the only one.
  start_kubelet "$2"
  echo started
  ;;
*) echo "usage: containerd-pods.sh ended|end|started|start|resume" >&2; exit 2 ;;
esac
