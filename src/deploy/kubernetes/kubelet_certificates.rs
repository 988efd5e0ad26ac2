//! Certificates that a kubelet requests with a key of its own, once in a renewal or a rotation.

use std::time::Duration;

use crate::payloads::journal;
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{DeferredInput, RunScript, WaitFor};
use kubexm_scripts::kubernetes::KUBELET_CERTIFICATES;

/// The certificate of the server of a kubelet.
pub(super) const SERVING: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";
/// The step that lets the kubelet request certificates.
const ID: &str = "kubelet certificates";
/// How long a kubelet may take until it has a certificate.
const ISSUE: Duration = Duration::from_secs(180);

/// Adds the steps after which the kubelet of a node has a new certificate, and those in `files` are removed. It asks with the
/// first certificate in its kubeconfig, which `kubeconfig` replaces. Such a kubeconfig then names the new certificate.
pub(super) fn requested(
    id: &str,
    files: &[&str],
    kubeconfig: Option<DeferredInput>,
    task: Task,
) -> Task {
    let step = |name: &str, title, verb| {
        let check = KUBELET_CERTIFICATES.verb("check");
        let step = RunScript::new(name, title, check, KUBELET_CERTIFICATES.verb(verb));
        step.arguments([id].iter().chain(files).copied())
    };
    let record = if kubeconfig.is_some() {
        "name"
    } else {
        "record"
    };
    let mut request = step(ID, "Let the kubelet request new certificates", "request");
    request.input = kubeconfig;
    let wait = WaitFor {
        title: "Wait until the kubelet has a new certificate".to_owned(),
        script: KUBELET_CERTIFICATES.verb("issued"),
        arguments: vec![id.to_owned()],
        at_most: ISSUE,
        diagnosis: journal("kubelet", 10),
        about: About::OwnKubelet,
    };
    let title = "Record that the kubelet has new certificates";
    task.step(request)
        .step(wait)
        .step(step("kubelet certificates recorded", title, record))
}
