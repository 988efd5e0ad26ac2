//! Files of a node, as they are and as kubeadm generates them.

use std::collections::BTreeMap;

use serde_json::Value;

use kubexm_engine::plan::{Check, StepError};
use kubexm_engine::{Command, Host, HostError, Limit, Output};
use kubexm_scripts::kubeadm::{SETTINGS, Settings};
use kubexm_types::Message;

use crate::rotation_inputs::SIGNER;

pub(super) const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// Former files of changes that are not confirmed.
pub(super) const FORMERS: &str = "/var/lib/kubexm/settings";
/// Flags of the kubelet that have an effect only when a node registers. A join sets the first one for workers.
const REGISTRATION: [&str; 2] = ["--register-with-taints=", "--node-labels="];
/// A kubeadm that finds a CA without its key, as on a worker, asks for the certificates of a control plane. So it gets
/// another directory of certificates.
const NO_CERTIFICATES: &str = "/run/kubexm/none";
const CERTIFICATES: &str = "/etc/kubernetes/pki";
/// The unit of the kubelet can have a flag that replaces the setting of this name.
const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";

/// Runs a script of the node. A verb that asks a program has a short limit.
pub(super) async fn call(
    host: &dyn Host,
    title: &str,
    verb: &'static str,
    limit: Limit,
    parameters: impl IntoIterator<Item = String>,
) -> Result<Output, HostError> {
    let command = Command::from_script(SETTINGS.verb(verb), parameters);
    host.run(command.describe(title).limit(limit)).await
}

/// Files by their paths, and generated ones by their names.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Whether a change is not confirmed: its former files exist.
    pub(super) has_former: bool,
    files: BTreeMap<String, String>,
}

impl Look {
    /// Parses a line `former` if there are former files, and then for each file a line with its path and size, and its
    /// content. `None` for another text.
    pub(super) fn parse(printed: &[u8]) -> Option<Self> {
        let (has_former, mut rest) = match printed.strip_prefix(b"former\n") {
            Some(rest) => (true, rest),
            None => (false, printed),
        };
        let mut files = BTreeMap::new();
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = std::str::from_utf8(rest.get(..end)?).ok()?;
            let (path, size) = line.rsplit_once(' ')?;
            let content = rest.get(end + 1..)?;
            let (content, after) = content.split_at_checked(size.parse().ok()?)?;
            let content = String::from_utf8_lossy(content).into_owned();
            files.insert(path.to_owned(), content);
            rest = after;
        }
        Some(Self { has_former, files })
    }

    /// Returns the content of a file; empty if it does not exist.
    pub(super) fn content(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// Returns names and contents of what kubeadm has generated.
    fn generated(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter();
        let files = files.filter(|(path, _)| !path.starts_with('/'));
        files.map(|(name, content)| (name.as_str(), content.as_str()))
    }
}

/// Files of a kind that kubeadm generates.
#[derive(Clone, Copy)]
pub(super) struct Generated {
    /// Words of the phase of `kubeadm init`.
    pub(super) phase: &'static str,
    /// The directory of the files.
    pub(super) folder: &'static str,
}

/// A file that differs from what kubeadm generates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: String,
    pub(super) content: String,
    /// How it changes.
    pub(super) difference: String,
}

impl Generated {
    pub(super) const KUBELET: Self = Self {
        phase: "kubelet-start",
        folder: "/var/lib/kubelet",
    };
    pub(super) const ETCD: Self = Self {
        phase: "etcd local",
        folder: MANIFESTS,
    };

    /// Lets kubeadm generate the files, and reads those of the node.
    ///
    /// # Errors
    /// kubeadm refuses the configuration.
    pub(super) async fn look(
        self,
        host: &dyn Host,
        title: &str,
        config: &str,
        former: String,
    ) -> Result<Look, StepError> {
        let config = match self.folder {
            MANIFESTS => config.to_owned(),
            _ => without_certificates(config),
        };
        let parameters = Settings {
            config,
            phase: self.phase.to_owned(),
            path: self.folder.to_owned(),
            former,
            ..Settings::default()
        };
        let parameters = kubexm_scripts::Parameters::and(parameters, [DROP_IN, SIGNER]);
        let output = call(host, title, "look", Limit::DEFAULT, parameters).await?;
        let output = StepError::unless_done(title, output)?;
        let unreadable =
            || StepError::Other(Message::new(format!("{title}: the output is unreadable")));
        Look::parse(&output.stdout).ok_or_else(unreadable)
    }

