#!/bin/sh -eu
# Prints objects of the cluster as JSON, and nothing for an object that is permitted not to exist. gzip compresses them: the list of
# all pods can have 100 MiB. Exits as kubectl does. Changes nothing.
# Arguments: the URL of an API server, or nothing for the one of admin.conf; those of `kubectl get`. Another `-o` among them, as
# one that leaves out the secret part of an object, replaces JSON. Exits with 66 on a host without a cluster.
server=$1
shift
[ -e /etc/kubernetes/admin.conf ] || [ -e /etc/kubernetes/kubelet.conf ] || { echo "the cluster does not exist yet" >&2; exit 66; }
exec 3>&1
status=$(
  exec 4>&1
  { kubectl ${server:+--server "$server"} get -o json "$@" && echo 0 >&4 || echo "$?" >&4; } | gzip -1 >&3
)
exit "$status"
