#!/bin/sh -eu
# Prints what `doctor` asks the API server: one `key=value` in a line, in any order, and `end=` at the end. The parts of a
# value have tabs between them; objects are JSON. A question that fails prints `failed=QUESTION CAUSE`. Changes nothing.
# Arguments: the URL of the API server on this host; `kubeadm` or `systemd`.
ask() {
  timeout -k 1 25 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=20s --server "$server" "$@" </dev/null
}
server=$1 kind=$2
# Prints the objects of a list, one in a line. Arguments: key, largest number of lines, awk condition, those of kubectl.
list() {
  key=$1 most=$2 condition=$3
  shift 3
  if said=$(ask "$@" 2>&1); then
    printf '%s\n' "$said" | awk -F '\t' "NF && ($condition)" | head -n "$most" | cut -c1-60000 | sed "s/^/$key=/"
  else
    echo "failed=$key $(printf '%s\n' "$said" | grep . | tail -n 1 | cut -c1-500)"
  fi
}
each() { printf 'jsonpath={range .items[*]}%s{"\\n"}{end}' "$1"; }
# shellcheck disable=SC2016 # awk expands the conditions
questions() {
  list pod 200 '$3 != "Succeeded" && ($3 != "Running" || index($0, "\"ready\":false"))' get pods -A -o "$(each \
    '{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status.phase}{"\t"}{.metadata.creationTimestamp}{"\t"}{.status.conditions}{"\t"}{.status.containerStatuses}{"\t"}{.status.initContainerStatuses}')" &
  list dns 20 1 -n kube-system get pods -l k8s-app=kube-dns -o "$(each '{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status.podIP}{"\t"}{.status.conditions[?(@.type=="Ready")].status}')" &
  list request 100 '$5 == ""' get certificatesigningrequests -o "$(each \
    '{.metadata.name}{"\t"}{.spec.signerName}{"\t"}{.spec.username}{"\t"}{.metadata.creationTimestamp}{"\t"}{.status.conditions[*].type}')" &
  list apiservice 50 '$2 != "/"' get apiservices -o "$(each \
    '{.metadata.name}{"\t"}{.spec.service.namespace}/{.spec.service.name}{"\t"}{.status.conditions}')" &
  for hooks in validatingwebhookconfigurations mutatingwebhookconfigurations; do
    list webhook 100 1 get "$hooks" -o "$(each "$hooks"'{"\t"}{.metadata.name}{"\t"}{.webhooks}')" &
  done
  list slice 5000 '$2 != "/"' get endpointslices -A -o "$(each \
    '{.metadata.namespace}/{.metadata.labels.kubernetes\.io/service-name}{"\t"}{.endpoints[*].conditions.ready}')" &
  list node 2000 1 get nodes -o "$(each '{.metadata.name}{"\t"}{.status.addresses}{"\t"}{.spec.podCIDRs}')" &
  list terminating 50 '$2 != ""' get namespaces -o "$(each '{.metadata.name}{"\t"}{.metadata.deletionTimestamp}{"\t"}{.status.conditions}')" &
  if [ "$kind" = kubeadm ]; then
    # Of a token only its identifier, which is not secret, and when it ends.
    list token 100 1 -n kube-system get secrets --field-selector type=bootstrap.kubernetes.io/token -o "$(each \
      '{.metadata.name}{"\t"}{.data.expiration}{"\t"}{.data.usage-bootstrap-signing}{"\t"}{.metadata.creationTimestamp}')" &
    list cluster_info 1 1 -n kube-public get configmaps --field-selector metadata.name=cluster-info -o "$(each '{.data}')" &
  fi
  wait
}
questions
echo "now=$(date +%s)"
echo "end="
