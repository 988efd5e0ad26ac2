#!/bin/sh -eu
# Runs tests of Kubernetes on this control plane, in a transient systemd unit that outlives the connection.
#   start   starts a run; joins a run with the same arguments, and ends any other one
#   look    prints `state running|ended`, the exit status of an ended run as `status N`, the number of tests of the
#           run as `total N`, and those that have ended and failed as `done N` and `failed N`
#   last    prints the last lines of the log
#   read    prints a file of the run, compressed by gzip
#   remove  ends the run, and deletes the namespaces of its tests, the programs and the files
#   clear   as remove, without the namespaces: the cluster is being reset
# For `start`:
#   run          name of the run
#   processes    number of processes
#   seconds      the limit
#   labels       the filter of labels
#   focus, skip  expressions of names to run and to skip, if any
# For `read`: `file`, its path below the directory.
: "${verb=}" "${run=}" "${processes=}" "${seconds=}" "${labels=}" "${focus=}" "${skip=}" "${file=}"
dir=/var/lib/kubexm/conformance unit=kubexm-conformance.service
state() { systemctl show -p "$1" --value "$unit"; }
running() { case $(state ActiveState)/$(state SubState) in active/running | activating/* | deactivating/*) ;; *) return 1 ;; esac; }
count() { grep -c "$1" "$dir/log" || [ $? = 1 ]; }
start() {
  arguments="$run $processes $seconds $labels $focus $skip"
  if running && [ "$(cat "$dir/run")" = "$arguments" ]; then return; fi
  end
  report=$dir/report-$run
  rm -rf "$report"
  install -d -m 700 "$dir" "$report"
  printf '%s\n' "$arguments" >"$dir/run"
  : >"$dir/log"
  chmod 600 "$dir/log"
  set -- -v --no-color "--procs=$processes" "--timeout=${seconds}s" "--label-filter=$labels"
  [ -z "$focus" ] || set -- "$@" "--focus=$focus"
  [ -z "$skip" ] || set -- "$@" "--skip=$skip"
  systemd-run --quiet --unit="$unit" --remain-after-exit --description="Conformance tests of Kubernetes" \
    --property="RuntimeMaxSec=$((seconds + 600))" --property=KillMode=control-group --property=TimeoutStopSec=60 --property="WorkingDirectory=$dir" \
    --property="StandardOutput=file:$dir/log" --property="StandardError=file:$dir/log" \
    --setenv="HOME=$dir" --setenv="TMPDIR=$dir" \
    "$dir/ginkgo" "$@" "$dir/e2e.test" -- --kubeconfig=/etc/kubernetes/admin.conf --provider=local \
    --kubectl-path=/usr/local/bin/kubectl "--report-dir=$report" --disable-log-dump
}
look() {
  if running; then echo "state running"; else
    echo "state ended"
    echo "status $(state ExecMainStatus)"
  fi
  # ginkgo prints a bullet for each test that ended, and the words after it.
  echo "total $(sed -n 's/^Will run \([0-9]*\) of [0-9]* specs.*/\1/p' "$dir/log" | head -n 1)"
  echo "done $(count '^• ')"
  echo "failed $(count '^• \[\(FAILED\|PANICKED\|TIMEDOUT\|INTERRUPTED\)\]')"
}
end() {
  systemctl stop "$unit" 2>/dev/null || true
  systemctl reset-failed "$unit" 2>/dev/null || true
}
clear() { [ ! -d "$dir" ] || { end && rm -rf /var/lib/kubexm/conformance; }; }
case $verb in
start) start ;;
look) look ;;
last) tail -n 40 "$dir/log" ;;
read) gzip -c "$dir/$file" ;;
remove)
  clear
  kubectl delete namespaces -l e2e-framework --wait=false >/dev/null || true
  ;;
clear) clear ;;
*) echo "usage: conformance.sh start|look|last|read|remove|clear" >&2; exit 2 ;;
esac
