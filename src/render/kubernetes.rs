//! Kubernetes' programs without kubeadm: units, kubeconfigs, policies.

use std::collections::BTreeMap;

use askama::Template;

use super::filters;

/// A program with flags, as `ExecStart=` takes it: one flag a line, since a line that is too long to
/// read hides what is wrong in it.
pub fn command(binary: &str, flags: &BTreeMap<String, String>) -> String {
    let words = flags
        .iter()
        .map(|(name, value)| word(&format!("--{name}={value}")));
    std::iter::once(word(binary))
        .chain(words)
        .collect::<Vec<_>>()
        .join(" \\\n  ")
}

/// One word of a command line of systemd: what it would expand or split is quoted
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
    match text.chars().all(plain) {
        true => quoted,
        false => format!("\"{quoted}\""),
    }
}

/// `kube-apiserver.service` and those of the other programs of a control plane.
#[derive(Template)]
#[template(path = "kubernetes/control-plane.service")]
pub struct ControlPlaneService {
    /// The program's name.
    pub name: &'static str,
    /// The program with its flags, by [`command`].
    pub command: String,
    /// Whether it tells systemd when it is up.
    pub notifies: bool,
    /// Folder of its logs, below `/var/log`.
    pub logs: Option<&'static str>,
}

/// `kube-proxy.service`.
#[derive(Template)]
#[template(path = "kubernetes/kube-proxy.service")]
pub struct KubeProxyService {
    /// The program with its flags, by [`command`].
    pub command: String,
}

/// A kubeconfig.
#[derive(Template)]
#[template(path = "kubernetes/kubeconfig.yaml")]
pub struct Kubeconfig<'a> {
    /// Cluster name.
    pub cluster: &'a str,
    /// Address of the API server, `https://host:port`.
    pub server: &'a str,
    /// The CA that signed its certificate, PEM.
    pub ca: &'a str,
    /// The user's name.
    pub user: &'a str,
    /// The user's certificate, PEM.
    pub certificate: &'a str,
    /// The user's key, PEM. Secret.
    pub key: &'a str,
}

/// KubeSchedulerConfiguration.
#[derive(Template)]
#[template(path = "kubernetes/scheduler.yaml")]
pub struct Scheduler {
    /// The scheduler's kubeconfig.
    pub kubeconfig: String,
}

/// The API server's audit policy.
#[derive(Template)]
#[template(path = "kubernetes/audit-policy.yaml")]
pub struct AuditPolicy;

/// Bindings of roles that the API server brings along.
#[derive(Template)]
#[template(path = "kubernetes/access.yaml")]
pub struct Access {
    /// The administrators' group.
    pub admins: &'static str,
    /// As whom the API server calls kubelets.
    pub kubelet_client: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_splits_and_expands_nothing() {
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
}
