use super::*;
use kubexm_config::{parse_cluster, schema};
use kubexm_host::HostError;
use kubexm_pki::{Ca, CertificateStore, Leaf};

pub(in crate::certs) fn self_signed(name: &str, days: i64, is_ca: bool) -> String {
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::days(300);
    params.not_after = now + time::Duration::days(days) + time::Duration::hours(12);
    if is_ca {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

/// Returns `PATH: STANDING` for each certificate of a host with these files.
fn standings(files: &[(&str, String)], rotated: &[(&str, String)]) -> Vec<String> {
    let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
    let owned = |files: &[(&str, String)]| -> BTreeMap<String, String> {
        let files = files.iter();
        files
            .map(|(path, text)| ((*path).to_owned(), text.clone()))
            .collect()
    };
    let facts = Facts {
        certificates: owned(files),
        rotated: owned(rotated),
        ..Facts::default()
    };
    let name = cluster.hosts[0].name.clone();
    let state = tempfile::tempdir().unwrap();
    let report = report(&cluster, state.path(), &[(name, facts)].into(), Vec::new());
    let entries = report.certificates.iter();
    entries
        .map(|entry| format!("{}: {}", entry.path, entry.standing))
        .collect()
}

#[test]
fn standing_depends_on_the_date_and_on_the_ca() {
    let dir = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(dir.path());
    let ca = Ca::load_or_create(&store, "kubernetes").unwrap();
    let leaf = ca.issue(&store, "leaf", &Leaf::client("user", None));
    let leaf = leaf.unwrap().certificate;
    let (ca_file, file) = ("/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/admin.conf");
    let ca_text = ca.certificate().to_owned();
    let with_ca = |text: String| standings(&[(ca_file, ca_text.clone()), (file, text)], &[]);
    assert_eq!(
        with_ca(leaf.clone()),
        [
            "/etc/kubernetes/admin.conf: ok",
            "/etc/kubernetes/pki/ca.crt: ok"
        ]
    );
    let first = |text: String| with_ca(text).remove(0);
    assert_eq!(
        first(self_signed("x", 200, false)),
        "/etc/kubernetes/admin.conf: another CA"
    );
    assert_eq!(
        first(self_signed("x", -1, false)),
        "/etc/kubernetes/admin.conf: expired"
    );
    assert_eq!(
        first("x".to_owned()),
        "/etc/kubernetes/admin.conf: unreadable"
    );
    assert_eq!(
        standings(&[(file, leaf)], &[]),
        ["/etc/kubernetes/admin.conf: CA missing"]
    );
    assert_eq!(
        standings(&[(ca_file, self_signed("old", 59, true))], &[]),
        ["/etc/kubernetes/pki/ca.crt: expires soon"]
    );
}

/// The kubelet renews its certificate when 10 to 30 % of the validity are left.
#[test]
fn certificate_that_the_kubelet_renews_expires_soon_only_when_it_did_not() {
    let path = "/var/lib/kubelet/pki/kubelet.crt";
    let of = |days| standings(&[], &[(path, self_signed("node1", days, false))]);
    assert_eq!(of(40), [format!("{path}: ok")]);
    assert_eq!(of(20), [format!("{path}: expires soon")]);
}

#[test]
fn state_directory_and_hosts_that_do_not_answer_are_in_the_report() {
    let cluster = parse_cluster("example", schema::TEMPLATE).unwrap();
    let state = tempfile::tempdir().unwrap();
    let store = CertificateStore::new(state.path().join("pki"));
    let ca = Ca::load_or_create(&store, &format!("kubexm-{}", cluster.name)).unwrap();
    let tls = ca.issue(&store, "registry", &Leaf::server("registry", Vec::new()));
    let name = cluster.hosts[0].name.clone();
    let path = "/etc/kubexm/registry/tls.crt";
    let facts = Facts {
        certificates: [(path.to_owned(), tls.unwrap().certificate)].into(),
        ..Facts::default()
    };
    std::fs::write(state.path().join("admin.conf"), "nothing").unwrap();
    let lost = cluster.hosts[1].name.clone();
    let error = HostError::Command {
        host: lost.clone(),
        command: "connect".to_owned(),
        reason: "no route".to_owned(),
    };
    let facts = [(name.clone(), facts)].into();
    let report = report(&cluster, state.path(), &facts, vec![(lost.clone(), error)]);
    let found: Vec<_> = report
        .certificates
        .iter()
        .map(|entry| (entry.host.as_ref(), entry.purpose.as_str(), entry.standing))
        .collect();
    assert_eq!(
        found,
        [
            (Some(&name), "server of the registry", Standing::Ok),
            (None, "CA of the registry", Standing::Ok),
            (None, "kubeconfig of administrators", Standing::Unreadable),
        ]
    );
    assert!(report.has_findings());
    assert_eq!(report.unchecked[0].host, lost);
    assert!(report.unchecked[0].reason.contains("no route"));
}
