use super::*;
use kubexm_config::{parse_cluster, schema};
use kubexm_host::HostError;
use kubexm_host::facts::Setting;
use kubexm_pki::{Ca, CertificateStore, Leaf};
use kubexm_session::example::{cluster, cluster_with};

pub(in crate::certs) fn self_signed(name: &str, days: i64, is_ca: bool) -> String {
    let begins = time::OffsetDateTime::now_utc() - time::Duration::days(300);
    self_signed_since(begins, name, days, is_ca)
}

fn self_signed_since(begins: time::OffsetDateTime, name: &str, days: i64, is_ca: bool) -> String {
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let now = time::OffsetDateTime::now_utc();
    params.not_before = begins;
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
        reason: "no route".into(),
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

#[test]
fn certificate_whose_validity_has_not_begun_is_a_finding() {
    let path = "/var/lib/kubelet/pki/kubelet.crt";
    let begins_in = |seconds| {
        let begins = time::OffsetDateTime::now_utc() + time::Duration::seconds(seconds);
        let text = self_signed_since(begins, "node1", 365, false);
        standings(&[], &[(path, text)])
    };
    assert_eq!(begins_in(60), [format!("{path}: not yet valid")]);
    // Clocks of hosts may differ by five seconds.
    assert_eq!(begins_in(3), [format!("{path}: ok")]);
}

/// Returns the facts of an installed node with these settings.
pub(in crate::certs) fn installed(settings: &[(Setting, &str)]) -> Facts {
    let node = (Setting::NodeName, "node");
    let all = settings.iter().chain([&node]);
    Facts {
        joined: true,
        applied: all
            .map(|(setting, value)| (*setting, BTreeSet::from([(*value).to_owned()])))
            .collect(),
        ..Facts::default()
    }
}

/// Returns the paths of missing files on a host of a cluster with another section.
fn missing(section: &str, host: &str, facts: &Facts) -> Vec<String> {
    let cluster = cluster_with(section);
    let state = tempfile::tempdir().unwrap();
    let facts = BTreeMap::from([(host.parse().unwrap(), facts.clone())]);
    let report = report(&cluster, state.path(), &facts, Vec::new());
    let missing = report.certificates.iter();
    let missing: Vec<String> = missing
        .filter(|one| one.standing == Standing::Missing)
        .map(|one| one.path.clone())
        .collect();
    assert_eq!(report.has_findings(), !report.certificates.is_empty());
    missing
}

const KUBELET_CLIENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

#[test]
fn file_that_a_host_must_have_is_missing() {
    let control_plane = [(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")];
    let facts = installed(&control_plane);
    assert_eq!(
        missing("", "node1", &facts),
        [
            "/etc/kubernetes/admin.conf",
            "/etc/kubernetes/controller-manager.conf",
            "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "/etc/kubernetes/pki/apiserver-kubelet-client.crt",
            "/etc/kubernetes/pki/apiserver.crt",
            "/etc/kubernetes/pki/ca.crt",
            "/etc/kubernetes/pki/etcd/ca.crt",
            "/etc/kubernetes/pki/etcd/healthcheck-client.crt",
            "/etc/kubernetes/pki/etcd/peer.crt",
            "/etc/kubernetes/pki/etcd/server.crt",
            "/etc/kubernetes/pki/front-proxy-ca.crt",
            "/etc/kubernetes/pki/front-proxy-client.crt",
            "/etc/kubernetes/scheduler.conf",
            KUBELET_CLIENT,
        ]
    );
    let worker = installed(&[]);
    let of_workers = ["/etc/kubernetes/pki/ca.crt", KUBELET_CLIENT];
    assert_eq!(missing("", "node2", &worker), of_workers);
    let mut present = worker;
    let ca = self_signed("kubernetes", 400, true);
    present.certificates.insert(of_workers[0].to_owned(), ca);
    assert_eq!(missing("", "node2", &present), [KUBELET_CLIENT]);
    let section = "etcd: {type: systemd}";
    let mut member = installed(&[(Setting::ControlPlane, "yes"), (Setting::Etcd, "systemd")]);
    member.etcd_formed = true;
    member.registry_login = Some(false);
    let found = missing(section, "node1", &member);
    for path in [
        "/etc/kubexm/etcd-member/member.crt",
        "/etc/kubexm/etcd/client.crt",
        "/etc/kubexm/registry/tls.crt",
    ] {
        assert!(found.iter().any(|one| one == path), "{path}: {found:?}");
    }
    assert!(
        !found
            .iter()
            .any(|path| path.starts_with("/etc/kubernetes/pki/etcd"))
    );
}

#[test]
fn file_that_a_host_need_not_have_is_no_finding() {
    // Nothing is installed, an install failed before the first file, and a host of the site with another Kubernetes.
    let failed = Facts {
        joined: true,
        ..Facts::default()
    };
    let foreign = Facts {
        kubernetes: true,
        ..Facts::default()
    };
    for facts in [Facts::default(), failed, foreign] {
        for section in ["", "etcd: {type: systemd}"] {
            assert_eq!(missing(section, "node1", &facts), [""; 0]);
        }
    }
    // A worker that becomes a control plane, and a control plane that became a worker.
    let ca = "/etc/kubernetes/pki/ca.crt";
    let of_workers = [ca, KUBELET_CLIENT];
    assert_eq!(missing("", "node1", &installed(&[])), of_workers);
    let former = installed(&[(Setting::ControlPlane, "yes"), (Setting::Etcd, "kubeadm")]);
    assert_eq!(missing("", "node2", &former), of_workers);
    // The kubeconfig has a certificate until the kubelet has its own one.
    let mut first = installed(&[]);
    let kubelet = files::KUBELET_KUBECONFIG.to_owned();
    first
        .certificates
        .insert(kubelet, self_signed("node", 200, false));
    assert_eq!(missing("", "node2", &first), [ca]);
}

#[test]
fn link_of_the_kubelet_without_its_file_is_missing() {
    assert_eq!(
        standings(&[], &[(KUBELET_CLIENT, String::new())]),
        [format!("{KUBELET_CLIENT}: missing")]
    );
}

#[test]
fn damaged_kubeconfig_of_a_host_is_unreadable() {
    let path = "/etc/kubernetes/scheduler.conf";
    let found = standings(&[(path, String::new())], &[]);
    assert_eq!(found, [format!("{path}: unreadable")]);
}

#[test]
fn damaged_record_of_a_rotation_is_a_finding() {
    let state = tempfile::tempdir().unwrap();
    let report = || report(&cluster(), state.path(), &BTreeMap::new(), Vec::new());
    assert!(!report().has_findings());
    std::fs::write(state.path().join(RotationRecord::FILE), "{").unwrap();
    let report = report();
    // It is not a certificate, and a renewal does not mend it.
    assert!(report.has_findings() && report.certificates.is_empty());
    let hint = report.damaged.and_then(|message| message.hint).unwrap();
    assert!(hint.contains("restore"), "{hint}");
    let reason = report.rotation.unwrap();
    assert!(
        reason.contains("cannot read the record of the rotation"),
        "{reason}"
    );
}

/// The tests may run as root, who can read every file. A directory is not a file for anyone.
#[test]
fn own_file_that_cannot_be_read_is_unreadable() {
    let state = tempfile::tempdir().unwrap();
    for path in ["admin.conf", "pki/kubernetes/kubernetes.crt"] {
        std::fs::create_dir_all(state.path().join(path)).unwrap();
    }
    let report = report(&cluster(), state.path(), &BTreeMap::new(), Vec::new());
    let found = report.certificates.iter();
    let found: Vec<_> = found
        .map(|one| (one.purpose.as_str(), one.standing))
        .collect();
    assert_eq!(
        found,
        [
            ("CA of Kubernetes", Standing::Unreadable),
            ("kubeconfig of administrators", Standing::Unreadable),
        ]
    );
}

#[test]
fn text_of_a_host_does_not_forge_lines() {
    let cluster = cluster();
    let host = cluster.hosts[0].name.clone();
    let path = "/etc/kubernetes/pki/a\rb.crt".to_owned();
    let text = self_signed("x)\n  ok \u{1b}[32m", 200, false);
    let facts = Facts {
        certificates: [(path, text)].into(),
        ..Facts::default()
    };
    let state = tempfile::tempdir().unwrap();
    let report = report(&cluster, state.path(), &[(host, facts)].into(), Vec::new());
    let [one] = &report.certificates[..] else {
        panic!("one certificate: {report:?}");
    };
    let content = &one.content;
    for text in [
        content.subject.as_ref(),
        content.issuer.as_ref(),
        Some(&one.path),
    ] {
        let text = text.unwrap();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    assert_eq!(content.subject.as_deref(), Some("x)   ok"));
}
