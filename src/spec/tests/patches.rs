//! Patches for what kubeadm writes.

use super::are_named;

#[test]
fn every_fault_is_named_with_its_place_and_a_hint() {
    are_named([
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: kube-proxy, patch: {}}]}}",
            vec![
                "patches[0].target 'kube-proxy' is unknown",
                "kubexm 0.1.0 takes: kube-apiserver",
            ],
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, type: json, patch: {maxPods: 1}}]}}",
            vec!["patches[0].patch is fields", "type json wants a list"],
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}, {target: kube-scheduler, patch: {}, hosts: [node2]}]}}",
            vec![
                "13:81 spec.kubernetes.kubeadm.patches[1] names node2, which will have no kube-scheduler",
            ],
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: corednsdeployment, patch: {}, hosts: [node1]}]}}",
            vec!["CoreDNS is deployed once for the cluster"],
        ),
        (
            "v1.36.3}",
            "v1.30.4, kubeadm: {patches: [{target: corednsdeployment, patch: {}}]}}",
            vec!["is for corednsdeployment, which kubeadm 1.30.4 does not patch"],
        ),
        (
            "v1.36.3}",
            "v1.36.3, kubeadm: {patches: [{target: etcd, patch: {}}]}}\n  etcd: {type: kubexm}",
            vec!["is for kubeadm's etcd, and etcd.type says that it runs none"],
        ),
        (
            "v1.36.3}",
            "v1.36.3, type: kubexm, kubeadm: {patches: [{target: etcd, patch: {}}]}}\n  etcd: {type: kubexm}",
            vec!["is for kubeadm, and kubernetes.type is kubexm"],
        ),
    ]);
}
