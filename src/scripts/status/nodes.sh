#!/bin/sh -eu
# Prints the nodes of the cluster, one in a line: name, `true` if it is cordoned, `nodeInfo` and `conditions` of its status
# as JSON, with tabs between them. Prints `end` at the end. Changes nothing.
# Arguments: the URL of the API server on this host.
fields='{.metadata.name}{"\t"}{.spec.unschedulable}{"\t"}{.status.nodeInfo}{"\t"}{.status.conditions}{"\n"}'
kubectl --server "$1" get nodes -o "jsonpath={range .items[*]}$fields{end}"
echo end
