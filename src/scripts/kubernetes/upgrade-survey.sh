#!/bin/sh -eu
# Prints what an upgrade of the cluster, or the removal of a node, depends on, one `KEY VALUE…` in a line, with single blanks. The caller refuses a
# key that it does not know.
#   node NAME VERSION READY         version of the kubelet without `v`; `True`, `False` or `Unknown`
#   request NAME                    a certificate signing request that is neither approved nor denied
#   budget NAMESPACE/NAME           a PodDisruptionBudget that permits no eviction of its pods now
#   unmanaged NODE NAMESPACE/NAME   a pod that no controller creates again
#   local NODE NAME                 a persistent volume that is on this node only
#   webhook KIND/NAME NAMESPACE/SERVICE     a webhook whose failure refuses requests, and whose service has no endpoint
#   deprecated RELEASE RESOURCE     a resource that clients request, and the release without it
#   image NAME                      an image of a DaemonSet or a Deployment
#   exec KIND/NAME                  a role that permits `get`, and not `create`, for exec, attach or portforward of pods
#   end                             the list is complete
# Arguments: how long the API server may take until it answers, in seconds; URLs of all API servers.
# Calls kubectl, and ends the script if it fails: a list that is not complete is worse than none.
get() { kubectl get "$@" || exit 75; }
nodes() {
  list=$(get nodes -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.nodeInfo.kubeletVersion}{"\t"}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}')
  printf '%s\n' "$list" | awk -F '\t' 'NF { sub(/^v/, "", $2); print "node", $1, $2, $3 }'
}
requests() {
  list=$(get certificatesigningrequests -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.conditions[*].type}{"\n"}{end}')
  printf '%s\n' "$list" | awk -F '\t' 'NF && $2 == "" { print "request", $1 }'
}
budgets() {
  list=$(get poddisruptionbudgets -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.status.disruptionsAllowed}{"\t"}{.status.expectedPods}{"\n"}{end}')
  printf '%s\n' "$list" | awk -F '\t' 'NF && $2 == 0 && $3 > 0 { print "budget", $1 }'
}
# Static pods have the node as their controller. An owner that is not a controller creates no pod again, and a drain stops at its pods.
unmanaged() {
  list=$(get pods -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\t"}{.spec.nodeName}{"\t"}{.metadata.ownerReferences[?(@.controller==true)].kind}{"\t"}{.status.phase}{"\n"}{end}')
  printf '%s\n' "$list" | awk -F '\t' 'NF && $2 != "" && $3 == "" && $4 != "Succeeded" && $4 != "Failed" { print "unmanaged", $2, $1 }'
}
# Volumes that a pod has used, and that another node cannot have: every term of their affinity names the same node.
locals() {
  list=$(get persistentvolumes -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\t"}{range .spec.nodeAffinity.required.nodeSelectorTerms[*]}{range .matchExpressions[*]}{.key}{" "}{.operator}{" "}{.values[*]}{";"}{end}{"|"}{end}{"\n"}{end}')
  printf '%s\n' "$list" | awk -F '\t' '
    $2 != "Available" && $3 != "" {
      node = ""
      terms = split($3, term, "|") - 1
      for (i = 1; i <= terms; i++) {
        own = ""
        for (j = split(term[i], expression, ";"); j > 0; j--)
          if (split(expression[j], word, " ") == 3 && word[1] == "kubernetes.io/hostname" && word[2] == "In") own = word[3]
        if (own == "" || node != "" && own != node) next
        node = own
      }
      if (node != "") print "local", node, $1
    }'
}
webhooks() {
  for kind in validatingwebhookconfigurations mutatingwebhookconfigurations; do
    list=$(get "$kind" -o 'jsonpath={range .items[*]}{range .webhooks[?(@.failurePolicy=="Fail")]}{.name}{"\t"}{.clientConfig.service.namespace}{"\t"}{.clientConfig.service.name}{"\n"}{end}{end}')
    printf '%s\n' "$list" | awk -F '\t' '$3 != "" { print $1, $2, $3 }' | while read -r name namespace service; do
      ready=$(get endpointslices -n "$namespace" -l "kubernetes.io/service-name=$service" \
        -o 'jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}x{end}')
      [ -n "$ready" ] || echo "webhook ${kind%configurations}/$name $namespace/$service"
    done
  done
}
# What the API servers have counted since they started. Each counts its own requests. Another check is about one that does not
# answer.
deprecated() {
  list='' answered=''
  for server in "$@"; do
    counted=$(kubectl --server "$server" --tls-server-name kubernetes get --raw /metrics 2>/dev/null) || continue
    answered=yes
    list="$list$counted
"
  done
  [ -n "$answered" ] || exit 75
  printf '%s\n' "$list" | sed -n '/^apiserver_requested_deprecated_apis{.*} 1$/p' | awk '
    function of(name) { return match($0, name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 3) : "" }
    of("removed_release") != "" {
      group = of("group")
      print "deprecated", of("removed_release"), of("resource") (group == "" ? "" : "." group) "/" of("version")
    }' | sort -u
}
images() {
  list=$(get daemonsets,deployments -A -o 'jsonpath={range .items[*].spec.template.spec}{range .initContainers[*]}{.image}{"\n"}{end}{range .containers[*]}{.image}{"\n"}{end}{end}')
  printf '%s\n' "$list" | awk 'NF == 1 { print "image", $1 }' | sort -u
}
# Since Kubernetes 1.35, these requests need the verb `create` also if clients send them by WebSocket.
streams() {
  # shellcheck disable=SC2016 # a variable of the template
  list=$(get clusterroles,roles -A -o 'go-template={{range $role := .items}}{{range .rules}}{{$role.kind}}/{{$role.metadata.name}}{{"\t"}}{{range .resources}}{{.}} {{end}}{{"\t"}}{{range .verbs}}{{.}} {{end}}{{"\n"}}{{end}}{{end}}')
  # A role can have the verbs in different rules.
  printf '%s\n' "$list" | awk -F '\t' '
    $2 !~ /pods\/(exec|attach|portforward) / { next }
    $3 ~ /(^| )get / { gets[$1] = 1 }
    $3 ~ /(^| )(create|[*]) / { creates[$1] = 1 }
    END { for (role in gets) if (!(role in creates)) print "exec", role }' | sort
}
left=$1
shift
until [ "$left" -le 0 ] || kubectl get --raw /readyz >/dev/null 2>&1; do
  left=$((left - 5))
  sleep 5
done
nodes
requests
budgets
unmanaged
locals
webhooks
deprecated "$@"
images
streams
echo end
