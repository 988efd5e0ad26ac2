//! Proofs before a phase: nothing depends on what the phase takes away.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use time::{Duration, OffsetDateTime};

use super::authorities::{self, Store};
use super::survey::Survey;
use super::workloads::{self, Workloads};
use crate::certs::files;
use kubexm_config::Cluster;
use kubexm_config::cluster::Etcd;
use kubexm_config::ports;
use kubexm_engine::plan::StepError;
use kubexm_host::{Command, Facts, Host};
use kubexm_pki::Certificate;
use kubexm_scripts::{Parameters, kubernetes as scripts};
use kubexm_session::CommandError;
use kubexm_session::begun::RotationRecord;
use kubexm_types::{Authority, HostName, Untrusted};

/// How long tokens for programs that do not read them again are valid
/// (<https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/>).
const EXTENDED: Duration = Duration::days(365);
/// How long tokens are valid at most that the API server does not extend, unless a program asks for more.
const NOT_EXTENDED: Duration = Duration::days(1);

/// Fails if pods run that may know only the former CA.
pub(super) fn no_old_pods(record: &RotationRecord, pods: &Workloads) -> Result<(), CommandError> {
    let Some(since) = &record.trusted_since else {
        return Ok(());
    };
    let old = pods.before(since);
    if old.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = old.iter().map(|one| format!("  {one}")).collect();
    Err(CommandError::refused(format!(
        "cannot go on with the rotation: these pods started before {since}, and may not trust the \
         new CA:\n{}",
        lines.join("\n")
    ))
    .hint(
        "--restart-workloads restarts Deployments, DaemonSets and StatefulSets; replace other \
         pods yourself, or go on without them with --leave-workloads",
    ))
}

/// Fails if a certificate on a host is one of a former CA, or if a server presents one.
pub(super) async fn nothing_uses_former(
    cluster: &Cluster,
    record: &RotationRecord,
    store: &Store<'_>,
    survey: &Survey,
    first: &dyn Host,
) -> Result<(), CommandError> {
    let mut found = Vec::new();
    for authority in &record.authorities {
        if let Some(former) = store.former(*authority)? {
            let present = store.present(*authority)?;
            found.extend(of_former(
                cluster,
                *authority,
                [&former, &present],
                &survey.facts,
            ));
        }
    }
    for authority in [Authority::Kubernetes, Authority::Etcd, Authority::Registry] {
        if record.authorities.contains(&authority) {
            found.extend(handshakes(cluster, authority, store, survey, first).await?);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot remove the former authority: it is still in use:\n  {}",
        found.join("\n  ")
    ))
    .hint(format!(
        "kubexm exec shows these hosts; correct the cause, then run {} again",
        record.command()
    )))
}

/// Returns the files with certificates of a former CA.
fn of_former(
    cluster: &Cluster,
    authority: Authority,
    [former, present]: [&str; 2],
    facts: &BTreeMap<HostName, Facts>,
) -> Vec<String> {
    let [former, present] = [former, present].map(|text| Certificate::first("CA", text));
    let (Ok(former), Ok(present)) = (former, present) else {
        return Vec::new();
    };
    // A CA that its site has issued again has the same name and the same key.
    let is_former = |own: &Certificate| own.is_signed_by(&former) && !own.is_signed_by(&present);
    let mut found = Vec::new();
    for (host, facts) in facts {
        for (path, text) in facts.certificates.iter().chain(&facts.rotated) {
            let ca = files::ca_of(cluster, path);
            if !ca.is_some_and(|ca| authorities::is_path_of(cluster, authority, ca)) {
                continue;
            }
            let own = Certificate::first(path, text);
            if own.is_ok_and(|own| !own.is_ca && is_former(&own)) {
                found.push(format!("{host}: {path} is of the former {authority}"));
            }
        }
    }
    found
}

/// Connects to the servers of a CA, and trusts only the new one. Returns the failures.
async fn handshakes(
    cluster: &Cluster,
    authority: Authority,
    store: &Store<'_>,
    survey: &Survey,
    first: &dyn Host,
) -> Result<Vec<String>, CommandError> {
    let is_unit = matches!(cluster.etcd, Etcd::Systemd { .. });
    let client = match authority {
        Authority::Etcd if is_unit => "/etc/kubexm/etcd/client",
        Authority::Etcd => "/etc/kubernetes/pki/etcd/healthcheck-client",
        _ => "/etc/kubernetes/pki/apiserver-kubelet-client",
    };
    let parameters = scripts::Handshakes {
        cas: store.present(authority)?,
        certificate: format!("{client}.crt"),
        key: format!("{client}.key"),
    };
    let mut urls = Vec::new();
    let url = |host: &kubexm_config::cluster::HostSpec, port, path: &str| {
        format!(
            "https://{}/{path}",
            SocketAddr::new(host.internal_address(), port)
        )
    };
    if authority == Authority::Etcd && is_unit {
        let members = cluster.etcd_hosts().into_iter();
        urls.extend(members.map(|host| url(host, ports::ETCD_CLIENT, "health")));
    }
    if authority == Authority::Registry {
        let registries = cluster.roles.registry.iter();
        let registries = registries.filter_map(|name| cluster.host(name));
        urls.extend(registries.map(|host| url(host, cluster.registry.port, "v2")));
    }
    for host in cluster.nodes() {
        let is_control_plane = cluster.is_control_plane(&host.name);
        let requests = survey.facts.get(&host.name).is_some_and(|facts| {
            facts
                .rotated
                .contains_key("/var/lib/kubelet/pki/kubelet-server-current.pem")
        });
        match authority {
            Authority::Etcd if is_control_plane && !is_unit => {
                urls.push(url(host, ports::ETCD_CLIENT, "health"))
            }
            Authority::Etcd | Authority::Registry => {}
            _ => {
                if is_control_plane {
                    urls.push(format!("https://{}/readyz", cluster.api_server(host)));
                }
                if requests {
                    urls.push(url(host, ports::KUBELET, "healthz"));
                }
            }
        }
    }
    let action = "connect to the servers with the new CA only";
    let command = Command::from_script(scripts::HANDSHAKES, parameters.and(urls)).describe(action);
    let output = StepError::unless_done(action, first.run(command).await?);
    let text = output?.text();
    let failed = text.lines().filter_map(|line| line.strip_prefix("failed "));
    Ok(failed
        .map(|line| Untrusted::one_line(line, 300).to_string())
        .collect())
}

