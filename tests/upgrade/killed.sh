# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Upgrades and rollbacks that are killed. Sourced. The caller sets `run` to the command, and defines `kubectl`.

killed_when() { # COMMAND…: `run`, an upgrade or a rollback, is killed as soon as the command succeeds
  local victim
  "${run[@]}" >"$work/killed.log" 2>&1 &
  victim=$!
  until "$@" >/dev/null 2>&1; do
    kill -0 "$victim" 2>/dev/null || { cat "$work/killed.log"; return 1; }
    sleep 0.5
  done
  kill -KILL "$(pgrep -P "$victim" kubexm || echo "$victim")"
  wait "$victim" && return 1
  cat "$work/killed.log"
  ! grep 'the cluster runs Kubernetes' "$work/killed.log"
}
is_cordoned() { kubectl get node "$1" | grep SchedulingDisabled; } # HOST
