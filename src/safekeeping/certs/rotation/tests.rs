use super::*;
use kubexm_session::example::{cluster, cluster_of_two, cluster_of_units as units, cluster_with};

fn options(rotated: Rotated) -> RotateOptions {
    RotateOptions {
        cluster: PathBuf::new(),
        connection: Connection::default(),
        rotated,
        phase: None,
        cancel: false,
        old_pods: OldPods::Refuse,
        invalidates_tokens: false,
        dry_run: false,
        ca_encryption: None,
    }
}

fn begin(
    cluster: &Cluster,
    options: &RotateOptions,
    begun: Option<&RotationRecord>,
) -> Result<RotationRecord, String> {
    let run = Run {
        options,
        cluster,
        state: Path::new("/nothing"),
    };
    run.begin(begun.cloned()).map_err(|error| error.to_string())
}

#[test]
fn phases_follow_each_other_and_an_interrupted_one_is_repeated() {
    let all = options(Rotated::Cas(BTreeSet::new()));
    let mut record = begin(&cluster(), &all, None).unwrap();
    let cas = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
    ];
    assert_eq!(
        (record.phase, record.authorities.clone()),
        (Phase::Trust, cas.into())
    );
    assert_eq!(
        begin(&cluster(), &all, Some(&record)).unwrap().phase,
        Phase::Trust
    );
    record.is_complete = true;
    let next = begin(&cluster(), &all, Some(&record)).unwrap();
    assert_eq!((next.phase, next.is_complete), (Phase::Switch, false));
    let remove = RotateOptions {
        phase: Some(Phase::Remove),
        ..all.clone()
    };
    let refused = begin(&cluster(), &remove, Some(&record)).unwrap_err();
    assert!(
        refused.contains("the next phase is switch, not remove"),
        "{refused}"
    );
    assert!(begin(&cluster(), &remove, None).is_err());
    let other = options(Rotated::ServiceAccountKey);
    let refused = begin(&cluster(), &other, Some(&record)).unwrap_err();
    assert!(refused.contains("another rotation has begun"), "{refused}");
}

#[test]
fn only_the_first_phase_can_be_cancelled() {
    let cancel = RotateOptions {
        cancel: true,
        ..options(Rotated::Cas(BTreeSet::new()))
    };
    assert!(begin(&cluster(), &cancel, None).is_err());
    let all = options(Rotated::Cas(BTreeSet::new()));
    let mut record = begin(&cluster(), &all, None).unwrap();
    let cancelled = begin(&cluster(), &cancel, Some(&record)).unwrap();
    assert!(cancelled.is_cancelled);
    let refused = begin(&cluster(), &all, Some(&cancelled)).unwrap_err();
    assert!(refused.contains("--cancel again"), "{refused}");
    record.phase = Phase::Switch;
    let refused = begin(&cluster(), &cancel, Some(&record)).unwrap_err();
    assert!(
        refused.contains("since phase 2") && refused.contains("hint: "),
        "{refused}"
    );
}

#[test]
fn authorities_that_kubexm_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.display();
    let external = format!(
        "etcd: {{type: external, external: {{endpoints: [\"https://192.0.2.9:2379\"], caFile: {file}, certFile: \
         {file}, keyFile: {file}}}}}"
    );
    let registry = "registry: {type: external, address: \"registry.example:5000\"}";
    for (sections, authority) in [
        (external.as_str(), Authority::Etcd),
        (registry, Authority::Registry),
    ] {
        let options = options(Rotated::Cas([authority].into()));
        let refused = begin(&cluster_with(sections), &options, None).unwrap_err();
        assert!(
            refused.contains("cannot replace the CA of") && refused.contains("hint: "),
            "{refused}"
        );
    }
}

#[test]
fn cas_of_etcd_units_belong_to_those_of_a_cluster() {
    let (cluster, options) = (units(), options(Rotated::Cas(BTreeSet::new())));
    let run = Run {
        options: &options,
        cluster: &cluster,
        state: Path::new("/nothing"),
    };
    let cas = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
    ];
    assert_eq!(run.begin(None).unwrap().authorities, cas.into());
}

#[test]
fn plan_names_what_does_not_answer_meanwhile() {
    let (cluster, options) = (units(), options(Rotated::Cas([Authority::Etcd].into())));
    let mut record = RotationRecord::new([Authority::Etcd].into());
    let plan = |record: &RotationRecord| {
        text::plan(
            &cluster,
            record,
            &options,
            &kubexm_engine::plan::Plan::default(),
        )
    };
    let line = "while a member of etcd restarts: it has fewer than three";
    assert!(plan(&record).contains(line), "{}", plan(&record));
    record.phase = Phase::Switch;
    assert!(!plan(&record).contains(line), "{}", plan(&record));
}

/// Returns the issuer of a certificate.
fn issuer(text: &str) -> String {
    kubexm_pki::Certificate::first("test", text).unwrap().issuer
}

