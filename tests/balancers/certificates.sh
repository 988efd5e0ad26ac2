# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# kube-vip reads certificates and CAs only when it starts: a renewal, and a rotation of the CA of Kubernetes. Sourced by tests/e2e-balancers.

certs_end() { # PATTERN VERB OPTIONS…: the command succeeds, and its output matches
  "$kubexm" certs "$2" -f "$cluster" --known-hosts "$(known_hosts)" --state "$state" --output plain "${@:3}" >"$work/certs.log" 2>&1 || {
    cat "$work/certs.log"
    return 1
  }
  cat "$work/certs.log"
  grep -q -e "$1" "$work/certs.log"
}
file_of_pod() { # prints the program, its file on the host, and the path of the same file in its container
  case $type in
  kube-vip) echo kube-vip /etc/kubernetes/admin.conf /etc/kubernetes/admin.conf ;;
  kube-vip-units) echo kube-vip /etc/kubernetes/kube-vip.conf /etc/kubernetes/admin.conf ;;
  esac
}
has_present_file() { # HOST: each process of the load balancer has the present file of the host
  # shellcheck disable=SC2016,SC2046 # expands on the host; words
  on "$1" sh -euc 'found=""
    for process in /proc/[0-9]*; do
      [ "$(cat "$process/comm" 2>/dev/null || :)" = "$1" ] || continue
      found=yes
      cmp "$process/root$3" "$2"
    done
    [ -n "$found" ]' sh $(file_of_pod)
}
have_present_files() {
  local host
  for host in node1 node2 node3; do has_present_file "$host" || { echo "$host"; return 1; }; done
}
replaced_certificates() {
  local phase
  local -a options=()
  part "$type: certificates are renewed, and the CA of Kubernetes is replaced"
  check "the load balancer has the files of its host" have_present_files
  check "a renewal" polled certs_end "the certificates are renewed" renew
  outages
  check "the load balancer has the new files" have_present_files
  check "the endpoint answers" until_true 20 reach_endpoint
  check "the status names no difference to the plan" no_drift
  took "renewal"
  for phase in trust switch remove; do
    [ "$phase" != switch ] || options=(--restart-workloads)
    check "rotation of the CA: $phase" polled certs_end "is complete" rotate-ca --ca kubernetes --phase "$phase" ${options[@]+"${options[@]}"}
    options=()
    outages
    check "the load balancer has the new files" have_present_files
    check "the endpoint answers" until_true 20 reach_endpoint
    check "the status names no difference to the plan" no_drift
  done
  check "all nodes are Ready" until_true 60 ready 4
  took "rotation of the CA"
}
