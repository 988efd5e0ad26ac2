//! Kubernetes without kubeadm: units, kubeconfigs and policies.

use std::collections::BTreeMap;

use askama::Template;

use super::filters;

/// Returns the value of `ExecStart=` for a program with flags. Each flag has its own line, for readability.
pub fn command(binary: &str, flags: &BTreeMap<String, String>) -> String {
    let words = flags
        .iter()
        .map(|(name, value)| word(&format!("--{name}={value}")));
    std::iter::once(word(binary))
        .chain(words)
        .collect::<Vec<_>>()
        .join(" \\\n  ")
}

/// Quotes an argument of a command line in a unit, so that systemd does not expand or split it
/// (<https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines>).
fn word(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '%' => quoted.push_str("%%"),
            '$' => quoted.push_str("$$"),
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    let plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | ';');
    if text.chars().all(plain) {
        quoted
    } else {
        format!("\"{quoted}\"")
    }
}

/// `kube-apiserver.service` and those of the other programs of a control plane.
#[derive(Template)]
#[template(path = "kubernetes/control-plane.service")]
pub struct ControlPlaneService {
    /// The name of the program.
    pub name: &'static str,
    /// The program with its flags, as [`command`] returns it.
    pub command: String,
    /// Whether the program notifies systemd when it is ready.
    pub notifies: bool,
    /// The name of its log directory in `/var/log`.
    pub logs: Option<&'static str>,
}

/// `kube-proxy.service`.
#[derive(Template)]
#[template(path = "kubernetes/kube-proxy.service")]
pub struct KubeProxyService {
    /// The program with its flags, as [`command`] returns it.
    pub command: String,
}

/// A kubeconfig.
#[derive(Template)]
#[template(path = "kubernetes/kubeconfig.yaml")]
pub struct Kubeconfig<'a> {
    /// The name of the cluster. It may contain any character.
    pub cluster: &'a str,
    /// The URL of the API server, `https://host:port`.
    pub server: &'a str,
    /// The CA of the API server's certificate, PEM.
    pub ca: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// The certificate of the user, PEM.
    pub certificate: &'a str,
    /// The key of the user, PEM. Secret.
    pub key: &'a str,
}

/// A KubeSchedulerConfiguration.
#[derive(Template)]
#[template(path = "kubernetes/scheduler.yaml")]
pub struct Scheduler {
    /// Path of the scheduler's kubeconfig.
    pub kubeconfig: String,
}

/// The API server's audit policy.
#[derive(Template)]
#[template(path = "kubernetes/audit-policy.yaml")]
pub struct AuditPolicy;

/// Role bindings that the API server does not create.
#[derive(Template)]
#[template(path = "kubernetes/access.yaml")]
pub struct Access {
    /// The group of administrators.
    pub admins: &'static str,
    /// The user of the API server in requests to kubelets.
    pub kubelet_client: &'static str,
    /// kube-vip; `None` with another load balancer.
    pub kube_vip: Option<KubeVipAccess>,
}

/// What kube-vip may do.
pub struct KubeVipAccess {
    /// The user.
    pub user: &'static str,
    /// Whether it assigns addresses to services.
    pub services: bool,
    /// Whether it elects a host for each service.
    pub elects_by_service: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_systemd() {
        let flags = [
            ("v", "2"),
            ("a", "b c"),
            ("percent", "50%"),
            ("money", "$HOME"),
            ("q", "\"'\\"),
        ];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let command = command("/usr/bin/x", &flags.into());
        let lines: Vec<&str> = command.split(" \\\n  ").collect();
        assert_eq!(
            lines,
            [
                "/usr/bin/x",
                "\"--a=b c\"",
                "--money=$$HOME",
                "--percent=50%%",
                "\"--q=\\\"'\\\\\"",
                "--v=2"
            ]
        );
    }
    /// The name of a cluster is free text, so every character must survive the template.
    #[test]
    fn kubeconfig_is_valid_for_every_cluster_name() {
        for cluster in [
            "kubernetes",
            "a: b",
            "#1",
            "\"q\"",
            "back\\slash",
            "{x}",
            "ü\n- y",
            "true",
        ] {
            let kubeconfig = Kubeconfig {
                cluster,
                server: "https://192.0.2.11:6443",
                ca: "ca",
                user: "kubernetes-admin",
                certificate: "certificate",
                key: "key",
            };
            let text = crate::text("kubeconfig", &kubeconfig).unwrap();
            let parsed: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            let context = format!("kubernetes-admin@{cluster}");
            assert_eq!(parsed["current-context"], context.as_str(), "{text}");
            assert_eq!(parsed["contexts"][0]["name"], context.as_str(), "{text}");
            assert_eq!(parsed["contexts"][0]["context"]["cluster"], cluster);
            assert_eq!(parsed["clusters"][0]["name"], cluster, "{text}");
        }
    }
}
