# shellcheck shell=bash disable=SC2034,SC2154 # `tests/e2e-upgrade` sets and uses the variables
# A drain that a PodDisruptionBudget stops. Sourced by tests/e2e-upgrade.

# The budget permits one eviction, so that the upgrade begins. The second pod must stay: the first one finds no other node.
pinned_pods() { # HOST
  kubectl apply -f - <<EOF
apiVersion: apps/v1
kind: Deployment
metadata: {name: pinned}
spec:
  replicas: 2
  selector: {matchLabels: {app: pinned}}
  template:
    metadata: {labels: {app: pinned}}
    spec:
      nodeSelector: {kubernetes.io/hostname: $1}
      terminationGracePeriodSeconds: 1
      containers: [{name: pinned, image: "registry.k8s.io/pause:$PAUSE"}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: pinned}
spec: {minAvailable: 1, selector: {matchLabels: {app: pinned}}}
EOF
  kubectl rollout status deployment/pinned --timeout=120s
}
is_not_cordoned() { kubectl get node "$1" && ! is_cordoned "$1"; }
has_former_kubelet() { kubectl get node "$1" | grep "v$before\$"; }
drain_is_blocked() { # HOST: the last worker
  must "pods that can run on $1 only" pinned_pods "$1"
  drain=1m
  check "a drain that a budget stops ends the upgrade" upgrade_ends 5 "the pods of $1 did not leave it within 60 seconds"
  drain=3m
  sed -n '/did not leave it/,$p' "$work/upgrade.log"
  check "the error names the pod" grep 'default/pinned-.*: Cannot evict pod' "$work/upgrade.log"
  check "and the budget" grep 'the PodDisruptionBudget default/pinned permits no eviction' "$work/upgrade.log"
  check "and the option that ignores budgets" grep -e '--drain-disable-eviction' "$work/upgrade.log"
  check "the scheduler may use the node" is_not_cordoned "$1"
  check "its kubelet has the former version" has_former_kubelet "$1"
}
