# shellcheck shell=bash disable=SC2154 # the variables are the caller's
# Failures of networks, DNS, load balancers, the API server and workloads. Sourced by tests/e2e-doctor. `kind` is kubeadm or
# systemd. Each function leaves a healthy cluster.

pod_on() { # NODE NAME [IMAGE]
  kubectl run "$2" --image "${3:-registry.k8s.io/pause:$PAUSE}" --restart=Never \
    --overrides="{\"spec\": {\"nodeName\": \"$1\", \"tolerations\": [{\"operator\": \"Exists\"}]}}"
}
no_pods() { kubectl delete pods --all --force --grace-period=0 >/dev/null 2>&1 || true; }
forward_to_itself() { sed 's/^\( *\)loop$/\1loop\n\1forward . 127.0.0.1/'; }

network_and_dns() {
  part "$kind: network and DNS"
  on node2 sh -c 'iptables -I INPUT -p tcp --dport 10250 -j DROP'
  on node1 sh -c 'iptables -I INPUT -p udp --dport 8472 -j DROP'
  # Both pods of CoreDNS may be on one node, which then is at the other end of each lost connection.
  finds 30 "15 a firewall on a kubelet and on VXLAN, at once" firewall,pod-network '"node1" in found["pod-network"]["hosts"]'
  check "the fix of firewall works" follow_fix firewall
  undone pod-network

  if [ "$kind" = kubeadm ]; then
    on node2 sh -c 'ip link add cni0 type bridge 2>/dev/null; ip addr flush dev cni0; ip addr add 10.99.0.1/24 dev cni0; ip link set cni0 up'
    finds 30 "13 a bridge of an earlier cluster" cni-leftovers 'found["cni-leftovers"]["hosts"] == ["node2"]'
    pod_on node2 unlucky
    finds 150 "13 with a pod that gets no address" cni-leftovers '"already has an IP" in str(found["cni-leftovers"]) and follows("pods", "cni-leftovers")'
    no_pods
    undone cni-leftovers
  else
    # A pod of CoreDNS may run on the node: a bridge with another address would end its network.
    on node2 sh -c 'echo "{}" >/etc/cni/net.d/99-other.conf'
    check "13 a configuration behind the own one is not a problem" until_true 30 nothing
    on node2 sh -c 'echo "{\"cniVersion\": \"0.4.0\", \"name\": \"earlier\", \"type\": \"bridge\"}" >/etc/cni/net.d/00-earlier.conf'
    finds 30 "13 a network configuration of an earlier cluster" cni-leftovers 'found["cni-leftovers"]["hosts"] == ["node2"]'
    undone cni-leftovers
  fi

  kubectl -n kube-system get configmap coredns -o yaml >"$work/coredns.yaml"
  forward_to_itself <"$work/coredns.yaml" | kubectl replace -f - >/dev/null
  kubectl -n kube-system delete pods -l k8s-app=kube-dns >/dev/null
  finds 90 "16 CoreDNS finds a loop" dns '"loop" in str(found["dns"]["evidence"]).lower()'
  kubectl replace --force -f - <"$work/coredns.yaml" >/dev/null
  kubectl -n kube-system delete pods -l k8s-app=kube-dns >/dev/null
  healthy
  kubectl -n kube-system scale deployment coredns --replicas=0
  finds 60 "16 no pods of CoreDNS" dns '"scaled down" in found["dns"]["cause"]'
  undone dns
  took "network and DNS"
}

holders() { # prints the hosts that have the address of the API servers
  local host
  for host in "${all[@]}"; do
    if grep -q "inet $vip/" <<<"$(on "$host" ip -o addr)"; then echo "$host"; fi
  done
}
balancers() {
  local idle
  part "$kind: load balancers"
  on node2 systemctl stop kubexm-haproxy
  finds 20 "25 a load balancer is stopped" load-balancer 'found["load-balancer"]["hosts"] == ["node2"]'
  undone load-balancer
  on node3 sed -i 's/^\( *server [^ ]* \)[0-9.]*:/\110.231.250.9:/' /etc/kubexm/haproxy/haproxy.cfg
  finds 20 "25 a load balancer without the control plane" load-balancer '"backends" in str(found["load-balancer"])'
  undone load-balancer
  # As haproxy.extraConfig may have it.
  on node3 sh -c 'cp -a /etc/kubexm/haproxy/haproxy.cfg /root/ && printf "\nbackend site\n  server site 10.231.250.8:80\n" >>/etc/kubexm/haproxy/haproxy.cfg'
  check "25 servers of another section are not a problem" until_true 30 nothing
  on node3 cp -a /root/haproxy.cfg /etc/kubexm/haproxy/haproxy.cfg
  # The cluster of units has a proxy on each node, and so no address that two hosts can hold.
  if [ "$kind" = kubeadm ]; then
    on node2 systemctl stop kubexm-keepalived
    finds 20 "25 keepalived is stopped" load-balancer '"keepalived" in str(found["load-balancer"])'
    undone load-balancer
    # The host that waits for the address hears no announcement any more, and takes it.
    idle=node2
    [ "$(holders)" != node2 ] || idle=node3
    on "$idle" iptables -I INPUT -p 112 -j DROP
    finds 20 "25 two hosts hold the address" virtual-address \
      'found["virtual-address"]["hosts"] == ["node2", "node3"] and "iptables" in str(found["virtual-address"]["commands"])'
    undone virtual-address
  fi
  took "load balancers"
}

