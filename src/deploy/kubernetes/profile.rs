//! `spec.security` on control planes: encryption of Secrets, admission control, and service accounts.

use std::time::Duration;

use super::default_accounts::DefaultAccounts;
use super::hardening::Flag;
use crate::{DeployError, Inputs};
use kubexm_config::cluster::{ApplicationContent, Cluster};
use kubexm_engine::Limit;
use kubexm_engine::plan::{About, Task};
use kubexm_engine::steps::{RunScript, Undo, WaitFor, WriteFile};
use kubexm_pki::secret_keys::EncryptionKeys;
use kubexm_render::security as template;
use kubexm_scripts::kubernetes as scripts;
use kubexm_scripts::undo::MARKERS_REMOVE;
use kubexm_types::HostPath;

/// The directory of the files, which the API server's pod mounts. A pod that mounts a single file does not see its
/// replacement.
pub(super) const DIR: &str = "/etc/kubernetes/kubexm";
const ENCRYPTION: &str = "/etc/kubernetes/kubexm/encryption.yaml";
const ADMISSION: &str = "/etc/kubernetes/kubexm/admission.yaml";

/// Namespaces that every cluster has, besides those of its own programs.
const NAMESPACES: [&str; 3] = ["default", "kube-node-lease", "kube-public"];

/// How long API servers may take to read a changed configuration of the encryption.
const KNOWN: Duration = Duration::from_secs(120);
/// How long all Secrets of a cluster may take to be written again.
const REWRITE: Limit = Limit::new(Duration::from_secs(1800), "writing all Secrets again");

/// Returns true if the API server reads files in [`DIR`].
pub(super) fn has_files(cluster: &Cluster) -> bool {
    cluster.security.is_cis() || cluster.security.encryption.is_some()
}

/// Returns the flags of the API server.
pub(super) fn api_server(cluster: &Cluster) -> Vec<Flag> {
    let mut flags = Vec::new();
    if cluster.security.encryption.is_some() {
        flags.extend([
            ("encryption-provider-config", ENCRYPTION.to_owned()),
            (
                "encryption-provider-config-automatic-reload",
                "true".to_owned(),
            ),
        ]);
    }
    if cluster.security.is_cis() {
        flags.extend([
            ("admission-control-config-file", ADMISSION.to_owned()),
            (
                "enable-admission-plugins",
                "NodeRestriction,EventRateLimit,DenyServiceExternalIPs".to_owned(),
            ),
            (
                "service-account-extend-token-expiration",
                "false".to_owned(),
            ),
        ]);
    }
    flags
}

/// Returns the flags of the controller manager.
pub(super) fn controller_manager(cluster: &Cluster) -> Vec<Flag> {
    if cluster.security.is_cis() {
        vec![("terminated-pod-gc-threshold", "1000".to_owned())]
    } else {
        Vec::new()
    }
}

/// Adds the steps that write the API server's files.
pub(super) fn write_files(inputs: &Inputs<'_>, mut task: Task) -> Result<Task, DeployError> {
    if let Some(keys) = &inputs.certificates.encryption {
        let names = keys.all().map(|key| key.name.clone());
        let same_keys = RunScript::new(
            "encryption keys",
            "Compare the encryption keys",
            scripts::ENCRYPTION_KEYS.verb("check"),
            scripts::ENCRYPTION_KEYS.verb("refuse"),
        );
        let text = encryption_text(keys)?;
        task = task
            .step(same_keys.arguments(std::iter::once(ENCRYPTION.to_owned()).chain(names)))
            .step(WriteFile::secret(HostPath::parse(ENCRYPTION)?, text));
    }
    if inputs.cluster.security.is_cis() {
        let admission = template::Admission {
            namespaces: exempt_namespaces(inputs.cluster),
        };
        let text = kubexm_render::text("admission configuration", &admission)?;
        let file = WriteFile::new(HostPath::parse(ADMISSION)?, text);
        task = task.step(WriteFile {
            mode: 0o600,
            ..file
        });
    }
    Ok(task)
}

/// Returns the files that the API server reads.
pub(super) fn read_at_start(cluster: &Cluster) -> Result<Vec<HostPath>, DeployError> {
    let files = [
        cluster.security.encryption.map(|_| ENCRYPTION),
        cluster.security.is_cis().then_some(ADMISSION),
    ];
    let paths = files.into_iter().flatten().map(HostPath::parse);
    Ok(paths.collect::<Result<_, _>>()?)
}

