//! The CA of the site in the cluster file, compared with the CA that the cluster has.

use std::collections::BTreeMap;

use kubexm_config::Cluster;
use kubexm_deploy::Certificates;
use kubexm_host::Facts;
use kubexm_pki::{PkiError, site_ca};
use kubexm_preflight::Finding;
use kubexm_types::{Digest, FindingKind, HostName, Message, authority};

use crate::CommandError;

/// The CA of Kubernetes on a node, which kubeadm or kubexm creates once.
pub(crate) const CA: &str = "/etc/kubernetes/pki/ca.crt";
/// What the user can do about another CA.
const HINT: &str = "name the CA of the cluster, or remove the field: a cluster keeps its CA; `kubexm certs rotate-ca --ca kubernetes` \
                    replaces it by the one in the cluster file; if the first install has not ended, run `kubexm reset` before another one";

/// Returns an error for each host that has another CA than the one in the cluster file, and for files that kubexm cannot use. An
/// install replaces no CA. In a rotation, a host has two.
pub(crate) fn findings(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    let finding = |host: &HostName, what: String, hint: &str| {
        Finding::new(FindingKind::Certificates, host, true, what, hint)
    };
    let unusable = |host: &HostName, error: &PkiError| {
        let message = Message::from(error);
        let what = format!(
            "kubernetes.certificates.ca cannot be used: {}",
            message.text
        );
        finding(host, what, message.hint.as_deref().unwrap_or(HINT))
    };
    let present = facts.iter().filter_map(|(host, facts)| {
        let found = facts.certificates.get(CA).map(String::as_str);
        (facts.is_node() || found.is_some()).then_some((host, found.unwrap_or_default()))
    });
    let present: Vec<_> = present.collect();
    let first = cluster.roles.control_plane.first();
    match (fingerprint(cluster), first) {
        (Ok(None), _) => Vec::new(),
        (Err(error), _) => {
            let hosts = present.iter().map(|(host, _)| *host);
            hosts
                .chain(first.filter(|_| present.is_empty()))
                .map(|host| unusable(host, &error))
                .collect()
        }
        // The key of the CA is needed for a new cluster only.
        (Ok(Some(_)), Some(first)) if present.is_empty() => {
            let error = site_ca::load(cluster).err();
            error
                .map(|error| unusable(first, &error))
                .into_iter()
                .collect()
        }
        (Ok(Some(own)), _) => {
            let others = present
                .into_iter()
                .filter(|(_, found)| !authority::fingerprints(found).contains(&own));
            let what = || format!("kubernetes.certificates.ca is not the CA in {CA}");
            others
                .map(|(host, _)| finding(host, what(), HINT))
                .collect()
        }
    }
}

/// Fails if the state directory has another CA for the cluster, as after an install that was interrupted.
///
/// # Errors
/// See above, or kubexm cannot use the file of the CA.
pub fn accept(cluster: &Cluster, certificates: &Certificates) -> Result<(), CommandError> {
    let kept = certificates.kubernetes.as_ref();
    let (Some(kept), Some(own)) = (kept, fingerprint(cluster)?) else {
        return Ok(());
    };
    if authority::fingerprints(&kept.ca).contains(&own) {
        return Ok(());
    }
    Err(CommandError::configuration(
        "kubernetes.certificates.ca is not the CA that the state directory has for the cluster",
    )
    .hint(HINT))
}

/// Returns the fingerprint of the CA in the cluster file; `None` if it names none.
///
/// # Errors
/// kubexm cannot use the file.
pub fn fingerprint(cluster: &Cluster) -> Result<Option<Digest>, PkiError> {
    let own = site_ca::certificate(cluster)?;
    // The file has one certificate.
    Ok(own.and_then(|own| authority::fingerprints(&own).first().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::cluster::SiteCa;
    use kubexm_config::{parse_cluster, schema};
    use kubexm_pki::{Ca, CertificateStore};

    #[test]
    fn another_ca_of_the_site_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(folder.path());
        let [own, other] = ["own", "other"].map(|name| {
            let ca = Ca::load_or_create(&store, name).unwrap();
            ca.certificate().to_owned()
        });
        let mut cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
        let reported = |cluster: &Cluster, initialized, certificates: Option<&str>| {
            let text = certificates.map(|text| (CA.to_owned(), text.to_owned()));
            let facts = Facts {
                initialized,
                certificates: text.into_iter().collect(),
                ..Facts::default()
            };
            let found = findings(
                cluster,
                &BTreeMap::from([("node1".parse().unwrap(), facts)]),
            );
            assert!(found.iter().all(|finding| finding.fatal));
            found.first().map(|finding| finding.what.clone())
        };
        assert_eq!(reported(&cluster, true, Some(&other)), None);
        cluster.kubernetes.site_ca = Some(SiteCa {
            cert_file: store.path("own.crt"),
            key_file: store.path("own.key"),
        });
        assert_eq!(reported(&cluster, true, Some(&own)), None);
        assert_eq!(
            reported(&cluster, true, Some(&format!("{other}{own}"))),
            None
        );
        assert_eq!(reported(&cluster, false, None), None);
        let refused = "kubernetes.certificates.ca is not the CA in /etc/kubernetes/pki/ca.crt";
        // The first install may have ended early.
        for initialized in [true, false] {
            assert_eq!(
                reported(&cluster, initialized, Some(&other)).unwrap(),
                refused
            );
        }
        std::fs::remove_file(store.path("own.key")).unwrap();
        assert_eq!(reported(&cluster, true, Some(&own)), None);
        let unusable = "kubernetes.certificates.ca cannot be used: cannot read ";
        assert!(
            reported(&cluster, false, None)
                .unwrap()
                .starts_with(unusable)
        );
        std::fs::remove_file(store.path("own.crt")).unwrap();
        assert!(
            reported(&cluster, true, Some(&own))
                .unwrap()
                .starts_with(unusable)
        );
    }

    #[test]
    fn state_directory_keeps_its_ca() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = schema::TEMPLATE.replace("type: kubeadm", "type: systemd");
        let mut cluster = parse_cluster("example", &text).unwrap();
        cluster.kubernetes.kind = kubexm_config::cluster::KubernetesKind::Systemd;
        let issue = |cluster: &Cluster| {
            crate::certificates::load_or_issue(cluster, state.path(), None).unwrap()
        };
        let own = issue(&cluster);
        accept(&cluster, &own).unwrap();
        let store = CertificateStore::new(folder.path());
        Ca::load_or_create(&store, "site").unwrap();
        cluster.kubernetes.site_ca = Some(SiteCa {
            cert_file: store.path("site.crt"),
            key_file: store.path("site.key"),
        });
        let refused = accept(&cluster, &issue(&cluster)).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("is not the CA that the state directory has")
        );
        std::fs::remove_dir_all(state.path().join("pki")).unwrap();
        accept(&cluster, &issue(&cluster)).unwrap();
    }
}