webhook() {
  kubectl apply -f - <<'EOF2'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy}
webhooks:
  - name: policy.example.com
    clientConfig: {service: {namespace: default, name: policy}}
    rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
    admissionReviewVersions: [v1]
    sideEffects: None
EOF2
}
api_service() {
  kubectl apply -f - <<'EOF2'
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.things.example.com}
spec: {group: things.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: default, name: things}}
EOF2
}
other_ca() { # cluster-info has the CA of another cluster
  openssl req -x509 -newkey ed25519 -nodes -subj /CN=other -days 1 -keyout "$work/other.key" -out "$work/other.crt" 2>/dev/null
  kubectl -n kube-public get configmap cluster-info -o yaml |
    sed "s/certificate-authority-data: .*/certificate-authority-data: $(base64 -w 0 "$work/other.crt")/" | kubectl replace -f - >/dev/null
}
old_token() { # a token for joins that has expired
  kubectl apply -f - <<'EOF2'
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-labold, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: labold
  token-secret: 0123456789abcdef
  expiration: "2020-01-01T00:00:00Z"
  usage-bootstrap-authentication: "true"
  usage-bootstrap-signing: "true"
EOF2
}
has_no_container() { # HOST NAME
  [ -z "$(on "$1" crictl ps -q --name "^$2\$")" ]
}

api_and_workloads() {
  local wanted=api-services,images,webhooks what=""
  part "$kind: API and workloads"
  webhook
  api_service
  # Only kubeadm uses cluster-info and bootstrap tokens.
  if [ "$kind" = kubeadm ]; then
    kubectl -n kube-public delete configmap cluster-info
    wanted=api-services,images,join-information,webhooks what=", 24 no cluster-info"
  fi
  pod_on node3 absent example.com/not/there:1
  finds 60 "4 no image, 21 webhook and API without a backend$what" "$wanted" \
    'found["images"]["what"].startswith("the image example.com/not/there:1 ") and "registry add --bundle BUNDLE" in str(found["images"]["commands"])'
  check "the fix of webhooks works" follow_fix webhooks
  # Nothing that is printed deletes an API: its backend may only be away for a moment.
  check "the fix of api-services shows the backend" follow_fix api-services
  check "the API without a backend is deleted" kubectl delete apiservice v1.things.example.com
  no_pods
  if [ "$kind" = kubeadm ]; then
    undone join-information
    other_ca
    finds 30 "24 another CA in cluster-info" join-information '"another CA" in str(found["join-information"])'
    undone join-information
    # A controller manager that runs deletes an expired token at once.
    on node1 mv /etc/kubernetes/manifests/kube-controller-manager.yaml /root/
    check "the controller manager has ended" until_true 60 has_no_container node1 kube-controller-manager
    check "an expired token is created" old_token
    finds 30 "24 an expired token, and no controller manager" control-plane \
      'follows("join-tokens", "control-plane") and "bootstrap-token-labold" in str(found["join-tokens"])'
    check "the fix of join-tokens works" follow_fix join-tokens
    check "the token is deleted" prints_no bootstrap-token-labold kubectl -n kube-system get secrets -o name
    on node1 mv /root/kube-controller-manager.yaml /etc/kubernetes/manifests/
    healthy
    on node1 sh -c ': >/etc/kubernetes/manifests/kube-scheduler.yaml'
    finds 60 "22 a manifest of the control plane is empty" static-pods 'found["static-pods"]["hosts"] == ["node1"]'
    undone static-pods
  else
    on node1 systemctl stop kube-scheduler
    on node2 systemctl stop kube-proxy
    finds 20 "a scheduler and a kube-proxy are stopped" control-plane,network-program True
    check "the fix of control-plane works" follow_fix control-plane
    check "the fix of network-program works" follow_fix network-program
  fi
  healthy
  kubectl delete validatingwebhookconfiguration policy
  on node1 systemctl stop kubexm-registry
  finds 30 "a registry that is stopped" registry 'found["registry"]["hosts"] == ["node1"]'
  undone registry
  took "API and workloads"
}
