#!/bin/sh -eu
# Prints the pods that run and what they read a CA from, or restarts workloads.
# `list` prints `now TIME`, then `set NAMESPACE NAME KIND/NAME` for each ReplicaSet with its owner, `token NAMESPACE NAME` for each
# Secret with a token, `pod NAMESPACE NAME KIND/NAME TIMES` for each pod that runs and does not end, with the starts of its
# containers, and `reads NAMESPACE NAME configmap|secret NAME` for each Secret of a pod and for its ConfigMap kube-root-ca.crt, as
# a volume or a variable. A pod without an owner has `-`.
# `tokens` prints `TIME NAMESPACE/NAME` of each Secret with a token without an expiry, with the time at which it was created.
# `restart` restarts each workload once after a time, and waits for its pods. It prints `manual NAMESPACE/KIND/NAME` for each one
# whose pods Kubernetes does not replace: it is paused, or its update strategy is OnDelete.
# Arguments: `list`, `tokens`, or `restart`, a time and `NAMESPACE/KIND/NAME` of Deployments, DaemonSets and StatefulSets.
verb=$1
shift
# Runs kubectl in the namespace of a workload. Arguments: workload, then those of kubectl.
at() {
  of=$1
  shift
  kubectl -n "${of%%/*}" "$@" "${of#*/}"
}
# Prints the template of the lines of pods.
# shellcheck disable=SC2016 # kubectl expands these variables
pods_template() {
  reads='reads {{$pod.metadata.namespace}} {{$pod.metadata.name}}' end='{{"\n"}}'
  # Arguments: the field with the name of a ConfigMap, or of a Secret.
  of_map() { printf '%s' "{{if $1}}{{if eq $1 \"kube-root-ca.crt\"}}$reads configmap {{$1}}$end{{end}}{{end}}"; }
  of_secret() { printf '%s' "{{if $1}}$reads secret {{$1}}$end{{end}}"; }
  printf '%s' '{{range .items}}{{$pod := .}}{{if not .metadata.deletionTimestamp}}'
  printf '%s' 'pod {{.metadata.namespace}} {{.metadata.name}} {{range .metadata.ownerReferences}}{{.kind}}/{{.name}}{{else}}-{{end}}'
  for statuses in containerStatuses initContainerStatuses; do
    printf '%s' "{{range .status.$statuses}}{{if .state.running}} {{.state.running.startedAt}}{{end}}{{end}}"
  done
  printf '%s' "$end{{range .spec.volumes}}"
  of_map .configMap.name
  of_secret .secret.secretName
  printf '%s' '{{range .projected.sources}}'
  of_map .configMap.name
  of_secret .secret.name
  printf '%s' '{{end}}{{end}}'
  for containers in containers initContainers; do
    printf '%s' "{{range .spec.$containers}}{{range .env}}"
    of_map .valueFrom.configMapKeyRef.name
    of_secret .valueFrom.secretKeyRef.name
    printf '%s' '{{end}}{{range .envFrom}}'
    of_map .configMapRef.name
    of_secret .secretRef.name
    printf '%s' '{{end}}{{end}}'
  done
  printf '%s' '{{end}}{{end}}'
}
case $verb in
list)
  echo "now $(date -u +%Y-%m-%dT%H:%M:%SZ)"
  # shellcheck disable=SC2016 # kubectl expands these variables
  kubectl get replicasets -A -o go-template='{{range .items}}{{$set := .}}{{range .metadata.ownerReferences}}set {{$set.metadata.namespace}} {{$set.metadata.name}} {{.kind}}/{{.name}}{{"\n"}}{{end}}{{end}}'
  kubectl get secrets -A --field-selector type=kubernetes.io/service-account-token \
    -o 'jsonpath={range .items[*]}token {.metadata.namespace} {.metadata.name}{"\n"}{end}'
  kubectl get pods -A --field-selector status.phase=Running -o go-template="$(pods_template)"
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
