//! Files of the network plugin on a node.

use kubexm_config::example::cluster;

use super::{HOST, RUNTIME, changed, judge, seen};

/// Returns the commands about a node whose runtime has no network for pods.
fn commands(plugin: &str, cni_file: &str) -> Vec<String> {
    let condition = "condition=NetworkReady\tfalse\tNetworkPluginNotReady\tno network config found";
    let host = changed(HOST, "cni_file=", cni_file);
    let mut seen = seen(&host, &changed(RUNTIME, "", condition));
    let sections = format!("network: {{plugin: {plugin}}}");
    seen.cluster.network = cluster("", &sections).network;
    let report = judge(&seen);
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "network-program");
    found.unwrap().commands.clone()
}

#[test]
fn pod_of_the_plugin_that_writes_a_deleted_file_is_started_again() {
    let exec = "kubexm exec -f cluster.yaml --host node1 -- kubectl --kubeconfig /etc/kubernetes/admin.conf";
    for (plugin, pods) in [
        ("flannel", "-n kube-flannel delete pods -l app=flannel"),
        // The manifest of the project, which kubexm applies, has no namespace of its own.
        (
            "calico",
            "-n kube-system delete pods -l k8s-app=calico-node",
        ),
        ("cilium", "-n kube-system delete pods -l k8s-app=cilium"),
    ] {
        let pod = format!("{exec} {pods} --field-selector spec.nodeName=node2");
        assert_eq!(commands(plugin, "ntp=yes"), [pod]);
    }
    // With its file, the pod has another problem.
    let file = "cni_file=/etc/cni/net.d/10-flannel.conflist";
    assert!(commands("flannel", file)[0].contains("get pods -A"));
}
