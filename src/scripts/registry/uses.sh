#!/bin/sh -eu
# Prints a word, and then the images that objects of the cluster name, one object in a line: the word, its kind, namespace,
# name, state, names of images, and IDs of images that run, with tabs between them. The last line is the word and `end`.
# Changes nothing.
# The state is the phase of a pod, the true conditions of a job, or the kind that owns a replica set.
# Arguments: the URL of the API server on this host.
server=$1
# Users of the cluster can write any text as the name of an image, also tabs and line feeds. They cannot know the word, and
# so cannot write a line.
read -r word </proc/sys/kernel/random/uuid
echo "$word"
images() { # SPEC: the images of a pod with this specification
  echo "{$1.initContainers[*].image} {$1.containers[*].image} {$1.ephemeralContainers[*].image} {$1.volumes[*].image.reference}"
}
list() { # KIND TEXT
  kubectl --server "$server" get "$1" --all-namespaces -o \
    "jsonpath={range .items[*]}$word{\"\t\"}$1{\"\t\"}{.metadata.namespace}{\"\t\"}{.metadata.name}{\"\t\"}$2{\"\n\"}{end}"
}
ids='{.status.initContainerStatuses[*].imageID} {.status.containerStatuses[*].imageID}'
list pod "{.status.phase}{\"\t\"}$(images .spec){\"\t\"}$ids"
for kind in deployment statefulset daemonset; do list "$kind" "{\"\t\"}$(images .spec.template.spec){\"\t\"}"; done
list replicationcontroller "{\"\t\"}$(images .spec.template.spec){\"\t\"}"
list replicaset "{.metadata.ownerReferences[*].kind}{\"\t\"}$(images .spec.template.spec){\"\t\"}"
list job "{.status.conditions[?(@.status==\"True\")].type}{\"\t\"}$(images .spec.template.spec){\"\t\"}"
list cronjob "{\"\t\"}$(images .spec.jobTemplate.spec.template.spec){\"\t\"}"
printf '%s\tend\n' "$word"
