# shellcheck shell=bash disable=SC2034,SC2154 # `tests/e2e-upgrade` sets and uses the variables
# Rollbacks of upgrades, as parts of `tests/e2e-upgrade`. Sourced.

rolls_back() { # STATUS PATTERN OPTIONS…: with the bundle `former`
  local ended=0
  roll_back "${@:3}" >"$work/rollback.log" 2>&1 </dev/null || ended=$?
  cat "$work/rollback.log"
  [ "$ended" = "$1" ] && grep -q -e "$2" "$work/rollback.log"
}
roll_back() { with_cluster upgrade --rollback --bundle "$former" "${trust[@]}" --drain-timeout 3m "$@"; }
# Prints the version of every program on every host.
program_versions() {
  local host
  for host in "${all[@]}"; do
    on "$host" sh -s <"$top/src/scripts/kubernetes/versions.sh" | sed "s/^/$host /"
  done
}
programs_at() { # VERSION
  program_versions >"$work/programs"
  cat "$work/programs"
  [ "$(grep -c ' \(program\|pod\|running\) ' "$work/programs")" -gt 3 ] &&
    ! grep ' \(program\|pod\|running\) ' "$work/programs" | grep -vE "v${1//./\\.}(@.*)?\"?\$" &&
    ! grep ' cordoned ' "$work/programs"
}
object() { kubectl create configmap "$1" --from-literal=name="$1"; }
has_object() { kubectl get configmap "$1" -o 'jsonpath={.data.name}' | grep -x "$1"; }
is_lost() { ! has_object "$1"; }
new_pods_run() {
  kubectl rollout restart deployment/web
  kubectl rollout status deployment/web --timeout=180s
}
as_before_the_upgrade() { # WHAT…: objects that must exist
  local each_object
  check "every program has the version $before again" programs_at "$before"
  check "the API server reports it" server_at "$before"
  check "all nodes are Ready with it" until_true 60 ready "${#all[@]}"
  check "every kubelet reports it" all_at "$before" "$count"
  check "the scheduler uses every node" none_cordoned
  for each_object in "$@"; do check "the object '$each_object' exists" has_object "$each_object"; done
  check "new pods run" new_pods_run
  check "the record of the upgrade is removed" test ! -e "$state/upgrade.json"
}
has_archive_of() { grep -F "\"$1\":" "$state/upgrade.json"; } # VERSION: its hop has begun
no_server_answers() { ! kubectl get --raw /readyz; }

rollback_kubeadm() {
  part "kubeadm: rollback after the first control plane"
  check "a rollback without an upgrade is refused" rolls_back 2 "no record of an upgrade that has begun"
  object before
  check "kill -9 after kubeadm has upgraded the first control plane" killed_when is_marked node1 "$K8S_MINOR_BEFORE"
  object during
  former=$new
  check "a bundle without the former version is refused" rolls_back 2 "the bundle has no Kubernetes $before, to which"
  former=$work/minor.tar.zst
  check "a dry run states that nothing is lost" rolls_back 0 "^nothing is lost: " --dry-run
  cat "$work/rollback.log"
  check "rollback in place" rolls_back 0 "^set kubernetes.version to $before in "
  tail -n 3 "$work/rollback.log"
  as_before_the_upgrade before during
  took "rollback after the first control plane"

  part "kubeadm: rollback after the second control plane, killed and continued"
  check "kill -9 after kubeadm has upgraded the second control plane" killed_when is_marked node2 "$K8S_MINOR_BEFORE"
  set_version "$before"
  run=(roll_back)
  check "kill -9 of the rollback when the first control plane is back" killed_when is_marked node1 "$before"
  run=(upgrade)
  set_version "$version"
  check "an upgrade is refused meanwhile" upgrade_ends 2 "a rollback to Kubernetes $before has begun"
  set_version "$before"
  check "the rollback continues" rolls_back 0 "again, and nothing is lost"
  as_before_the_upgrade before during
  took "rollback after the second control plane"

  part "kubeadm: rollback after all control planes, with the snapshot"
  set_version "$version"
  check "kill -9 when the second hop has begun" killed_when has_archive_of "$version"
  check "all API servers have the version between" until_true 60 server_at "$K8S_MINOR_BEFORE"
  object late
  set_version "$before"
  snapshot_rollback before during
  took "rollback with the snapshot"

  part "kubeadm: the same upgrade"
  set_version "$version"
  check "the same upgrade succeeds" upgrade_ends 0 "the cluster runs Kubernetes $version"
  check "every program has the new version" programs_at "$version"
  check "the object 'before' exists" has_object before
  took "upgrade"
}
# Keys of CAs are encrypted, and so is the archive with the snapshot.
encrypt_keys() {
  [ -e "$work/identity" ] || new_identities "$work/identity"
  export KUBEXM_CA_IDENTITY=$work/identity
}
archive_is_encrypted() {
  local archive
  archive=$(sed -n "s/.*\"$version\": \"\(.*\)\".*/\1/p" "$state/upgrade.json")
  ls "$archive" "$archive/hosts"
  [ -s "$archive/etcd-snapshot.db.age" ] && [ -s "$archive/hosts/node1.tar.age" ] &&
    ! grep -rl "PRIVATE KEY" "$archive"
}
refused_without_identity() {
  (unset KUBEXM_CA_IDENTITY && rolls_back 2 "archive.key.age is encrypted" --yes)
}
snapshot_rollback() { # OBJECT…: that exist afterwards
  check "a dry run states what is lost" rolls_back 0 "lost: everything that the API servers stored after that time" --dry-run
  cat "$work/rollback.log"
  check "a rollback that is not confirmed changes nothing" rolls_back 2 "the rollback was not confirmed; nothing was touched"
  run=(roll_back --yes)
  check "kill -9 of the rollback when no API server answers" killed_when no_server_answers
  run=(upgrade)
  check "the rollback continues" rolls_back 0 "again, and its objects are those of " --yes
  tail -n 3 "$work/rollback.log"
  check "the object 'late', of the time after the snapshot, is lost" is_lost late
  as_before_the_upgrade "$@"
}
rollback_systemd() {
  part "systemd: rollback of a minor version, with the snapshot"
  object before
  check "kill -9 while the first worker is drained" killed_when is_cordoned node2
  object late
  set_version "$before"
  former=$new
  check "the archive has no key in clear text" archive_is_encrypted
  check "a rollback without what opens the archive changes nothing" refused_without_identity
  snapshot_rollback before
  took "rollback with the snapshot"

  part "systemd: the same upgrade, with both workers at the same time"
  # With the budget, the pods of two nodes at the same time have no other place.
  kubectl delete deployment,poddisruptionbudget web
  set_version "$version"
  check "the same upgrade succeeds" upgrade_while_counted --max-unavailable 2
  check "two workers were drained at the same time" [ "$(sort -n "$work/cordoned" | tail -n 1)" = 2 ]
  check "every program has the new version" programs_at "$version"
  took "upgrade"
}
upgrade_while_counted() { # OPTIONS…: an upgrade while the nodes without new pods are counted
  local counter ended=0
  : >"$work/cordoned"
  while sleep 1; do kubectl get nodes 2>/dev/null | grep -c SchedulingDisabled >>"$work/cordoned" || true; done &
  counter=$!
  upgrade_ends 0 "the cluster runs Kubernetes $version" "$@" || ended=$?
  kill "$counter"
  return "$ended"
}