/// Fails if tokens of the former key of service accounts may be in use.
pub(super) async fn tokens_have_expired(
    record: &RotationRecord,
    first: &dyn Host,
    invalidates: bool,
) -> Result<(), CommandError> {
    if !record.authorities.contains(&Authority::ServiceAccounts) || invalidates {
        return Ok(());
    }
    // The new key signs the tokens of later Secrets.
    let lasting = workloads::lasting_tokens(first, record.switched_at.as_ref()).await?;
    let mut reasons = Vec::new();
    match valid_until(record) {
        Some(until) if until <= OffsetDateTime::now_utc() => {}
        Some(until) => reasons.push(format!(
            "tokens that the former key signed can be valid until {}",
            until.date()
        )),
        None => reasons.push("it is unknown when the former key signed last".to_owned()),
    }
    reasons.extend(
        lasting
            .iter()
            .map(|secret| format!("the token in the Secret {secret} never expires")),
    );
    if reasons.is_empty() {
        return Ok(());
    }
    Err(CommandError::refused(format!(
        "cannot remove the former key of service accounts:\n  {}",
        reasons.join("\n  ")
    ))
    .hint(
        "wait until then and delete these Secrets, or accept that such tokens become invalid with \
         --invalidate-tokens",
    ))
}

/// Returns until when tokens with an expiry can be valid that the former key signed; `None` if it is unknown when it signed last.
fn valid_until(record: &RotationRecord) -> Option<OffsetDateTime> {
    let wait = match record.extends_tokens {
        Some(false) => NOT_EXTENDED,
        // Without a record of the flag, the cluster file may have changed since.
        Some(true) | None => EXTENDED,
    };
    Some(record.switched_at.as_ref()?.time() + wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_config::{parse_cluster, schema};
    use kubexm_types::UtcTime;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    #[test]
    fn tokens_of_the_former_key_expire_as_at_the_beginning_of_the_rotation() {
        let until = |extends_tokens, switched_at: Option<&str>| {
            let record = RotationRecord {
                extends_tokens,
                switched_at: switched_at.map(|text| UtcTime::parse(text).unwrap()),
                ..RotationRecord::new([Authority::ServiceAccounts].into())
            };
            valid_until(&record).map(|time| time.date().to_string())
        };
        let switched = Some("2027-01-31T12:00:00Z");
        assert_eq!(until(Some(false), switched).unwrap(), "2027-02-01");
        assert_eq!(until(Some(true), switched).unwrap(), "2028-01-31");
        // An earlier version did not record the flag.
        assert_eq!(until(None, switched).unwrap(), "2028-01-31");
        assert_eq!(until(Some(false), None), None);
    }

    fn ca(key: &KeyPair) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(key).unwrap().pem()
    }

    /// A site can issue its CA again with the key that it has. The former certificate then verifies the same files.
    #[test]
    fn files_of_a_ca_that_was_issued_again_are_of_the_present_one() {
        let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
        let [key, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let (former, again, next) = (ca(&key), ca(&key), ca(&other));
        let issuer = Issuer::from_ca_cert_pem(&former, key).unwrap();
        let own = KeyPair::generate().unwrap();
        let leaf = CertificateParams::default()
            .signed_by(&own, &issuer)
            .unwrap();
        let path = "/etc/kubernetes/pki/apiserver.crt".to_owned();
        let facts = Facts {
            certificates: [(path, leaf.pem())].into(),
            ..Facts::default()
        };
        let facts = BTreeMap::from([("node1".parse().unwrap(), facts)]);
        let found =
            |present: &str| of_former(&cluster, Authority::Kubernetes, [&former, present], &facts);
        assert_eq!(found(&again), [""; 0]);
        let expected = "node1: /etc/kubernetes/pki/apiserver.crt is of the former Kubernetes CA";
        assert_eq!(found(&next), [expected]);
    }
}
