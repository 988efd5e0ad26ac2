#!/bin/sh -eu
# Prints objects of the cluster for people who help, in the form of `doctor/support.sh`. Changes nothing.
# Arguments: seconds after which nothing more is asked; URL of an API server.
limit=0 server=$2 most=1000000
ask() {
  timeout -k 1 "$limit" /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=25s --server "$server" "$@"
}
# Prints an answer. Arguments: its name; those of kubectl.
show() {
  name=$1
  shift
  time_for "$deadline" 30 "api/$name" || return 0
  echo "= api/$name"
  { ask "$@" 2>&1 </dev/null || echo "[exit status $?]"; } | {
    # The newest events are the last ones. kubexm parses the states of pods.
    case $name in
    events.txt) newest "$most" ;;
    pod-states.jsonl) first 20000 "$most" "$most" ;;
    *) first 20000 "$most" ;;
    esac
  } | sed 's/^/|/'
}
objects() {
  show version.txt version
  show readyz.txt get --raw '/readyz?verbose'
  show nodes.txt describe nodes
  show pods.txt get pods -A -o wide
  show workloads.txt get deployments,daemonsets,statefulsets,jobs -A -o wide
  show services.txt get services,endpointslices -A -o wide
  show events.txt get events -A --sort-by=.lastTimestamp
  show requests.txt get certificatesigningrequests -o wide
  show apiservices.txt get apiservices
  show webhooks.yaml get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml
  show namespaces.txt get namespaces
  show storage.txt get persistentvolumes,persistentvolumeclaims,storageclasses -A
  show budgets.txt get poddisruptionbudgets -A
  for name in kubeadm-config kubelet-config kube-proxy coredns; do
    show "configmaps/$name.yaml" -n kube-system get configmap "$name" -o yaml --ignore-not-found
  done
  # Names and types. The data of a Secret never leaves the API server.
  show secrets.txt get secrets -A
  # The longest answer of a large cluster must not take the place of the others. jsonpath leaves the specifications of pods on the
  # host, because they have the values of environment variables.
  most=6000000
  show pod-states.jsonl get pods -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status}{"\n"}{end}'
}
read -r now _ </proc/uptime
deadline=$((${now%.*} + $1))
# If it fails, its end is missing, and what it has printed is not lost.
{ objects; echo "end="; } | below_limit
