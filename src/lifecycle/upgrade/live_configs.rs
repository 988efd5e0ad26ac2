//! The configurations with which programs run: files on hosts, and ConfigMaps of kubeadm. The programs of a new version decode
//! them strictly.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::live::Origin;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName, Untrusted};

/// The longest configuration in bytes.
const LONGEST: usize = 256 << 10;

/// The configuration of a program on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostConfig {
    pub(super) program: &'static str,
    origin: Origin,
    path: String,
    pub(super) text: String,
}

/// A configuration that kubeadm keeps in a ConfigMap of the namespace kube-system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredConfig {
    /// The program that decodes it.
    pub(super) program: &'static str,
    name: &'static str,
    /// The key of its text, as a field of jsonpath.
    key: &'static str,
    /// Whether an upgrade writes it again from the cluster file.
    is_rendered: bool,
    pub(super) text: String,
}

impl HostConfig {
    /// Parses the words of a line after the first one; `None` if they have another form.
    pub(super) fn parse(
        program: &'static str,
        origin: Origin,
        path: &str,
        base64: &str,
    ) -> Option<Self> {
        let bytes = STANDARD.decode(base64).ok()?;
        let is_valid = path.starts_with('/') && bytes.len() <= LONGEST;
        is_valid.then(|| Self {
            program,
            origin,
            path: path.to_owned(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }

    fn finding(&self, host: &HostName, version: &str, reason: &str) -> Finding {
        let program = self.program;
        let path = Untrusted::one_line(&self.path, 200).to_string();
        let reason = Untrusted::one_line(reason, 300);
        let is_rendered = self.origin == Origin::Rendered;
        let what = format!("{path}: {program} {version} refuses the configuration: {reason}");
        let hint = if is_rendered {
            "the upgrade writes the file again from the cluster file, without what this program does not know".to_owned()
        } else {
            format!("correct {path} on {host}, then run kubexm upgrade again")
        };
        Finding::new(FindingKind::Settings, host, !is_rendered, what, &hint)
    }
}

impl StoredConfig {
    /// Returns the ConfigMaps, without their texts.
    pub(super) fn all() -> [Self; 3] {
        let stored = |program, name, key, is_rendered| Self {
            program,
            name,
            key,
            is_rendered,
            text: String::new(),
        };
        [
            stored("kubeadm", "kubeadm-config", "ClusterConfiguration", true),
            stored("kubelet", "kubelet-config", "kubelet", true),
            stored("kube-proxy", "kube-proxy", "config\\.conf", false),
        ]
    }

    /// Returns the arguments of the script that prints the text.
    pub(super) fn arguments(&self) -> [String; 2] {
        [
            self.name.to_owned(),
            format!("jsonpath={{.data.{}}}", self.key),
        ]
    }

    fn finding(&self, host: &HostName, version: &str, reason: &str) -> Finding {
        let (program, name) = (self.program, self.name);
        let reason = Untrusted::one_line(reason, 300);
        let what = format!(
            "{program} {version} refuses the configuration in the ConfigMap kube-system/{name}: {reason}"
        );
        let hint = if self.is_rendered {
            "the upgrade writes the ConfigMap again from the cluster file, without what this program does not know".to_owned()
        } else {
            format!(
                "remove the field with `kubectl -n kube-system edit configmap {name}`, then run kubexm upgrade again"
            )
        };
        Finding::new(FindingKind::Settings, host, !self.is_rendered, what, &hint)
    }
}

/// The configurations in a cluster.
#[derive(Debug, Default)]
pub(super) struct LiveConfigs {
    pub(super) on_hosts: BTreeMap<HostName, Vec<HostConfig>>,
    pub(super) stored: Vec<StoredConfig>,
}

impl LiveConfigs {
    /// Returns the texts that a program reads on hosts for which `changes` is true, and in the cluster.
    pub(super) fn texts(
        &self,
        program: &str,
        changes: impl Fn(&HostName) -> bool,
    ) -> BTreeSet<String> {
        let hosts = self.on_hosts.iter().filter(|(host, _)| changes(host));
        let on_hosts = hosts.flat_map(|(_, configs)| configs);
        let on_hosts = on_hosts.map(|config| (config.program, &config.text));
        let stored = self.stored.iter();
        let stored = stored.map(|config| (config.program, &config.text));
        on_hosts
            .chain(stored)
            .filter(|(of, text)| *of == program && !text.trim().is_empty())
            .map(|(_, text)| text.clone())
            .collect()
    }

    /// Returns the findings about the texts that a program of a version refuses. `asked` is the control plane that read the
    /// ConfigMaps.
    pub(super) fn findings(
        &self,
        program: &str,
        version: &str,
        refused: &BTreeMap<String, String>,
        asked: &HostName,
        changes: impl Fn(&HostName) -> bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (host, configs) in self.on_hosts.iter().filter(|(host, _)| changes(host)) {
            for config in configs.iter().filter(|config| config.program == program) {
                let reason = refused.get(&config.text);
                findings.extend(reason.map(|reason| config.finding(host, version, reason)));
            }
        }
        for config in self
            .stored
            .iter()
            .filter(|config| config.program == program)
        {
            let reason = refused.get(&config.text);
            findings.extend(reason.map(|reason| config.finding(asked, version, reason)));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(origin: Origin, text: &str) -> HostConfig {
        let base64 = STANDARD.encode(text);
        HostConfig::parse("kubelet", origin, "/var/lib/kubelet/config.yaml", &base64).unwrap()
    }

    #[test]
    fn refused_field_is_reported_with_its_file_and_host() {
        let mut configs = LiveConfigs::default();
        let own = Origin::File("/etc/default/kubelet".to_owned());
        let (first, second): (HostName, HostName) =
            ("node1".parse().unwrap(), "node2".parse().unwrap());
        configs
            .on_hosts
            .insert(first.clone(), vec![config(Origin::Rendered, "old: 1")]);
        configs.on_hosts.insert(
            second,
            vec![config(own, "old: 1"), config(Origin::Rendered, "new: 1")],
        );
        let mut stored = StoredConfig::all();
        stored[1].text = "old: 1".to_owned();
        configs.stored = stored.to_vec();
        assert_eq!(configs.texts("kubelet", |_| true).len(), 2);
        let reason = "strict decoding error: unknown field \"old\"".to_owned();
        let refused = BTreeMap::from([("old: 1".to_owned(), reason)]);
        let found = configs.findings("kubelet", "1.36.3", &refused, &first, |_| true);
        let found: Vec<(String, bool)> = found
            .into_iter()
            .map(|finding| (finding.what, finding.fatal))
            .collect();
        let file = "/var/lib/kubelet/config.yaml: kubelet 1.36.3 refuses the configuration: strict decoding error: unknown field \"old\"";
        let map = "kubelet 1.36.3 refuses the configuration in the ConfigMap kube-system/kubelet-config: strict decoding error: unknown field \"old\"";
        // An upgrade writes the first file and the ConfigMap again.
        assert_eq!(
            found,
            [
                (file.to_owned(), false),
                (file.to_owned(), true),
                (map.to_owned(), false)
            ]
        );
    }

    #[test]
    fn answers_are_bounded() {
        let long = STANDARD.encode("a".repeat(LONGEST + 1));
        for (path, base64) in [("/a", long.as_str()), ("/a", "%"), ("a", "")] {
            assert_eq!(
                HostConfig::parse("kubelet", Origin::Unknown, path, base64),
                None
            );
        }
    }
}
