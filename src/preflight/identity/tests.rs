use super::*;
use kubexm_config::example::cluster;
use kubexm_types::ClusterId;

const CA: &str = "/etc/kubernetes/pki/ca.crt";
const REGISTRY: &str = "/etc/kubexm/registry-ca.crt";

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn identity(id: &str, of: &str) -> ClusterIdentity {
    ClusterIdentity {
        id: ClusterId::parse(id).unwrap(),
        name: name(of),
        created: "2026-01-31T12:00:00Z".parse().unwrap(),
    }
}

fn ours() -> ClusterIdentity {
    identity("0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11", "example")
}

fn theirs() -> ClusterIdentity {
    identity("7d1f0a52-0c7e-4f0e-9a55-1f1d2c3b4a59", "other")
}

/// A state directory with the registry CA `registry`.
fn controller() -> Controller {
    let registry = Expected {
        fingerprint: Some(Digest::of(b"registry")),
        source: "/state/pki/kubexm-example.crt".to_owned(),
    };
    Controller {
        identity: Some(ours()),
        state: "/state".to_owned(),
        authorities: [(Authority::Registry, registry)].into(),
        rotation: BTreeSet::new(),
        ending: BTreeSet::new(),
        began_on: BTreeSet::new(),
        has_authorities: false,
        accept_earlier: false,
    }
}

fn host(authorities: &[(&str, &[u8])]) -> Facts {
    let authorities = authorities.iter();
    Facts {
        receipt: true,
        authorities: authorities
            .map(|(path, content)| ((*path).to_owned(), vec![Digest::of(content)]))
            .collect(),
        ..Facts::default()
    }
}

fn of_cluster(identity: ClusterIdentity) -> Facts {
    Facts {
        cluster: Membership::Cluster(identity),
        ..host(&[])
    }
}

fn as_facts<const N: usize>(hosts: [(&str, Facts); N]) -> BTreeMap<HostName, Facts> {
    hosts.map(|(host, facts)| (name(host), facts)).into()
}

/// Returns what node1 is to the cluster, or the finding.
fn origin_of(controller: &Controller, facts: Facts) -> Result<Origin, String> {
    let found = origins(&cluster("", ""), controller, &as_facts([("node1", facts)]));
    found
        .map(|origins| origins[&name("node1")])
        .map_err(|findings| findings[0].to_string())
}

