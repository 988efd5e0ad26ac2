//! Files of the network plugin on a node.

use super::{HOST, RUNTIME, changed, judge, seen};

/// Returns the commands about a node whose runtime has no network for pods.
fn commands(cni_file: &str) -> Vec<String> {
    let condition = "condition=NetworkReady\tfalse\tNetworkPluginNotReady\tno network config found";
    let host = changed(HOST, "cni_file=", cni_file);
    let report = judge(&seen(&host, &changed(RUNTIME, "", condition)));
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "network-program");
    found.unwrap().commands.clone()
}

#[test]
fn pod_of_the_plugin_that_writes_a_deleted_file_is_started_again() {
    let pod = "kubexm exec -f cluster.yaml --host node1 -- kubectl --kubeconfig /etc/kubernetes/admin.conf \
               -n kube-flannel delete pods -l app=flannel --field-selector spec.nodeName=node2";
    assert_eq!(commands("ntp=yes"), [pod]);
    // With its file, the pod has another problem.
    let file = "cni_file=/etc/cni/net.d/10-flannel.conflist";
    assert!(commands(file)[0].contains("get pods -A"));
}