/// Writes a CA of a site into a directory, and names it in a cluster file.
fn name_site_ca(cluster: &mut Cluster, folder: &Path, name: &str) -> String {
    let ca =
        kubexm_pki::Ca::load_or_create(&kubexm_pki::CertificateStore::new(folder), name).unwrap();
    cluster.kubernetes.site_ca = Some(kubexm_config::cluster::SiteCa {
        cert_file: folder.join(format!("{name}.crt")),
        key_file: folder.join(format!("{name}.key")),
    });
    ca.certificate().to_owned()
}

#[test]
fn ca_of_the_site_takes_the_place_of_a_new_one() {
    let (site, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for mut cluster in [units(), cluster()] {
        let kind = cluster.kubernetes.kind.name();
        let (site, state) = (site.path().join(kind), state.path().join(kind));
        let first = name_site_ca(&mut cluster, &site, "first");
        kubexm_session::certificates::load_or_issue(&cluster, &state, None).unwrap();
        let record = RotationRecord::new([Authority::Kubernetes].into());
        let present = BTreeMap::from([(Authority::Kubernetes, first.clone())]);
        let refused = Store::open(&cluster, &state, None).accept(&record, &present);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("kubernetes.certificates.ca names the present one"),
            "{refused}"
        );

        let next = name_site_ca(&mut cluster, &site, "next");
        let store = Store::open(&cluster, &state, None);
        store.accept(&record, &present).unwrap();
        store.enter(&record, &present).unwrap();
        let rotated = store.rotated(&record.authorities).unwrap();
        let trusted = &rotated[&Authority::Kubernetes].trusted;
        assert!(trusted.contains(first.trim_end()) && trusted.contains(next.trim_end()));
        // A phase that is repeated, without the key.
        std::fs::remove_file(site.join("next.key")).unwrap();
        store.accept(&record, &present).unwrap();
        store.enter(&record, &present).unwrap();
        name_site_ca(&mut cluster, &site, "other");
        let refused = Store::open(&cluster, &state, None).accept(&record, &present);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("is not the next CA of the rotation that has begun"),
            "{refused}"
        );
        // The hint names the way out.
        let mut cancelled = record.clone();
        cancelled.is_cancelled = true;
        let store = Store::open(&cluster, &state, None);
        store.accept(&cancelled, &present).unwrap();
        store.cancel(&cancelled, &present).unwrap();
        name_site_ca(&mut cluster, &site, "first");
        let store = Store::open(&cluster, &state, None);
        store.accept(&cancelled, &present).unwrap();
    }
}

#[test]
fn kept_authorities_sign_after_the_switch_and_both_are_trusted_until_the_end() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), units());
    let state = folder.path();
    let issue = || kubexm_session::certificates::load_or_issue(&cluster, state, None).unwrap();
    let before = issue();
    let store = Store::open(&cluster, state, None);
    let all: BTreeSet<Authority> = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
        Authority::Registry,
        Authority::ServiceAccounts,
    ]
    .into();
    let mut record = RotationRecord::new(all.clone());
    let none = BTreeMap::new();
    store.accept(&record, &none).unwrap();
    store.enter(&record, &none).unwrap();
    let trust = issue();
    // What hosts have stays, and they learn to trust more.
    let pki = |all: &Certificates| all.kubernetes.clone().unwrap();
    let api_server = |all: &Certificates| {
        let own = pki(all).control_planes.values().next().unwrap().clone();
        own.api_server.certificate
    };
    assert_eq!(api_server(&trust), api_server(&before));
    let count = |text: &str| text.matches("-----BEGIN").count();
    for phase in [Phase::Trust, Phase::Switch, Phase::Remove] {
        record.phase = phase;
        store.accept(&record, &none).unwrap();
        store.enter(&record, &none).unwrap();
        store.enter(&record, &none).unwrap();
        let now = issue();
        let number = if phase == Phase::Remove { 1 } else { 2 };
        let (kubernetes, etcd) = (pki(&now), now.etcd.clone().unwrap());
        for trusted in [
            &kubernetes.trusted,
            &kubernetes.front_proxy_ca,
            &kubernetes.service_account.public,
            &etcd.ca,
            &now.ca,
        ] {
            assert_eq!(count(trusted), number, "{phase}");
        }
        let is_new = phase != Phase::Trust;
        for (signed, name) in [
            (api_server(&now), "kubernetes"),
            (etcd.client.certificate, "etcd-example"),
            (now.registry.certificate, "kubexm-example"),
        ] {
            let issuer = issuer(&signed);
            assert_eq!(
                issuer.starts_with(&format!("{name}-20")),
                is_new,
                "{issuer}"
            );
        }
        let key = &kubernetes.service_account.private;
        assert_eq!(*key != pki(&before).service_account.private, is_new);
        for (authority, own) in store.rotated(&all).unwrap() {
            assert_eq!((count(&own.trusted), count(&own.present)), (number, 1));
            assert!(own.key.is_none(), "{authority}");
        }
    }
    let left = std::fs::read_dir(state.join("pki")).unwrap();
    let below = std::fs::read_dir(state.join("pki/kubernetes")).unwrap();
    for entry in left.chain(below) {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !name.contains(".next.") && !name.contains(".former.") && name != "rotation",
            "{name}"
        );
    }
}

