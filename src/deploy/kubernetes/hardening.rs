//! Secure defaults of Kubernetes' programs, independent of how they run. Settings of the user override them.

use super::profile;
use kubexm_config::cluster::{Cluster, Component, IpFamily, NODE_PREFIX, Validity};
use serde_json::Value;

/// The policy that determines what the API server logs.
pub(super) const AUDIT_POLICY: &str = "/etc/kubernetes/audit-policy.yaml";
/// The directory of the audit log.
pub(super) const AUDIT_LOGS: &str = "/var/log/kubernetes";
/// The CA of nodes, at the path that kubeadm uses.
const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// The oldest version of TLS that the API server and the kubelet accept.
pub(super) const MIN_TLS: &str = "VersionTLS12";

/// Cipher suites of TLS 1.2 with forward secrecy and authenticated encryption (RFC 7525, section 4.2). TLS 1.3 has no
/// others.
pub(super) const CIPHERS: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// A flag and its value.
pub(super) type Flag = (&'static str, String);

/// How long an API server that stops still answers, after it has reported that it is not ready. The load balancers of kubexm
/// notice it within three seconds.
const SHUTDOWN_DELAY: &str = "10s";

/// Returns the flags of the API server. All versions from 1.28 to 1.36 support them.
pub(super) fn api_server(cluster: &Cluster) -> Vec<Flag> {
    let mut flags = vec![
        ("audit-log-maxage", "30".to_owned()),
        ("audit-log-maxbackup", "10".to_owned()),
        ("audit-log-maxsize", "100".to_owned()),
        ("audit-log-path", format!("{AUDIT_LOGS}/audit.log")),
        ("audit-policy-file", AUDIT_POLICY.to_owned()),
        ("profiling", "false".to_owned()),
        ("tls-cipher-suites", CIPHERS.join(",")),
        ("tls-min-version", MIN_TLS.to_owned()),
    ];
    flags.extend(profile::api_server(cluster));
    if cluster.roles.control_plane.len() > 1 {
        // Clients go to another API server before this one refuses connections.
        flags.push(("shutdown-delay-duration", SHUTDOWN_DELAY.to_owned()));
    }
    if kubelets_request_certificates(cluster) {
        // With this flag the API server verifies the certificates of kubelets.
        flags.push(("kubelet-certificate-authority", CA.to_owned()));
    }
    flags
}

/// Returns the flags of the controller manager.
pub(super) fn controller_manager(cluster: &Cluster) -> Vec<Flag> {
    let mut flags = scheduler();
    flags.extend(profile::controller_manager(cluster));
    let validity = cluster.kubernetes.validity;
    if validity != Validity::default() {
        // The certificates of kubelets.
        let hours = u32::from(validity.days) * 24;
        flags.push(("cluster-signing-duration", format!("{hours}h0m0s")));
    }
    if cluster.network.pod_cidr.is_dual() {
        // The controller manager accepts them for both address families only.
        flags.extend(
            [
                ("node-cidr-mask-size-ipv4", IpFamily::V4),
                ("node-cidr-mask-size-ipv6", IpFamily::V6),
            ]
            .map(|(name, family)| (name, NODE_PREFIX.of(family).to_string())),
        );
    }
    flags
}

/// Returns the flags of the scheduler.
pub(super) fn scheduler() -> Vec<Flag> {
    vec![("profiling", "false".to_owned())]
}

/// Adds defaults to the settings of the user.
pub(super) fn with_defaults(component: &Component, defaults: Vec<Flag>) -> Component {
    let mut component = component.clone();
    for (name, value) in defaults {
        component.extra_args.entry(name.to_owned()).or_insert(value);
    }
    component
}

/// Returns false if the user gives kubelets other serving certificates than those that the cluster's CA signs.
fn kubelets_request_certificates(cluster: &Cluster) -> bool {
    let kubernetes = &cluster.kubernetes;
    let patches = kubernetes.kubeadm.patches.iter().map(|patch| &patch.change);
    let mut settings = patches.chain([&kubernetes.kubelet.extra_config]);
    let other = |settings: &Value| {
        let bootstrap = &settings["serverTLSBootstrap"];
        *bootstrap == Value::Bool(false) || settings["tlsCertFile"].is_string()
    };
    let null = |settings: &Value| {
        let fields = settings.as_object();
        fields.is_some_and(|fields| fields.get("serverTLSBootstrap") == Some(&Value::Null))
    };
    !settings.any(|settings| other(settings) || null(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(settings: &str, name: &str) -> Option<String> {
        let cluster = crate::example::cluster(settings, "");
        let flags = api_server(&cluster).into_iter();
        flags
            .filter(|(flag, _)| *flag == name)
            .map(|(_, value)| value)
            .next()
    }

    #[test]
    fn api_server_verifies_kubelets_that_request_certificates() {
        let name = "kubelet-certificate-authority";
        assert_eq!(flag("", name).as_deref(), Some(CA));
        for other in [
            "kubelet: {extraConfig: {serverTLSBootstrap: false}}",
            "kubelet: {extraConfig: {tlsCertFile: /etc/site.crt}}",
            "kubeadm: {patches: [{target: kubeletconfiguration, patch: {serverTLSBootstrap: false}}]}",
        ] {
            assert_eq!(flag(other, name), None, "{other}");
        }
    }
}