    /// Returns the paths of the files.
    pub(super) fn paths(self, look: &Look) -> Vec<String> {
        let names = look.generated();
        names
            .map(|(name, _)| format!("{}/{name}", self.folder))
            .collect()
    }

    /// Returns the files that differ.
    pub(super) fn changed(self, look: &Look) -> Vec<Changed> {
        let mut changed = Vec::new();
        for (name, generated) in look.generated() {
            let path = format!("{}/{name}", self.folder);
            let present = look.content(&path);
            let (wanted, is_same) = match name {
                "kubeadm-flags.env" => {
                    let wanted = with_registration(generated, present);
                    let is_same = flags(&wanted) == flags(present);
                    (wanted, is_same)
                }
                "config.yaml" => {
                    let wanted = generated.replace(NO_CERTIFICATES, CERTIFICATES);
                    let is_replaced = look.content(DROP_IN).contains(" --resolv-conf=");
                    let is_same = settings(&wanted, is_replaced) == settings(present, is_replaced);
                    (wanted, is_same)
                }
                // During a rotation of the CA, it signs with another file (`kubeadm/rotate.sh`).
                "kube-controller-manager.yaml" if !look.content(SIGNER).is_empty() => {
                    let wanted = with_signer(generated);
                    let is_same = wanted == present;
                    (wanted, is_same)
                }
                _ => (generated.to_owned(), generated == present),
            };
            if !is_same {
                let lines = kubexm_engine::steps::unified(present, &wanted);
                changed.push(Changed {
                    difference: format!("{path} differs\n{lines}"),
                    content: wanted,
                    path,
                });
            }
        }
        changed
    }
}

/// Returns the check of files of a program.
pub(super) fn needed(interrupted: Option<String>, changed: &[Changed]) -> Check {
    let differences = changed.iter().map(|file| file.difference.clone());
    let reasons: Vec<String> = interrupted.into_iter().chain(differences).collect();
    if reasons.is_empty() {
        return Check::Satisfied;
    }
    Check::Needed {
        reason: reasons.join("\n"),
        shows_lines: !changed.is_empty(),
    }
}

/// Returns whether a pod or a node is ready.
pub(super) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Returns a configuration whose certificates are in another directory.
fn without_certificates(config: &str) -> String {
    let lines = config.split_inclusive('\n').map(|line| {
        if line.trim_end() == "kind: ClusterConfiguration" {
            format!("{}\ncertificatesDir: {NO_CERTIFICATES}\n", line.trim_end())
        } else {
            line.to_owned()
        }
    });
    lines.collect()
}

/// Returns generated flags of the kubelet with those of the node that have an effect only when it registers.
fn with_registration(generated: &str, present: &str) -> String {
    let mut wanted = generated.to_owned();
    for flag in REGISTRATION {
        let mut words = present.split([' ', '"', '\n']);
        let of_node = words.find(|word| word.starts_with(flag));
        if let Some(word) = of_node.filter(|_| !generated.contains(flag)) {
            let trimmed = wanted.trim_end();
            let inner = trimmed.strip_suffix('"').unwrap_or(trimmed);
            wanted = format!("{inner} {word}\"\n");
        }
    }
    wanted
}

/// Returns the flags of the kubelet in a fixed order.
fn flags(text: &str) -> Vec<&str> {
    let text = text.trim_start_matches("KUBELET_KUBEADM_ARGS=");
    let words = text.split([' ', '"', '\n']);
    let mut flags: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    flags.sort_unstable();
    flags
}

/// Returns the kubelet's configuration, without a value that its unit replaces: kubeadm writes the resolv.conf of the host on
/// which it runs, which is the first control plane for a join.
fn settings(text: &str, is_replaced: bool) -> Vec<&str> {
    let lines = text.lines();
    lines
        .filter(|line| !(is_replaced && line.starts_with("resolvConf: ")))
        .collect()
}

