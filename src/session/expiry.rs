//! Warnings about certificates on hosts: those that expire soon, and those that are not as the cluster file states.

use std::collections::BTreeMap;

use crate::certificate_names;
use crate::site_ca::{self, CA};
use kubexm_config::Cluster;
use kubexm_config::cluster::{KubernetesKind, Validity};
use kubexm_host::Facts;
use kubexm_pki::Certificate;
use kubexm_pki::expiry::soon;
use kubexm_preflight::Finding;
use kubexm_types::{FindingKind, HostName};

/// Returns the warnings about certificates on hosts.
pub fn findings(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    findings_with(cluster, facts, None)
}

/// Certificates are errors if they do not last for at least `least` days.
fn findings_with(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    least: Option<i64>,
) -> Vec<Finding> {
    let mut findings = expiring(cluster, facts, least);
    findings.extend(certificate_names::findings(cluster, facts));
    findings.extend(validity_of_ca(cluster, facts));
    findings.extend(site_ca::findings(cluster, facts));
    findings
}

/// Returns the same warnings before an upgrade, which needs certificates that are valid until its end.
pub fn findings_before_upgrade(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<Finding> {
    findings_with(cluster, facts, Some(1))
}

/// Returns a warning for each file on a host with a certificate that [expires soon](soon). A file that is not a certificate is
/// left out: other checks report it.
fn expiring(
    cluster: &Cluster,
    facts: &BTreeMap<HostName, Facts>,
    least: Option<i64>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (host, facts) in facts {
        for (path, certificate) in &facts.certificates {
            let Ok(found) = Certificate::parse_all(path, certificate) else {
                continue;
            };
            let Some(found) = found.iter().min_by_key(|found| found.days_left()) else {
                continue;
            };
            let days = found.days_left();
            if days >= soon(found.days_valid()) {
                continue;
            }
            let what = match days {
                ..0 => format!("the certificate in {path} has expired"),
                0 => format!("the certificate in {path} expires today"),
                1 => format!("the certificate in {path} expires in 1 day"),
                days => format!("the certificate in {path} expires in {days} days"),
            };
            findings.push(Finding::new(
                FindingKind::Certificates,
                host,
                least.is_some_and(|least| days < least),
                what,
                hint(cluster, path),
            ));
        }
    }
    findings
}

/// Returns a warning for each node whose CA is not valid for as long as the cluster file states. Without a value in the
/// cluster file, any validity is accepted, because the CA may be one of the user.
fn validity_of_ca(cluster: &Cluster, facts: &BTreeMap<HostName, Facts>) -> Vec<Finding> {
    let desired = cluster.kubernetes.validity.ca_days;
    if desired == Validity::default().ca_days || cluster.kubernetes.site_ca.is_some() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (host, facts) in facts.iter().filter(|(_, facts)| facts.is_node()) {
        let Some(certificate) = facts.certificates.get(CA) else {
            continue;
        };
        let Ok(found) = Certificate::first(CA, certificate) else {
            continue;
        };
        let days = found.days_valid();
        if days != i64::from(desired) {
            let what = format!(
                "kubernetes.certificates.caValidityDays is not applied: it is {desired}, and {CA} is valid for {days} days"
            );
            let hint = format!(
                "set caValidityDays to {days} again, or replace the CA with `kubexm certs rotate-ca`: an install does not \
                 replace it"
            );
            findings.push(Finding::new(
                FindingKind::Certificates,
                host,
                false,
                what,
                &hint,
            ));
        }
    }
    findings
}

/// Returns how the certificate of a file is renewed.
fn hint(cluster: &Cluster, path: &str) -> &'static str {
    let is_ca = path.ends_with("/ca.crt") || path.ends_with("-ca.crt");
    let of_kubeadm =
        path.starts_with("/etc/kubernetes/") && cluster.kubernetes.kind == KubernetesKind::Kubeadm;
    match (is_ca, of_kubeadm) {
        (true, _) => {
            "it is a CA: replace it before this date; `kubexm certs rotate-ca` does so for those that kubexm or kubeadm created"
        }
        (false, true) => {
            "run `kubexm certs renew`: it issues new certificates and kubeconfigs on one host after another"
        }
        (false, false) => {
            "run `kubexm certs renew`, or an install in the last 30 days of the certificate: both issue a new one"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::{parse_cluster, schema};

    #[test]
    fn certificate_with_less_than_sixty_days_is_reported() {
        let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
        let certificate = |days: i64| {
            let mut params = rcgen::CertificateParams::new(vec!["node1".to_owned()]).unwrap();
            let now = time::OffsetDateTime::now_utc();
            params.not_before = now - time::Duration::days(400);
            // Half a day more, so that the test does not depend on the time that it takes.
            params.not_after = now + time::Duration::days(days) + time::Duration::hours(12);
            let key = rcgen::KeyPair::generate().unwrap();
            params.self_signed(&key).unwrap().pem()
        };
        let host: HostName = "node1".parse().unwrap();
        let reported = |path: &str, certificate: String| {
            let facts = Facts {
                certificates: [(path.to_owned(), certificate)].into(),
                ..Facts::default()
            };
            let found = expiring(&cluster, &BTreeMap::from([(host.clone(), facts)]), None);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let path = "/etc/kubernetes/pki/apiserver.crt";
        assert_eq!(reported(path, certificate(60)), [""; 0]);
        assert_eq!(reported(path, "not a certificate".to_owned()), [""; 0]);
        let soon = reported(path, certificate(59));
        assert!(soon[0].starts_with("node1: the certificate in /etc/kubernetes/pki/apiserver.crt expires in 59 days\n  hint: run `kubexm certs renew`"), "{soon:?}");
        let own = reported("/etc/kubexm/registry/tls.crt", certificate(29));
        assert!(
            own[0].contains("hint: run `kubexm certs renew`, or an install"),
            "{own:?}"
        );
        let expired = reported("/etc/kubernetes/pki/ca.crt", certificate(-2));
        assert!(
            expired[0].contains("ca.crt has expired\n  hint: it is a CA"),
            "{expired:?}"
        );
        let facts = Facts {
            certificates: [
                (path.to_owned(), certificate(0)),
                ("/b".to_owned(), certificate(1)),
            ]
            .into(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([(host.clone(), facts)]);
        let fatal = |found: Vec<Finding>| found.iter().filter(|one| one.fatal).count();
        assert_eq!(fatal(findings(&cluster, &facts)), 0);
        assert_eq!(fatal(findings_before_upgrade(&cluster, &facts)), 1);
    }
}
