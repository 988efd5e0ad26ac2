# shellcheck shell=bash disable=SC2154 # `tests/e2e-upgrade` sets and uses the variables
# What is wrong with a cluster before its upgrade: each is planted, named and removed. Sourced by tests/e2e-upgrade.

refused_by() { # TEXT: nothing changes, because of an object that is deleted afterwards
  local object
  object=$(cat)
  kubectl apply -f - <<<"$object"
  sleep 3
  upgrade_ends 2 "$1"
  local ended=$?
  kubectl delete --wait=true --grace-period=1 -f - <<<"$object"
  [ "$ended" = 0 ] && all_at "$before" "$count"
}
refused_objects() {
  check "a pod without a controller stops the upgrade before it begins" refused_by "default/alone on node" <<EOF
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: alone, image: "registry.k8s.io/pause:$PAUSE"}], terminationGracePeriodSeconds: 1}
EOF
  check "a budget without allowance stops the upgrade before it begins" refused_by "PodDisruptionBudgets permit no eviction.*default/strict" <<EOF
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: strict}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
EOF
  check "a webhook without an endpoint stops the upgrade before it begins" refused_by "webhook.example.com (default/policy)" <<EOF
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy}
webhooks:
  - name: webhook.example.com
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    clientConfig: {service: {namespace: default, name: policy}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [serviceaccounts]}]
EOF
}
# A certificate signing request without a decision is a warning. A certificate that expires today prevents the upgrade.
open_questions() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/anna.key" -out "$work/anna.csr" -subj /CN=anna 2>/dev/null
  kubectl create -f - <<EOF
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: anna}
spec: {signerName: example.com/anna, usages: [client auth], request: $(base64 -w 0 <"$work/anna.csr")}
EOF
  check "a dry run names a certificate signing request without a decision" upgrade_ends 0 "neither approved nor denied.*anna" --dry-run
  grep 'neither approved' "$work/upgrade.log"
  kubectl delete csr anna
  [ "$each" = systemd ] || return 0
  expires_today
}
expires_today() {
  local file=/etc/kubernetes/pki/front-proxy-client each
  for each in crt key; do cp "$state/pki/kubernetes/front-proxy-ca.$each" "$work/front-proxy.$each"; done
  on node1 cp -a "$file.crt" /root/
  on node1 cat "$file.key" >"$work/leaf.key"
  lifetime 60
  on node1 cat "$file.crt" | short_lived front-proxy "$work/leaf.key" >"$work/short.crt"
  write_on node1 "$file.crt" <"$work/short.crt"
  check "a certificate that expires today stops the upgrade before it begins" upgrade_ends 2 "node1.*$file.crt"
  grep -A 1 "$file.crt" "$work/upgrade.log"
  check "and nothing changes" all_at "$before" "$count"
  on node1 mv /root/front-proxy-client.crt "$file.crt"
}
# A client requests a resource that the new version does not have.
deprecated_apis() {
  local manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  # The kubelet reads each file of the directory, so the copy is elsewhere.
  on node1 sh -euc "cp $manifest /root/kube-apiserver.yaml; sed -i 's|^    - kube-apiserver\$|&\n    - --runtime-config=storage.k8s.io/v1alpha1=true|' $manifest"
  check "the API server of node1 serves a resource that Kubernetes 1.35 does not have" until_true 120 old_resource
  check "a dry run names it, because a client has requested it" \
    upgrade_ends 0 "volumeattributesclasses.storage.k8s.io/v1alpha1 (until 1.35)" --dry-run
  grep -A 1 'clients have requested' "$work/upgrade.log"
  on node1 mv /root/kube-apiserver.yaml "$manifest"
  must "the API server of node1 runs with its own settings" until_true 120 no_old_resource
}
old_resource() { of_node1 get --raw /apis/storage.k8s.io/v1alpha1/volumeattributesclasses; }
no_old_resource() { of_node1 get --raw /readyz && ! old_resource; }
of_node1() { kubectl --server "https://$(address_of node1):6443" --tls-server-name kubernetes --request-timeout 5s "$@"; }
# An administrator gives a worker a flag and a feature gate that its kubelet has, and the new one has not.
live_settings() {
  on node4 sh -euc 'echo "KUBELET_EXTRA_ARGS=--feature-gates=MemoryManager=true --pod-infra-container-image=x" >/etc/default/kubelet'
  check "the kubelet of a worker runs with a gate of its administrator" restart_kubelet node4
  check "the gate stops the upgrade before it begins" upgrade_ends 2 \
    "node4: kubelet runs with --feature-gates in /etc/default/kubelet, and kubelet $version refuses it: unrecognized feature gate: MemoryManager"
  check "so does the flag" grep -q \
    "node4: kubelet runs with --pod-infra-container-image in /etc/default/kubelet, and kubelet $version refuses it: unknown flag" "$work/upgrade.log"
  grep -A 1 'kubelet runs with' "$work/upgrade.log" | sort -u
  check "and nothing changes" all_at "$before" "$count"
  on node4 rm /etc/default/kubelet
  must "the kubelet runs without them" restart_kubelet node4
  # kube-proxy keeps a configuration that someone has edited.
  kubectl -n kube-system get configmap kube-proxy -o yaml >"$work/proxy.yaml"
  sed 's/^    kind: KubeProxyConfiguration/    featureGates: {TopologyAwareHints: true}\n&/' "$work/proxy.yaml" | kubectl apply -f -
  check "a gate of kube-proxy stops the upgrade before it begins" upgrade_ends 2 "kube-proxy $version refuses the configuration.*TopologyAwareHints"
  grep -A 1 'kube-proxy .* refuses' "$work/upgrade.log" | sort -u
  sed -i '/^  resourceVersion:/d' "$work/proxy.yaml"
  kubectl replace -f "$work/proxy.yaml"
  decoded_strictly
}
# Fields that the upgrade does not keep are warnings.
decoded_strictly() {
  on node4 sh -euc 'cp /var/lib/kubelet/config.yaml /root/config.yaml; echo "noSuchField: 1" >>/var/lib/kubelet/config.yaml'
  kubectl -n kube-system get configmap kubeadm-config -o yaml >"$work/kubeadm-config.yaml"
  sed 's/^    kind: ClusterConfiguration/    useHyperKubeImage: true\n&/' "$work/kubeadm-config.yaml" | kubectl apply -f -
  check "a dry run decodes the configurations on hosts and in the cluster" upgrade_ends 0 \
    "node4: /var/lib/kubelet/config.yaml: kubelet $version refuses the configuration: strict decoding error: unknown field \"noSuchField\"" --dry-run
  check "kubeadm decodes its own" grep -q \
    "kubeadm $version refuses the configuration in the ConfigMap kube-system/kubeadm-config: strict decoding error: unknown field \"useHyperKubeImage\"" \
    "$work/upgrade.log"
  grep -A 1 'refuses the configuration' "$work/upgrade.log" | sort -u
  on node4 mv /root/config.yaml /var/lib/kubelet/config.yaml
  sed -i '/^  resourceVersion:/d' "$work/kubeadm-config.yaml"
  kubectl replace -f "$work/kubeadm-config.yaml"
}
