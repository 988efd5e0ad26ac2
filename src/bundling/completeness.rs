//! Checks at build time that clusters can be installed from a bundle without any other source.

use std::sync::Arc;

use futures_util::future::try_join_all;

use kubexm_bundle::{Blobs, Bundle, Lock};
use kubexm_catalog::Catalog;
use kubexm_config::Cluster;
use kubexm_deploy::completeness;
use kubexm_fetch::resolve::Resolver;
use kubexm_session::CommandError;
use kubexm_session::program_settings::{self, Programs};
use kubexm_types::WarningKind;
use kubexm_types::event::Events;

/// Checks every cluster in question: the given one, or the default clusters of each Kubernetes version.
///
/// # Errors
/// Lists everything that the bundle does not have, and what the bundled kubeadm refuses.
pub async fn check(
    resolver: &Resolver<'_>,
    catalog: &Catalog,
    lock: &Lock,
    cluster: Option<&Cluster>,
    events: &Events,
) -> Result<(), CommandError> {
    events.phase("completeness");
    let clusters = match cluster {
        Some(cluster) => vec![cluster.clone()],
        None => {
            let versions = lock.kubernetes.iter();
            let defaults = versions.map(|version| completeness::default_clusters(lock, version));
            defaults.collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    let blobs: Arc<dyn Blobs> = Arc::new(resolver.http.cache().clone());
    if let Some(warning) = catalog.unknown_kubernetes(lock) {
        events.warn(WarningKind::NotChecked, warning);
    }
    let mut findings = catalog.incompatibilities(lock);
    for cluster in &clusters {
        let report = completeness::check(cluster, lock, &blobs)?;
        findings.extend(report.findings.iter().cloned());
        let refused = ask_kubeadm(resolver, lock, cluster, &report).await?;
        // Without the rest of the bundle there is no plan, and so no configuration of a program.
        if report.findings.is_empty() {
            let programs = Programs {
                lock,
                blobs: Arc::clone(&blobs),
                sandbox: resolver.http.sandbox().clone(),
            };
            match programs.refusals(cluster).await? {
                Some(refused) => findings.extend(refused.iter().map(ToString::to_string)),
                None => events.note(program_settings::OTHER_ARCHITECTURE),
            }
        }
        findings.extend(refused);
    }
    for facts in &lock.kubeadm {
        if facts.minimum_etcd.is_none() {
            events.note(format!(
                "kubeadm {} did not report the oldest external etcd that it supports",
                facts.version
            ));
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(CommandError::Incomplete {
        missing: findings,
        default_clusters: cluster.is_none(),
    })
}

/// Runs the bundled kubeadm on the configuration and the patches of a cluster.
async fn ask_kubeadm(
    resolver: &Resolver<'_>,
    lock: &Lock,
    cluster: &Cluster,
    report: &completeness::Report,
) -> Result<Vec<String>, CommandError> {
    let version = &cluster.kubernetes.version;
    if !lock.kubernetes.contains(version) {
        return Ok(Vec::new());
    }
    let kubeadm = resolver.kubeadm(version, &lock.files).await?;
    let configs = report.configs.iter();
    let answers = try_join_all(configs.map(|config| kubeadm.validate(&config.text))).await?;
    let mut findings = Vec::new();
    for (config, answer) in report.configs.iter().zip(answers) {
        if let Err(message) = answer {
            findings.push(format!(
                "{}: kubeadm {version} refuses its configuration: {message}",
                config.title
            ));
        }
    }
    for patches in &report.patches {
        let (config, folder) = (&patches.config, patches.folder);
        if let Err(message) = kubeadm.apply(config, folder, &patches.files).await? {
            findings.push(format!(
                "{}: kubeadm {version} refuses the patches: {message}",
                patches.title
            ));
        }
    }
    Ok(findings)
}

/// Returns what prevents an install of the default clusters from this lock, one sentence for each cause.
pub fn missing(lock: &Lock, bundle: &Arc<Bundle>) -> Result<Vec<String>, CommandError> {
    let blobs: Arc<dyn Blobs> = Arc::clone(bundle) as _;
    let mut missing = Vec::new();
    for version in &lock.kubernetes {
        for cluster in completeness::default_clusters(lock, version)? {
            let findings = completeness::check(&cluster, lock, &blobs)?.findings;
            let findings = findings.iter();
            missing.extend(findings.map(|what| format!("Kubernetes {version}: {what}")));
        }
    }
    Ok(missing)
}
