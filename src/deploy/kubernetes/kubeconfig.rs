//! Kubeconfigs that the controller fetches from the first control plane.

use crate::Inputs;
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind, LoadBalancer};
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::ProvideValue;
use kubexm_types::{Message, Version};

/// Returns the function that adapts the kubeconfig for the controller. With local proxies the endpoint is on
/// loopback, so the controller connects to the first control plane instead.
pub(crate) fn kubeconfig_for_controller(
    inputs: &Inputs<'_>,
    first: &HostSpec,
) -> impl Fn(&str) -> Result<String, Message> + Send + Sync + use<> {
    let local = matches!(
        inputs.cluster.high_availability.kind,
        LoadBalancer::Local { .. }
    );
    let endpoint = format!("https://{}", inputs.cluster.control_plane_endpoint);
    let address = inputs.cluster.api_server(first);
    let direct = format!("https://{address}");
    move |text| {
        Ok(if local {
            with_server(text, &endpoint, &direct)
        } else {
            text.to_owned()
        })
    }
}

/// Replaces the server of a kubeconfig. kubeadm writes addresses without quotes, kubexm with quotes.
fn with_server(kubeconfig: &str, from: &str, to: &str) -> String {
    let line = |line: &str| match line.split_once("server: ") {
        Some((indent, url))
            if indent.trim().is_empty() && url.trim_matches(['"', '\'']) == from =>
        {
            format!("{indent}server: {to}\n")
        }
        _ => format!("{line}\n"),
    };
    kubeconfig.lines().map(line).collect()
}

/// Returns the step that fetches the administrator's kubeconfig from the first control plane.
pub(crate) fn fetch_kubeconfig(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    fetch(
        inputs,
        first,
        "the administrator's kubeconfig",
        "cat /etc/kubernetes/admin.conf",
        value,
    )
}

/// Returns whether `kubeadm init` writes super-admin.conf. Versions before 1.29 have one kubeconfig for both.
pub(crate) fn has_super_admin(cluster: &Cluster) -> bool {
    cluster.kubernetes.kind == KubernetesKind::Kubeadm
        && cluster.kubernetes.version >= Version::new(1, 29, 0)
}

/// Returns the step that fetches super-admin.conf. No authorizer can restrict its group, and it cannot be
/// revoked, so kubexm removes it from the host after it is stored on this machine.
///
/// kubeadm needs the file during `kubeadm init` only: `kubeadm upgrade` and `kubeadm certs renew` skip it where it does not
/// exist
/// (<https://kubernetes.io/docs/setup/best-practices/certificates/#configure-certificates-for-user-accounts>).
pub(crate) fn fetch_super_admin(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    let script =
        "[ ! -e /etc/kubernetes/super-admin.conf ] || cat /etc/kubernetes/super-admin.conf";
    fetch(inputs, first, "super-admin.conf", script, value)
}

fn fetch(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    what: &str,
    script: &'static str,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    ProvideValue {
        title: format!("Fetch {what}"),
        script: script.into(),
        arguments: Vec::new(),
        input: None,
        parse: Box::new(kubeconfig_for_controller(inputs, first)),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_for_controller_names_a_host() {
        let direct = "https://192.0.2.11:6443";
        for server in ["https://127.0.0.1:7443", "'https://127.0.0.1:7443'"] {
            let text = format!("clusters:\n- cluster:\n    server: {server}\n  name: a\n");
            assert_eq!(
                with_server(&text, "https://127.0.0.1:7443", direct),
                format!("clusters:\n- cluster:\n    server: {direct}\n  name: a\n")
            );
        }
        let other = "    server: https://api.example:7443\n";
        assert_eq!(with_server(other, "https://127.0.0.1:7443", direct), other);
    }
}
