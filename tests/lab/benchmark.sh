# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Runs kube-bench on the hosts of a cluster and on this machine, and compares its results with a page of the book.
# Sourced after stage.sh, with a function `kubectl`.

benchmark=cis-1.10
# The page that explains each WARN.
# shellcheck disable=SC2034 # of the caller
benchmark_page=$top/docs/src/howto/cis.md

# kube-bench's YAML files, from the cache of Go's modules.
benchmark_files() {
  (cd "$here/lab/upstream/go/kube-bench" && go mod download github.com/aquasecurity/kube-bench &&
    go list -m -f '{{.Dir}}/cfg' github.com/aquasecurity/kube-bench)
}
# benchmark_stage TYPE: a directory with the program and its files in `$work/kube-bench`. For systemd units, a file of
# the lab names the paths of kubexm.
benchmark_stage() {
  local stage=$work/kube-bench files
  files=$(benchmark_files)
  rm -rf "$stage"
  mkdir -p "$stage/cfg"
  cp "$programs/kube-bench-$KUBE_BENCH/kube-bench" "$stage/"
  cp -r "$files/config.yaml" "$files/$benchmark" "$stage/cfg/"
  chmod -R u+w "$stage"
  [ "$1" != systemd ] || cp "$here/lab/benchmark-systemd.yaml" "$stage/cfg/$benchmark/config.yaml"
}
# The command line for these targets, to run in the directory.
benchmark_command=(./kube-bench run --benchmark "$benchmark" --config-dir ./cfg --config ./cfg/config.yaml --json --targets)
benchmark_on() { # HOST TARGETS: writes the results to `$work/benchmark/HOST.json`
  local dir=/run/kube-bench status=0
  on "$1" mkdir -p "$dir"
  tar -C "$work/kube-bench" -cf - . | on "$1" tar -C "$dir" -xf -
  on "$1" sh -c "cd $dir && ${benchmark_command[*]} $2" >"$work/benchmark/$1.json" || status=$?
  on "$1" rm -rf "$dir"
  return $status
}
# The checks of section 5 only need the API. They call kubectl and jq from a shell with `[[`, which kube-bench's image
# has as /bin/sh. dash would report every object as compliant.
benchmark_policies() {
  local bash
  bash=$(command -v bash)
  # shellcheck disable=SC2016 # expands in the inner shell
  (cd "$work/kube-bench" && KUBECONFIG=$state/admin.conf PATH=$programs/kubernetes-$version:$PATH \
    unshare --mount --propagation private sh -c 'mount --bind "$1" /bin/sh; shift; exec "$@"' sh "$bash" \
    "${benchmark_command[@]}" policies) >"$work/benchmark/cluster.json"
}
# run_benchmark TYPE CONTROL-PLANE WORKER…
run_benchmark() {
  local type=$1 control_plane=$2 worker
  shift 2
  rm -rf "$work/benchmark"
  mkdir "$work/benchmark"
  benchmark_stage "$type"
  must "kube-bench runs on $control_plane" benchmark_on "$control_plane" master,etcd,controlplane,node
  for worker; do
    must "kube-bench runs on $worker" benchmark_on "$worker" node
  done
  must "kube-bench checks the policies of the cluster" benchmark_policies
  benchmark_results table
}
benchmark_results() { # COMMAND ARGUMENTS…
  "$here/lab/benchmark-results" "$@" "$work"/benchmark/*.json
}