/// Adds the steps that encrypt all Secrets with the first key, after all API servers know it.
pub(super) fn rewrite(inputs: &Inputs<'_>, task: Task) -> Task {
    let Some(keys) = &inputs.certificates.encryption else {
        return task;
    };
    let first = keys.keys.first().filter(|_| keys.writes);
    let marker = match first {
        Some(key) => format!("encryption-{}-{}", key.provider.name(), key.name),
        None => "encryption-identity".to_owned(),
    };
    let arguments = [marker.as_str(), ENCRYPTION];
    let known = WaitFor {
        title: "Wait until all API servers have read the keys of Secrets".to_owned(),
        script: scripts::ENCRYPTION_REWRITE.verb("known"),
        arguments: arguments.map(str::to_owned).into(),
        at_most: KNOWN,
        diagnosis: "date; stat -c %y /etc/kubernetes/kubexm/encryption.yaml".into(),
        about: About::Other,
    };
    let rewrite = RunScript::new(
        "encrypted secrets",
        "Encrypt all Secrets with the current key",
        scripts::ENCRYPTION_REWRITE.verb("check"),
        scripts::ENCRYPTION_REWRITE.verb("apply"),
    );
    task.step(known).step(
        rewrite
            .limit(REWRITE)
            .arguments(arguments)
            .undo(Undo::run(MARKERS_REMOVE, ["encryption"])),
    )
}

/// Returns the step after which pods without a service account of their own get no token, in the namespaces that an
/// install creates; `None` without the profile `cis`.
pub(crate) fn default_accounts(cluster: &Cluster) -> Option<DefaultAccounts> {
    let namespaces = own_namespaces(cluster).into_iter().chain(NAMESPACES);
    let is_cis = cluster.security.is_cis();
    is_cis.then(|| DefaultAccounts(namespaces.collect()))
}

fn encryption_text(keys: &EncryptionKeys) -> Result<String, DeployError> {
    let mut providers: Vec<template::Provider> = Vec::new();
    for one in keys.all() {
        let name = one.provider.name();
        let key = template::Key {
            name: one.name.clone(),
            secret: one.secret.clone(),
        };
        match providers.iter_mut().find(|provider| provider.name == name) {
            Some(provider) => provider.keys.push(key),
            None => providers.push(template::Provider {
                name,
                keys: vec![key],
            }),
        }
    }
    let encryption = template::Encryption {
        writes: keys.writes,
        providers,
    };
    Ok(kubexm_render::text(
        "encryption configuration",
        &encryption,
    )?)
}

/// Returns the namespaces of the cluster's own programs, whose pods need the host.
fn own_namespaces(cluster: &Cluster) -> Vec<&'static str> {
    [
        &["kube-system"],
        cluster.network.plugin.properties().namespaces,
    ]
    .concat()
}

/// Returns the namespaces of the cluster's own programs, and of add-ons whose pods need the host.
fn exempt_namespaces(cluster: &Cluster) -> Vec<&str> {
    let applications = cluster.applications.iter();
    let addons = applications.filter_map(|one| match &one.content {
        ApplicationContent::Addon { kind, .. } => {
            let needs_host = kind.properties().needs_host;
            needs_host.then(|| one.namespace.as_str())
        }
        _ => None,
    });
    own_namespaces(cluster).into_iter().chain(addons).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::cluster::{Encryption, EncryptionProvider};

    fn providers(key: u32) -> serde_json::Value {
        let keys = EncryptionKeys::placeholder(Encryption {
            provider: EncryptionProvider::Secretbox,
            key,
        });
        let text = encryption_text(&keys).unwrap();
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        value["resources"][0]["providers"].clone()
    }

    #[test]
    fn first_provider_writes_and_plain_text_remains_readable() {
        let prepared = providers(0);
        assert!(prepared[0]["identity"].is_object(), "{prepared}");
        assert_eq!(prepared[1]["secretbox"]["keys"][0]["name"], "key1");
        let written = providers(2);
        let keys = written[0]["secretbox"]["keys"].as_array().unwrap();
        let names: Vec<_> = keys
            .iter()
            .map(|key| key["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["key2", "key3", "key1"]);
        assert!(written[1]["identity"].is_object(), "{written}");
    }
}
