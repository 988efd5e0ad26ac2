#!/bin/sh -eu
# Prints the pods that verify the API server with a CA of their namespace, or restarts workloads.
# `list` prints `now TIME`, then `set NAMESPACE NAME KIND/NAME` for each ReplicaSet with its owner, then
# `pod NAMESPACE NAME KIND/NAME TIMES` for each pod that runs and does not end, with the starts of its containers. A pod without an owner has `-`.
# `tokens` prints `TIME NAMESPACE/NAME` of each Secret with a token without an expiry, with the time at which it was created.
# `restart` restarts each workload once after a time, and waits for its pods. It prints `manual NAMESPACE/KIND/NAME` for each one
# whose pods Kubernetes does not replace: it is paused, or its update strategy is OnDelete.
# Arguments: `list`, `tokens`, or `restart`, a time and `NAMESPACE/KIND/NAME` of Deployments, DaemonSets and StatefulSets.
verb=$1
shift
kubectl() {
  /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s "$@"
}
# Runs kubectl in the namespace of a workload. Arguments: workload, then those of kubectl.
at() {
  of=$1
  shift
  kubectl -n "${of%%/*}" "$@" "${of#*/}"
}
case $verb in
list)
  echo "now $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  # shellcheck disable=SC2016 # kubectl expands these variables
  kubectl get replicasets -A -o go-template='{{range .items}}{{$set := .}}{{range .metadata.ownerReferences}}set {{$set.metadata.namespace}} {{$set.metadata.name}} {{.kind}}/{{.name}}{{"\n"}}{{end}}{{end}}'
  # shellcheck disable=SC2016 # kubectl expands these variables
  kubectl get pods -A --field-selector status.phase=Running -o go-template='{{range .items}}{{$pod := .}}{{if not .metadata.deletionTimestamp}}{{range .spec.volumes}}{{if .projected}}{{range .projected.sources}}{{if .configMap}}{{if eq .configMap.name "kube-root-ca.crt"}}pod {{$pod.metadata.namespace}} {{$pod.metadata.name}} {{range $pod.metadata.ownerReferences}}{{.kind}}/{{.name}}{{else}}-{{end}}{{range $pod.status.containerStatuses}}{{if .state.running}} {{.state.running.startedAt}}{{end}}{{end}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}{{end}}'
  ;;
tokens)
  kubectl get secrets -A --field-selector type=kubernetes.io/service-account-token \
    -o 'jsonpath={range .items[*]}{.metadata.creationTimestamp} {.metadata.namespace}/{.metadata.name}{"\n"}{end}'
  ;;
restart)
  since=$(date -d "$1" +%s) waits=
  shift
  for one in "$@"; do
    state=$(at "$one" get -o 'jsonpath={.spec.paused} {.spec.updateStrategy.type} {.spec.template.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}')
    case $state in *true* | *OnDelete*) echo "manual $one"; continue ;; esac
    waits="$waits $one"
    restarted=${state##* }
    # An interrupted run has restarted it.
    [ -z "$restarted" ] || [ "$(date -d "$restarted" +%s)" -lt "$since" ] || continue
    at "$one" rollout restart >/dev/null
  done
  # Names of Kubernetes have no blanks.
  for one in $waits; do at "$one" --request-timeout=0 rollout status --timeout=1800s >/dev/null; done
  ;;
*) echo "usage: workloads.sh list|tokens|restart" >&2; exit 2 ;;
esac