#[test]
fn host_of_another_cluster_is_refused_and_both_clusters_are_named() {
    assert_eq!(
        origin_of(&controller(), of_cluster(ours())),
        Ok(Origin::Recorded)
    );
    let refused = origin_of(&controller(), of_cluster(theirs())).unwrap_err();
    insta::assert_snapshot!(refused, @"
    node1: belongs to cluster 'other' (ID 7d1f0a52-0c7e-4f0e-9a55-1f1d2c3b4a59), created 2026-01-31T12:00:00Z; the state directory /state is of cluster 'example' (ID 0b7c4c4e-93a5-4cc7-8d83-3f3f6f0f9b11)
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    ");
    // The same name does not make it the same cluster.
    let namesake = identity("7d1f0a52-0c7e-4f0e-9a55-1f1d2c3b4a59", "example");
    origin_of(&controller(), of_cluster(namesake)).unwrap_err();
    let without_record = Controller {
        identity: None,
        ..controller()
    };
    let refused = origin_of(&without_record, of_cluster(theirs())).unwrap_err();
    insta::assert_snapshot!(refused, @"
    node1: belongs to cluster 'other' (ID 7d1f0a52-0c7e-4f0e-9a55-1f1d2c3b4a59), created 2026-01-31T12:00:00Z; the state directory /state has no record of a cluster
      hint: pass the state directory of that cluster with --state, or correct the address of the host in the cluster file; `kubexm reset` with that state directory, or with --cluster-id if it is lost, frees the host
    ");
    let damaged = Facts {
        cluster: Membership::Damaged,
        ..host(&[(REGISTRY, b"registry")])
    };
    origin_of(&controller(), damaged).unwrap_err();
}

#[test]
fn untouched_host_is_accepted() {
    assert_eq!(
        origin_of(&controller(), Facts::default()),
        Ok(Origin::Untouched)
    );
}

#[test]
fn host_of_an_earlier_version_is_accepted_if_its_certificates_fit() {
    let before = Controller {
        identity: None,
        ..controller()
    };
    let fits = host(&[(REGISTRY, b"registry"), (CA, b"of kubeadm")]);
    assert_eq!(origin_of(&before, fits), Ok(Origin::Earlier));
    let other = host(&[(REGISTRY, b"another"), (CA, b"of kubeadm")]);
    insta::assert_snapshot!(origin_of(&before, other).unwrap_err(), @"
    node1: /etc/kubexm/registry-ca.crt has the registry CA sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, but the state directory /state has sha256:872491a30d60d598962de6e7b834ab76b2aa65fbab102c6ebaaae6acdc238822 (/state/pki/kubexm-example.crt)
      hint: pass the state directory of this cluster with --state, or restore it from a backup: only kubexm certs rotate-ca and rotate-sa-key replace an authority
    ");
    // kubexm does not know the CA of kubeadm, so that it proves nothing.
    let unproved = host(&[(CA, b"of kubeadm")]);
    insta::assert_snapshot!(origin_of(&before, unproved).unwrap_err(), @"
    node1: an earlier version of kubexm installed it, and no certificate on it proves that it belongs to the cluster of /state
      hint: pass the state directory of its cluster with --state; `kubexm reset --cluster-id none` frees the host if it is lost
    ");
}

#[test]
fn first_install_of_an_earlier_version_that_was_killed_continues_from_its_state_directory() {
    let began = Controller {
        identity: None,
        began_on: [name("node1")].into(),
        ..controller()
    };
    assert_eq!(origin_of(&began, host(&[])), Ok(Origin::Earlier));
    insta::assert_snapshot!(origin_of(&controller(), host(&[])).unwrap_err(), @"
    node1: an earlier version of kubexm began an install on it, and the journal in /state does not have it
      hint: pass the state directory of that install with --state; `kubexm reset --cluster-id none` frees the host if it is lost
    ");
    // A node without certificates is not the rest of a first install.
    let node = Facts {
        joined: true,
        ..host(&[])
    };
    origin_of(&began, node).unwrap_err();
}

fn problems(controller: &Controller, facts: BTreeMap<HostName, Facts>) -> String {
    let findings = check(&cluster("", ""), controller, &facts);
    let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
    findings.join("\n")
}

fn node(authorities: &[(&str, &[u8])]) -> Facts {
    Facts {
        initialized: true,
        ..host(authorities)
    }
}

#[test]
fn other_authority_on_a_host_is_a_finding_with_both_fingerprints() {
    let same = node(&[(REGISTRY, b"registry"), (CA, b"of kubeadm")]);
    assert_eq!(
        problems(&controller(), as_facts([("node1", same.clone())])),
        ""
    );
    let other = node(&[(REGISTRY, b"another")]);
    insta::assert_snapshot!(problems(&controller(), as_facts([("node1", other.clone())])), @"
    node1: /etc/kubexm/registry-ca.crt has the registry CA sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, but the state directory /state has sha256:872491a30d60d598962de6e7b834ab76b2aa65fbab102c6ebaaae6acdc238822 (/state/pki/kubexm-example.crt)
      hint: pass the state directory of this cluster with --state, or restore it from a backup: only kubexm certs rotate-ca and rotate-sa-key replace an authority
    ");
    let mut none = controller();
    if let Some(registry) = none.authorities.get_mut(&Authority::Registry) {
        registry.fingerprint = None;
    }
    insta::assert_snapshot!(problems(&none, as_facts([("node1", other)])), @"
    node1: /etc/kubexm/registry-ca.crt has the registry CA sha256:ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5, but the state directory /state has none (/state/pki/kubexm-example.crt does not exist)
      hint: pass the state directory of this cluster with --state, or restore it from a backup: only kubexm certs rotate-ca and rotate-sa-key replace an authority
    ");
    // kubeadm's CA is unknown to the controller, but all nodes have the same.
    let second = node(&[(CA, b"of another kubeadm")]);
    let facts = as_facts([("node1", same), ("node2", second)]);
    insta::assert_snapshot!(problems(&controller(), facts), @"
    node2: /etc/kubernetes/pki/ca.crt has the Kubernetes CA sha256:380f96ed5a5b6abcfcb26a83a2d085be5442d45b0e45767622a14215358d4c65, but node1 has sha256:2f431040beac8795a67e6dd81c208e168503ca1d7059e97308edc39b78dd3141
      hint: correct the addresses of the hosts in the cluster file: they belong to two clusters
    ");
}

#[test]
fn authorities_of_kubeadm_are_learned_from_nodes_only() {
    let interrupted = host(&[(CA, b"of an interrupted init")]);
    let learned = of_kubeadm(&cluster("", ""), &as_facts([("node1", interrupted)]));
    assert_eq!(learned, BTreeMap::new());
    let initialized = node(&[(REGISTRY, b"registry"), (CA, b"of kubeadm")]);
    let learned = of_kubeadm(&cluster("", ""), &as_facts([("node1", initialized)]));
    let expected = [(Authority::Kubernetes, Digest::of(b"of kubeadm"))];
    assert_eq!(learned, expected.into());
}

/// Before, `kubeadm init` ran on it, and created another CA.
#[test]
fn first_control_plane_that_was_replaced_does_not_create_a_second_cluster() {
    let fresh = Facts::default();
    assert_eq!(
        problems(&controller(), as_facts([("node1", fresh.clone())])),
        ""
    );
    let worker = Facts {
        joined: true,
        ..host(&[(CA, b"of kubeadm")])
    };
    let facts = as_facts([("node1", fresh.clone()), ("node2", worker)]);
    insta::assert_snapshot!(problems(&controller(), facts), @"
    node1: is the first control plane, and kubeadm would create a second cluster on it: node2 is a node of this cluster already
      hint: restore the host from a backup; for a new cluster, run `kubexm reset` for all hosts of the old one, and then pass another directory with --state
    ");
    let mut known = controller();
    let kubernetes = Expected {
        fingerprint: Some(Digest::of(b"of kubeadm")),
        source: "/state/cluster.json".to_owned(),
    };
    known.authorities.insert(Authority::Kubernetes, kubernetes);
    insta::assert_snapshot!(problems(&known, as_facts([("node1", fresh)])), @"
    node1: is the first control plane, and kubeadm would create a second cluster on it: the cluster has the Kubernetes CA sha256:2f431040beac8795a67e6dd81c208e168503ca1d7059e97308edc39b78dd3141
      hint: restore the host from a backup; for a new cluster, run `kubexm reset` for all hosts of the old one, and then pass another directory with --state
    ");
}

/// Programs on the host trusted a CA that someone had added.
#[test]
fn another_authority_beside_the_own_one_is_that_of_a_rotation() {
    let facts = Facts {
        authorities: [(
            REGISTRY.to_owned(),
            vec![Digest::of(b"registry"), Digest::of(b"added")],
        )]
        .into(),
        ..host(&[])
    };
    let facts = as_facts([("node1", facts)]);
    let found = |controller: &Controller| {
        let findings = check(&cluster("", ""), controller, &facts);
        findings.iter().map(ToString::to_string).collect::<String>()
    };
    let refused = found(&controller());
    let expected = format!(
        "node1: {REGISTRY} also has the registry CA {}, which the state directory /state does not record",
        Digest::of(b"added")
    );
    assert!(refused.starts_with(&expected), "{refused}");
    let rotating = Controller {
        rotation: [Digest::of(b"added")].into(),
        ..controller()
    };
    assert_eq!(found(&rotating), "");
    let ending = Controller {
        ending: [Authority::Registry].into(),
        ..controller()
    };
    assert_eq!(found(&ending), "");
    let other = Controller {
        rotation: [Digest::of(b"registry")].into(),
        authorities: BTreeMap::from([(
            Authority::Registry,
            Expected {
                fingerprint: Some(Digest::of(b"next")),
                source: String::new(),
            },
        )]),
        ..rotating
    };
    assert!(!found(&other).is_empty());
}
