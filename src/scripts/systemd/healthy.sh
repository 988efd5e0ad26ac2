#!/bin/sh -eu
# Checks whether units run without restarts and programs answer their health check, or prints the last lines of the logs of
# those that do not.
# Arguments: `check` or `diagnose`; units, and programs as `NAME=URL`, where the URL ends with the path of the check.
verb=$1
shift
export PATH="/usr/local/bin:$PATH"
units=
for one in "$@"; do
  case $one in *=*) ;; *) units="$units $one" ;; esac
done
# Prints a line for each unit: name, state, substate, time of the last start and number of restarts.
states() {
  # shellcheck disable=SC2086 # names of units have no blanks
  systemctl show -p Id -p ActiveState -p SubState -p ActiveEnterTimestampMonotonic -p NRestarts $units |
    awk 'BEGIN { RS = ""; FS = "\n" } {
      split("", of)
      for (i = 1; i <= NF; i++) { at = index($i, "="); of[substr($i, 1, at - 1)] = substr($i, at + 1) }
      since = of["ActiveEnterTimestampMonotonic"]; restarts = of["NRestarts"]
      print of["Id"], of["ActiveState"], of["SubState"], since == "" ? 0 : since, restarts == "" ? 0 : restarts
    }'
}
# Prints a line `NAME: REASON` for each unit that does not run, or that started again in the last two seconds.
unit_faults() {
  [ -n "$units" ] || return 0
  earlier=$(states)
  sleep 2
  states | while read -r unit active sub since restarts; do
    if [ "$active" != active ]; then
      echo "$unit: is $active ($sub), restarts: $restarts"
      continue
    fi
    case $earlier in
    *"$unit $active $sub $since $restarts"*) ;;
    *) echo "$unit: ends soon after each start, restarts: $restarts" ;;
    esac
  done
}
# Prints a line `NAME: REASON` for each program that does not answer. kubectl asks for a user without a client
# certificate. A connection to loopback needs no verification of the server.
program_faults() {
  for one in "$@"; do
    case $one in *=*) ;; *) continue ;; esac
    name=${one%%=*} url=${one#*=}
    config=/dev/null
    case $url in https:*) config=/etc/kubernetes/admin.conf ;; esac
    said=$(kubectl --kubeconfig "$config" --cache-dir /run/kubexm/kubectl --server "${url%/*}" \
      --insecure-skip-tls-verify --request-timeout=5s get --raw "/${url##*/}" 2>&1 </dev/null) ||
      echo "$name: does not answer at $url: $(printf '%s\n' "$said" | tail -n 1)"
  done
}
found=$(unit_faults; program_faults "$@")
case $verb in
check)
  [ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
  ;;
diagnose)
  printf '%s\n' "$found" | while IFS=: read -r name reason; do
    [ -n "$name" ] || continue
    printf '%s:%s\n' "$name" "$reason"
    if systemctl cat "${name%.service}.service" >/dev/null 2>&1; then
      journalctl -u "$name" -n 10 --no-pager -o cat || :
    else
      tail -q -n 10 /var/log/pods/kube-system_"$name"-*/*/*.log 2>/dev/null || :
    fi
  done
  ;;
*) echo "usage: healthy.sh check|diagnose" >&2; exit 2 ;;
esac
