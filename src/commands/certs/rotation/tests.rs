use super::*;

const CLUSTER: &str = "
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: example}
spec:
  hosts: [{name: node1, address: 192.0.2.11}]
  roleGroups: {control-plane: [node1], worker: [node1]}
  kubernetes: {version: 1.36.3}
";

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
    text: &str,
    options: &RotateOptions,
    begun: Option<&RotationRecord>,
) -> Result<RotationRecord, String> {
    let cluster = kubexm_config::parse_cluster("cluster.yaml", text).unwrap();
    let run = Run {
        options,
        cluster: &cluster,
        state: Path::new("/nothing"),
    };
    run.begin(begun.cloned()).map_err(|error| error.to_string())
}

#[test]
fn phases_follow_each_other_and_an_interrupted_one_is_repeated() {
    let all = options(Rotated::Cas(BTreeSet::new()));
    let mut record = begin(CLUSTER, &all, None).unwrap();
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
        begin(CLUSTER, &all, Some(&record)).unwrap().phase,
        Phase::Trust
    );
    record.is_complete = true;
    let next = begin(CLUSTER, &all, Some(&record)).unwrap();
    assert_eq!((next.phase, next.is_complete), (Phase::Switch, false));
    let remove = RotateOptions {
        phase: Some(Phase::Remove),
        ..all.clone()
    };
    let refused = begin(CLUSTER, &remove, Some(&record)).unwrap_err();
    assert!(
        refused.contains("the next phase is switch, not remove"),
        "{refused}"
    );
    assert!(begin(CLUSTER, &remove, None).is_err());
    let other = options(Rotated::ServiceAccountKey);
    let refused = begin(CLUSTER, &other, Some(&record)).unwrap_err();
    assert!(refused.contains("another rotation has begun"), "{refused}");
}

#[test]
fn only_the_first_phase_can_be_cancelled() {
    let cancel = RotateOptions {
        cancel: true,
        ..options(Rotated::Cas(BTreeSet::new()))
    };
    assert!(begin(CLUSTER, &cancel, None).is_err());
    let all = options(Rotated::Cas(BTreeSet::new()));
    let mut record = begin(CLUSTER, &all, None).unwrap();
    let cancelled = begin(CLUSTER, &cancel, Some(&record)).unwrap();
    assert!(cancelled.is_cancelled);
    let refused = begin(CLUSTER, &all, Some(&cancelled)).unwrap_err();
    assert!(refused.contains("--cancel again"), "{refused}");
    record.phase = Phase::Switch;
    let refused = begin(CLUSTER, &cancel, Some(&record)).unwrap_err();
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
        "  etcd: {{type: external, external: {{endpoints: [\"https://192.0.2.9:2379\"], caFile: {file}, certFile: \
         {file}, keyFile: {file}}}}}\n"
    );
    for (roles, sections, authority) in [
        ("", external.as_str(), Authority::Etcd),
        (
            ", etcd: [node1]",
            "  etcd: {type: systemd}\n",
            Authority::Etcd,
        ),
        ("", "", Authority::Registry),
    ] {
        let text = CLUSTER.replace("worker: [node1]", &format!("worker: [node1]{roles}"));
        let options = options(Rotated::Cas([authority].into()));
        let refused = begin(&format!("{text}{sections}"), &options, None).unwrap_err();
        assert!(
            refused.contains("cannot replace the CA of") && refused.contains("hint: "),
            "{refused}"
        );
    }
}
