//! The room that kubeadm needs on control planes for its copy of etcd.

use kubexm_config::Cluster;
use kubexm_config::cluster::{Etcd, KubernetesKind};
use kubexm_engine::plan::StepError;
use kubexm_host::Command;
use kubexm_preflight::Finding;
use kubexm_scripts::kubeadm::UPGRADE_SPACE;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::{FindingKind, HostName, Untrusted};

/// What must be free besides the copy, in KiB.
const RESERVE: u64 = 200 * 1024;

/// Returns a finding for each control plane that has no room for the copy of its member.
///
/// # Errors
/// A host was lost, or its answer has another form.
pub(super) async fn findings(
    cluster: &Cluster,
    hosts: &Hosts,
) -> Result<Vec<Finding>, CommandError> {
    let (Etcd::Kubeadm { .. }, KubernetesKind::Kubeadm) = (&cluster.etcd, cluster.kubernetes.kind)
    else {
        return Ok(Vec::new());
    };
    let Some(data) = cluster.etcd.data_directory() else {
        return Ok(Vec::new());
    };
    let mut findings = Vec::new();
    for name in &cluster.roles.control_plane {
        let Some(host) = hosts.get(name) else {
            continue;
        };
        let what = "read the size of etcd and the free space";
        let command = Command::from_script(UPGRADE_SPACE, [data]).describe(what);
        let output = host.run(command).await?;
        let failed = |cause: String| CommandError::step(format!("{name}: {what}: {cause}"));
        let output =
            StepError::unless_done(what, output).map_err(|error| failed(error.to_string()))?;
        let text = output.text();
        let (data, free) = parse(&text).ok_or_else(|| {
            let line = Untrusted::one_line(&text, 100);
            failed(format!("unexpected answer '{line}'"))
        })?;
        findings.extend(finding(name, data, free));
    }
    Ok(findings)
}

fn parse(text: &str) -> Option<(u64, u64)> {
    let (data, free) = text.trim().split_once(' ')?;
    Some((data.parse().ok()?, free.parse().ok()?))
}

fn finding(host: &HostName, data: u64, free: u64) -> Option<Finding> {
    let needed = data.saturating_add(RESERVE);
    (free < needed).then(|| {
        Finding::new(
            FindingKind::DiskSpace,
            host,
            true,
            format!(
                "kubeadm copies etcd to /etc/kubernetes/tmp: it needs {} MiB, and {} MiB are free",
                needed.div_ceil(1024),
                free / 1024
            ),
            "make room in the file system of /etc/kubernetes",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_etcd_must_fit() {
        assert_eq!(parse("2048 4096\n"), Some((2048, 4096)));
        for wrong in ["", "1", "a b", "1 2 3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let host = "node1".parse().unwrap();
        assert_eq!(finding(&host, 1024, RESERVE + 1024), None);
        let found = finding(&host, 1024 * 1024, RESERVE + 1024).unwrap();
        let expected = "it needs 1224 MiB, and 201 MiB are free";
        assert!(
            found.fatal && found.what.contains(expected),
            "{}",
            found.what
        );
    }
}
