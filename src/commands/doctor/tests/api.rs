//! What answers of the API lead to.

use super::*;

#[test]
fn answers_of_the_api_lead_to_their_cause() {
    let pod = "default/web-1\tnode2\tPending\t2026-01-02T03:00:00Z\t[]\t";
    let image = format!(
        "pod={pod}[{{\"ready\":false,\"image\":\"x:1\",\"state\":{{\"waiting\":{{\"reason\":\"ErrImagePull\",\"message\":\"not found\"}}}}}}]\t"
    );
    for (old, new, check) in [
        ("slice=", "slice=default/policy\tfalse", "webhooks"),
        (
            "apiservice=",
            "apiservice=v1.x\tdefault/x\t[{\"type\":\"Available\",\"status\":\"False\",\"message\":\"m\"}]",
            "api-services",
        ),
        (
            "node=",
            "node=node2\t[{\"address\":\"10.0.2.15\",\"type\":\"InternalIP\"}]\t",
            "node-address",
        ),
        (
            "",
            "request=csr-1\tkubernetes.io/kubelet-serving\tsystem:node:node2\t2026-01-02T03:00:00Z\t",
            "kubelet-requests",
        ),
        ("", image.as_str(), "images"),
        ("", &format!("pod={pod}\t"), "pods"),
        ("dns=", "dns=coredns-1\tnode1\t10.244.0.2\tFalse", "dns"),
        (
            "",
            "terminating=old\t2026-01-02T02:00:00Z\t[{\"status\":\"True\",\"message\":\"m\"}]",
            "namespaces",
        ),
    ] {
        let report = judge(&seen(HOST, RUNTIME, &changed(API, old, new)));
        assert_eq!(causes(&report), [check], "{new}");
    }
}
