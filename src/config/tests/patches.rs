//! Patches for what kubeadm writes.

use super::faults;

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    let told = faults([
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: kube-proxy, patch: {}}]}}",
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, type: json, patch: {maxPods: 1}}]}}",
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}, {target: kube-scheduler, patch: {}, hosts: [node2]}]}}",
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: corednsdeployment, patch: {}, hosts: [node1]}]}}",
        ),
        (
            "v1.36.3}",
            "v1.30.4, kubeadm: {patches: [{target: corednsdeployment, patch: {}}]}}",
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}]}}\n  etcd: {type: systemd}",
        ),
        (
            "v1.36.3}",
            "v1.36.3, type: systemd, kubeadm: {patches: [{target: etcd, patch: {}}]}}\n  etcd: {type: systemd}",
        ),
    ]);
    insta::assert_snapshot!(told, @"
    === v1.36.3, kubeadm: {patches: [{target: kube-proxy, patch: {}}]}}
    cluster.yaml:13:63: spec.kubernetes.kubeadm.patches[0].target: unknown value 'kube-proxy'
      hint: kubexm [version] accepts: kube-apiserver, kube-controller-manager, kube-scheduler, etcd, kubeletconfiguration, corednsdeployment
    === v1.36.3, kubeadm: {patches: [{target: etcd, type: json, patch: {maxPods: 1}}]}}
    cluster.yaml:13:88: spec.kubernetes.kubeadm.patches[0].patch: expected a list, found fields
      hint: type json needs a list, as in [{op: add, path: /maxPods, value: 200}]
    === v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}, {target: kube-scheduler, patch: {}, hosts: [node2]}]}}
    cluster.yaml:13:81: spec.kubernetes.kubeadm.patches[1]: names node2, which does not run kube-scheduler
      hint: remove the host, or give it the role
    === v1.36.3, kubeadm: {patches: [{target: corednsdeployment, patch: {}, hosts: [node1]}]}}
    cluster.yaml:13:54: spec.kubernetes.kubeadm.patches[0]: names hosts, but CoreDNS is deployed once for the cluster
      hint: remove hosts
    === v1.30.4, kubeadm: {patches: [{target: corednsdeployment, patch: {}}]}}
    cluster.yaml:13:54: spec.kubernetes.kubeadm.patches[0]: kubeadm 1.30.4 does not patch corednsdeployment
      hint: use Kubernetes 1.31 or newer, or the settings of spec.dns
    === v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}]}}
      etcd: {type: systemd}
    cluster.yaml:13:54: spec.kubernetes.kubeadm.patches[0]: is a patch for the etcd of kubeadm, and etcd.type is not kubeadm
      hint: use etcd.extraArgs with type: systemd; kubexm does not configure an external etcd
    === v1.36.3, type: systemd, kubeadm: {patches: [{target: etcd, patch: {}}]}}
      etcd: {type: systemd}
    cluster.yaml:13:69: spec.kubernetes.kubeadm.patches[0]: is a patch for kubeadm, and kubernetes.type is systemd
      hint: use extraArgs and extraConfig of the program instead
    ");
}