/// Returns the manifest of the controller manager with the certificate of a rotation.
fn with_signer(manifest: &str) -> String {
    const FLAG: &str = "--cluster-signing-cert-file=";
    let lines = manifest.split_inclusive('\n').map(|line| {
        let at = line.find(FLAG).map(|at| at + FLAG.len());
        match at.and_then(|at| line.get(..at)) {
            Some(start) => format!("{start}{SIGNER}\n"),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(has_former: bool, files: &[(&str, &str)]) -> Look {
        let files = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()));
        Look {
            has_former,
            files: files.collect(),
        }
    }

    #[test]
    fn files_are_separated_by_their_sizes() {
        let printed = b"former\na.yaml 4\nx 1\n/m/a.yaml 0\n/m/b 3\nendc 0\n";
        let found = Look::parse(printed).unwrap();
        assert!(found.has_former);
        assert_eq!(found.content("a.yaml"), "x 1\n");
        assert_eq!(found.content("/m/b"), "end");
        assert_eq!(found.generated().count(), 2);
        assert!(Look::parse(b"a.yaml 9\nx\n").is_none());
        assert!(Look::parse(b"no size").is_none());
    }

    #[test]
    fn flags_with_which_a_node_has_registered_are_no_difference() {
        let (name, path) = ("kubeadm-flags.env", "/var/lib/kubelet/kubeadm-flags.env");
        let generated = (name, "KUBELET_KUBEADM_ARGS=\"--a=1 --b=2\"\n");
        let of_node = |flags: &str| {
            let present = format!("KUBELET_KUBEADM_ARGS=\"{flags}\"\n");
            Generated::KUBELET.changed(&look(false, &[generated, (path, &present)]))
        };
        assert_eq!(
            of_node("--b=2 --register-with-taints=gpu:NoSchedule --a=1"),
            []
        );
        let changed = of_node("--register-with-taints=gpu:NoSchedule --a=0");
        let wanted = "KUBELET_KUBEADM_ARGS=\"--a=1 --b=2 --register-with-taints=gpu:NoSchedule\"\n";
        assert_eq!(changed[0].content, wanted);
        assert_eq!(changed[0].path, path);
    }

    #[test]
    fn resolv_conf_that_the_unit_of_the_kubelet_replaces_is_no_difference() {
        let path = "/var/lib/kubelet/config.yaml";
        let generated = ("config.yaml", "a: /run/kubexm/none/ca.crt\n");
        let present = (
            path,
            "a: /etc/kubernetes/pki/ca.crt\nresolvConf: /run/systemd\n",
        );
        let changed = Generated::KUBELET.changed(&look(false, &[generated, present]));
        assert_eq!(changed[0].content, "a: /etc/kubernetes/pki/ca.crt\n");
        let drop_in = (DROP_IN, "ExecStart=kubelet --resolv-conf=/run/a $FLAGS\n");
        let found = look(false, &[generated, present, drop_in]);
        assert_eq!(Generated::KUBELET.changed(&found), []);
    }

    /// During a rotation of the CA, the controller manager signs with a file of its own.
    #[test]
    fn signer_of_a_rotation_is_no_difference() {
        let generated = (
            "kube-controller-manager.yaml",
            "    - --cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt\n",
        );
        let present = format!("    - --cluster-signing-cert-file={SIGNER}\n");
        let present = (
            "/etc/kubernetes/manifests/kube-controller-manager.yaml",
            &*present,
        );
        let changed = |files: &[(&str, &str)]| Generated::ETCD.changed(&look(false, files)).len();
        assert_eq!(changed(&[generated, present]), 1);
        assert_eq!(changed(&[generated, present, (SIGNER, "one\n")]), 0);
    }

    #[test]
    fn kubeadm_gets_a_directory_without_certificates() {
        let config = "kind: InitConfiguration\n---\nkind: ClusterConfiguration\na: 1\n";
        let expected = "kind: InitConfiguration\n---\nkind: ClusterConfiguration\ncertificatesDir: /run/kubexm/none\na: 1\n";
        assert_eq!(without_certificates(config), expected);
    }
}