#[test]
fn cancelled_rotation_leaves_the_state_directory_as_it_was() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), units());
    let state = folder.path();
    kubexm_session::certificates::load_or_issue(&cluster, state, None).unwrap();
    let names = || -> BTreeSet<std::ffi::OsString> {
        let folders = ["pki", "pki/kubernetes"].map(|name| state.join(name));
        let entries = folders
            .iter()
            .flat_map(|path| std::fs::read_dir(path).unwrap());
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = names();
    let record = RotationRecord::new([Authority::Etcd, Authority::ServiceAccounts].into());
    let store = Store::open(&cluster, state, None);
    store.enter(&record, &BTreeMap::new()).unwrap();
    assert_ne!(names(), before);
    store.cancel(&record, &BTreeMap::new()).unwrap();
    store.forget().unwrap();
    assert_eq!(names(), before);
}

/// A run that was killed before it recorded the present authorities of kubeadm has changed no host.
#[test]
fn rotation_that_has_recorded_nothing_can_be_cancelled() {
    let state = tempfile::tempdir().unwrap();
    let cluster = cluster();
    let all = [Authority::Kubernetes, Authority::ServiceAccounts];
    let record = RotationRecord::new(all.into());
    let store = Store::open(&cluster, state.path(), None);
    let present = all.map(|authority| (authority, format!("{authority}\n")));
    store.cancel(&record, &present.into()).unwrap();
    let rotated = store.rotated(&record.authorities).unwrap();
    for (authority, own) in rotated {
        assert_eq!(own.trusted, format!("{authority}\n"));
    }
}

/// A renewal writes the key files of service accounts to control planes with systemd units.
#[test]
fn renewal_between_phases_keeps_both_keys_of_service_accounts() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), units());
    let state = folder.path();
    let issue = || kubexm_session::certificates::load_or_issue(&cluster, state, None).unwrap();
    let before = issue();
    let mut record = RotationRecord::new([Authority::ServiceAccounts].into());
    let store = Store::open(&cluster, state, None);
    let selected = cluster.hosts.iter().map(|host| host.name.clone()).collect();
    let since = time::OffsetDateTime::now_utc() + time::Duration::hours(1);
    let pki = |all: &Certificates| all.kubernetes.clone().unwrap();
    for phase in [Phase::Trust, Phase::Switch] {
        record.phase = phase;
        store.enter(&record, &BTreeMap::new()).unwrap();
        let (own, rotated) = (pki(&issue()), store.rotated(&record.authorities).unwrap());
        let renewed =
            kubexm_session::certificates::renew(&cluster, state, None, &selected, since).unwrap();
        let renewed = pki(&renewed);
        let name = &cluster.hosts[0].name;
        let certificate = |pki: &kubexm_pki::kubernetes::ClusterPki| {
            let own = &pki.control_planes[name].api_server;
            own.certificate.clone()
        };
        assert_ne!(certificate(&renewed), certificate(&own), "{phase}");
        let keys = &renewed.service_account;
        assert_eq!(keys.private, own.service_account.private);
        assert_eq!(keys.public, rotated[&Authority::ServiceAccounts].trusted);
        assert_eq!(keys.public.matches("-----BEGIN").count(), 2, "{phase}");
        let is_former = keys.private == pki(&before).service_account.private;
        assert_eq!(is_former, phase == Phase::Trust, "{phase}");
    }
}

#[test]
fn rotation_records_how_long_tokens_are_valid_when_it_begins() {
    let extends = |cluster: &Cluster, rotated, begun: Option<&RotationRecord>| {
        let record = begin(cluster, &options(rotated), begun).unwrap();
        record.extends_tokens
    };
    let flag = "apiServer: {extraArgs: {service-account-extend-token-expiration: \"false\"}}";
    let not_extended = cluster_of_two(flag);
    let key = || Rotated::ServiceAccountKey;
    assert_eq!(extends(&cluster(), key(), None), Some(true));
    assert_eq!(extends(&not_extended, key(), None), Some(false));
    assert_eq!(
        extends(&cluster(), Rotated::Cas(BTreeSet::new()), None),
        None
    );
    // The cluster file changes during the rotation.
    let mut begun = begin(&cluster(), &options(key()), None).unwrap();
    begun.is_complete = true;
    assert_eq!(extends(&not_extended, key(), Some(&begun)), Some(true));
    let earlier = RotationRecord {
        extends_tokens: None,
        ..begun
    };
    let text = serde_json::to_string(&earlier).unwrap();
    assert!(!text.contains("extendsTokens"), "{text}");
    let earlier = serde_json::from_str(&text).unwrap();
    assert_eq!(extends(&not_extended, key(), Some(&earlier)), None);
}
