#!/bin/sh -eu
# Prints what `doctor` asks the API server: one `key=value` in a line, in any order, and `end=` at the end. The parts of a
# value have tabs between them; objects are JSON. A question that fails prints `failed=QUESTION CAUSE`. Changes nothing.
# Arguments: the URL of the API server on this host; `kubeadm` or `systemd`.
ask() {
  timeout -k 1 25 /usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=20s --server "$server" "$@" </dev/null
}
server=$1 kind=$2
complaints=$(mktemp -d /run/kubexm-doctor-XXXXXX)
trap 'rm -rf "$complaints"' EXIT
# Prints why a question has no answer. Arguments: the exit status, and the file with what kubectl complained about.
cause() {
  # Of timeout: its own, of a command that had to be killed, and those of busybox.
  case $1 in 124 | 137 | 143) echo "no answer in 25 s" && return ;; esac
  last=$(grep -s . "$2" | tail -n 1 | cut -c1-500)
  echo "${last:-kubectl ended with $1}"
}
# Prints the objects of a list, one in a line. Arguments: key, largest number of lines, awk program, those of kubectl.
list() {
  key=$1 most=$2 program=$3
  shift 3
  # The second argument distinguishes the questions of a key. An answer has no warnings in it.
  if said=$(ask "$@" 2>"$complaints/$key-$2"); then
    printf '%s\n' "$said" | awk -F '\t' "!NF { next } $program" | head -n "$most" | cut -c1-60000 | sed "s/^/$key=/"
  else
    echo "failed=$key $(cause $? "$complaints/$key-$2")"
  fi
}
each() { printf 'jsonpath={range .items[*]}%s{"\\n"}{end}' "$1"; }
# Passes on pods that are not ready. A controller leaves a pod that failed, as one that was evicted, beside the one that replaces
# it: such a pod only counts if its owner has no pod that is ready or has succeeded. Static pods, whose owner is a node, have no
# replacement.
# shellcheck disable=SC2016 # awk expands it
unready='$3 == "Succeeded" || $3 == "Running" && !index($0, "\"ready\":false") { well[$8] = 1; next }
  $3 == "Failed" && $8 != "" { failed[$8] = failed[$8] $0 "\n"; next }
  1
  END { for (owner in failed) if (!(owner in well)) printf "%s", failed[owner] }'
# Prints the owners that want no pod any more: ReplicaSets of earlier rollouts, and Jobs of a CronJob that has a newer one. They
# keep their pods that failed, and nothing replaces these.
# shellcheck disable=SC2016 # awk expands the fields
past_owners() {
  ask get replicasets -A -o "$(each '{.metadata.uid}{"\t"}{.spec.replicas}')" 2>/dev/null | awk -F '\t' '$2 == "0" { print $1 }' &
  ask get jobs -A -o "$(each '{.metadata.uid}{"\t"}{.metadata.creationTimestamp}{"\t"}{.metadata.ownerReferences[?(@.kind=="CronJob")].uid}')" 2>/dev/null |
    awk -F '\t' '$3 == "" { next }
      $3 in newest && $2 < created[$3] { print $1; next }
      $3 in newest { print newest[$3] }
      { newest[$3] = $1; created[$3] = $2 }' &
  wait
}
# Prints the pods that are not ready.
# shellcheck disable=SC2016 # awk expands the fields
pods() {
  rows=$(list pod 200 "$unready" get pods -A -o "$(each \
    '{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status.phase}{"\t"}{.metadata.creationTimestamp}{"\t"}{.status.conditions}{"\t"}{.status.containerStatuses}{"\t"}{.status.initContainerStatuses}{"\t"}{.metadata.ownerReferences[?(@.kind!="Node")].uid}')")
  past=''
  # Most clusters have no such pod, and need no more questions.
  if printf '%s\n' "$rows" | awk -F '\t' '$3 == "Failed" && $8 != "" { found = 1 } END { exit !found }'; then past=$(past_owners | tr '\n' ' ') || :; fi
  printf '%s\n' "$rows" | awk -F '\t' -v past="$past" '
    BEGIN { for (count = split(past, owners, " "); count; count--) is_past[owners[count]] = 1 }
    NF && !($3 == "Failed" && $8 in is_past)'
}
# shellcheck disable=SC2016 # awk expands the conditions
questions() {
  pods &
  list dns 20 1 -n kube-system get pods -l k8s-app=kube-dns --field-selector 'status.phase!=Failed' -o "$(each '{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.status.podIP}{"\t"}{.status.conditions[?(@.type=="Ready")].status}')" &
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
