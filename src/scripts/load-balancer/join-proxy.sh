#!/bin/sh -eu
# Runs systemd-socket-proxyd on the endpoint until the kubelet runs the load balancer's pod.
#   check  checks whether it listens, or whether the pod's manifest exists
#   start  starts it
#   gone   checks whether it has ended
#   stop   stops it
# For `check` and `start`: `address` to listen on, address of an API `server`, path of the pod's `manifest`.
: "${verb=}" "${address=}" "${server=}" "${manifest=}"
case $verb in
check)
  [ ! -e "$manifest" ] || exit 0
  systemctl is-active --quiet kubexm-join.socket || { echo "nothing listens at $address yet"; exit 1; }
  ;;
start)
  for program in /usr/lib/systemd/systemd-socket-proxyd /lib/systemd/systemd-socket-proxyd; do
    [ ! -x "$program" ] || break
  done
  [ -x "$program" ] ||
    { printf '%s\n' "systemd-socket-proxyd is missing, which is a part of systemd" \
      "hint: set run: systemd for the load balancer" >&2; exit 1; }
  systemctl reset-failed kubexm-join.socket kubexm-join.service 2>/dev/null || :
  systemd-run --quiet --unit=kubexm-join --socket-property=ListenStream="$address" "$program" "$server"
  ;;
gone)
  for unit in kubexm-join.socket kubexm-join.service; do
    ! systemctl is-active --quiet "$unit" || { echo "$unit still runs"; exit 1; }
  done
  ;;
stop)
  systemctl stop kubexm-join.socket kubexm-join.service 2>/dev/null || :
  systemctl reset-failed kubexm-join.socket kubexm-join.service 2>/dev/null || :
  ;;
*) echo "usage: join-proxy.sh check|start|gone|stop" >&2; exit 2 ;;
esac
