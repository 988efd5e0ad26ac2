use std::collections::BTreeMap;

use super::*;
use crate::Certificates;
use crate::renewal::tests::{at, cluster, in_a_chain, with_balancer};
use kubexm_config::Cluster;

const TWO: &str = "<both CAs>";

/// Returns `TASK@HOST: STEP` for each step of a phase with kubeadm.
fn steps(phase: RotationPhase, authorities: &[Authority]) -> Vec<String> {
    steps_of(&cluster("", ""), phase, authorities)
}

/// Returns the steps of a cluster with systemd units.
fn steps_of_units(phase: RotationPhase, authorities: &[Authority]) -> Vec<String> {
    let cluster = cluster("type: systemd", "etcd: {type: systemd}");
    steps_of(&cluster, phase, authorities)
}

fn steps_of(cluster: &Cluster, phase: RotationPhase, authorities: &[Authority]) -> Vec<String> {
    let rotated = |authority: &Authority| {
        let own = RotatedAuthority {
            trusted: TWO.to_owned(),
            present: "<one>".to_owned(),
            key: (phase == RotationPhase::Switch).then(|| "<key>".to_owned()),
        };
        (*authority, own)
    };
    let plan = rotation(&RotationInputs {
        cluster,
        hosts: BTreeMap::new(),
        certificates: Certificates::placeholder(cluster),
        phase,
        id: "2026-01-31T12:00:00Z",
        authorities: &authorities.iter().map(rotated).collect(),
        has_super_admin: true,
    });
    in_a_chain(&plan.unwrap().plan)
}

/// The controller manager does not start with a file of two certificates.
#[test]
fn controller_manager_signs_with_a_file_of_one_certificate() {
    let ca = "host@node2: file /etc/kubernetes/pki/ca.crt";
    let (file, flag) = (
        "host@node2: file /etc/kubernetes/pki/signing-ca.crt",
        "host@node2: rotation signer",
    );
    let trust = steps(RotationPhase::Trust, &[Authority::Kubernetes]);
    assert!(at(&trust, file) < at(&trust, flag) && at(&trust, flag) < at(&trust, ca));
    for phase in [RotationPhase::Remove, RotationPhase::Cancel] {
        let end = steps(phase, &[Authority::Kubernetes]);
        let (programs, removed) = (
            "host@node2: rotation programs",
            "host@node2: rotation signer file",
        );
        assert!(at(&end, ca) < at(&end, flag) && at(&end, flag) < at(&end, programs));
        assert!(at(&end, programs) < at(&end, removed));
    }
}

/// Whichever controller manager signs the request of a kubelet, it uses the new CA.
#[test]
fn kubelets_get_certificates_after_all_control_planes_have_switched() {
    let all = [
        Authority::Kubernetes,
        Authority::FrontProxy,
        Authority::Etcd,
    ];
    let steps = steps(RotationPhase::Switch, &all);
    let last = at(&steps, "host@node3: rotation programs");
    let kubelet = at(&steps, "kubelet@node1: kubelet certificates");
    assert!(last < kubelet, "{steps:#?}");
    assert!(
        at(&steps, "host@node1: file /etc/kubernetes/pki/ca.key")
            < at(&steps, "host@node1: kubeadm certificate files")
    );
    assert!(
        at(&steps, "approve-node3@node1: kubelet serving certificates")
            < at(&steps, "kubelet@node4: kubelet certificates")
    );
}

#[test]
fn rotation_of_one_authority_leaves_the_files_of_others() {
    for (authority, own) in [
        (Authority::Etcd, "etcd/ca.crt"),
        (Authority::FrontProxy, "front-proxy-ca.crt"),
        (Authority::ServiceAccounts, "sa.pub"),
    ] {
        let steps = steps(RotationPhase::Trust, &[authority]);
        let files: Vec<&String> = steps
            .iter()
            .filter(|step| step.contains(": file "))
            .collect();
        assert_eq!(files.len(), 3, "{files:?}");
        assert!(
            files.iter().all(|file| file.ends_with(&format!("/{own}"))),
            "{files:?}"
        );
        assert!(
            !steps.iter().any(|step| step.contains("node4")),
            "{steps:#?}"
        );
    }
}

/// The controller manager does not start with a file of two certificates, or with one that does not belong to its key.
#[test]
fn controller_manager_of_units_signs_with_a_file_of_one_certificate() {
    let (ca, file, flag, unit) = (
        "host@node2: file /etc/kubernetes/pki/ca.crt",
        "host@node2: file /etc/kubernetes/pki/signing-ca.crt",
        "host@node2: rotation signer",
        "host@node2: unit kube-controller-manager.service",
    );
    let trust = steps_of_units(RotationPhase::Trust, &[Authority::Kubernetes]);
    assert!(at(&trust, file) < at(&trust, flag) && at(&trust, flag) < at(&trust, ca));
    let switch = steps_of_units(RotationPhase::Switch, &[Authority::Kubernetes]);
    let key = "host@node2: file /etc/kubernetes/pki/ca.key";
    assert_eq!(at(&switch, file) + 1, at(&switch, unit), "{switch:#?}");
    assert!(at(&switch, key) < at(&switch, file));
    for phase in [RotationPhase::Remove, RotationPhase::Cancel] {
        let end = steps_of_units(phase, &[Authority::Kubernetes]);
        assert!(at(&end, ca) < at(&end, flag) && at(&end, flag) < at(&end, unit));
        assert!(at(&end, unit) < at(&end, "host@node2: rotation signer file"));
        assert!(
            !end.iter().any(|step| step.ends_with("/ca.key")),
            "{end:#?}"
        );
    }
}

#[test]
fn kubelets_of_units_get_certificates_after_all_control_planes_have_switched() {
    let steps = steps_of_units(
        RotationPhase::Switch,
        &[Authority::Kubernetes, Authority::FrontProxy],
    );
    let last = at(&steps, "host@node3: unit kube-controller-manager.service");
    let kubelet = at(&steps, "kubelet@node1: kubelet certificates");
    let first_certificate = at(&steps, "host@node4: file /etc/kubernetes/kubelet.conf");
    assert!(
        last < first_certificate && first_certificate < kubelet,
        "{steps:#?}"
    );
    assert!(
        at(&steps, "approve-node3@node1: kubelet serving certificates")
            < at(&steps, "kubelet@node4: kubelet certificates")
    );
    assert!(
        at(
            &steps,
            "host@node1: file /etc/kubernetes/pki/front-proxy-client.crt"
        ) < at(&steps, "host@node1: unit kube-apiserver.service")
    );
    assert!(
        !steps
            .iter()
            .any(|step| step.contains("certificates.kubelets")),
        "{steps:#?}"
    );
}

#[test]
fn rotation_of_one_authority_leaves_programs_that_do_not_read_it() {
    use RotationPhase::{Remove, Switch, Trust};
    let (api_server, controllers) = ("kube-apiserver", "kube-controller-manager");
    for (authority, phase, files, programs) in [
        (
            Authority::FrontProxy,
            Trust,
            &["pki/front-proxy-ca.crt"][..],
            &[api_server, controllers][..],
        ),
        (
            Authority::ServiceAccounts,
            Trust,
            &["pki/sa.pub"],
            &[api_server],
        ),
        (
            Authority::ServiceAccounts,
            Switch,
            &["pki/sa.key", "pki/sa.pub"],
            &[api_server, controllers],
        ),
        (Authority::Etcd, Remove, &[], &[api_server]),
    ] {
        let steps = steps_of_units(phase, &[authority]);
        let on_node2 = |kind: &str| -> BTreeSet<String> {
            let start = format!("host@node2: {kind} ");
            let found = steps.iter().filter_map(|step| step.strip_prefix(&start));
            found.map(str::to_owned).collect()
        };
        let files: BTreeSet<String> = files
            .iter()
            .map(|file| format!("/etc/kubernetes/{file}"))
            .collect();
        let found: BTreeSet<String> = on_node2("file")
            .into_iter()
            .filter(|file| !file.starts_with("/etc/kubexm/"))
            .collect();
        assert_eq!(found, files, "{authority}");
        let mut units = on_node2("unit");
        units.remove("etcd.service");
        let programs: BTreeSet<String> = programs
            .iter()
            .map(|name| format!("{name}.service"))
            .collect();
        assert_eq!(units, programs, "{authority}");
        assert!(
            !steps.iter().any(|step| step.contains("node4")),
            "{steps:#?}"
        );
    }
}

/// Runtimes read the CAs for each pull. The registry reads its certificate when it starts.
#[test]
fn nodes_trust_the_new_ca_of_the_registry_before_it_has_a_certificate_of_it() {
    for (runtime, file) in [
        ("containerd", "/etc/kubexm/registry-ca.crt"),
        (
            "cri-o",
            "/etc/containers/certs.d/registry.kubexm.internal:5000/ca.crt",
        ),
    ] {
        let section = format!("containerRuntime: {{type: {runtime}}}");
        let cluster = cluster("", &section);
        for phase in [RotationPhase::Trust, RotationPhase::Remove] {
            let steps = steps_of(&cluster, phase, &[Authority::Registry]);
            let hosts = ["node1", "node2", "node3", "node4"];
            for host in hosts {
                at(&steps, &format!("host@{host}: file {file}"));
            }
            let files = steps.iter().filter(|step| step.contains(": file "));
            assert_eq!(files.count(), hosts.len(), "{steps:#?}");
            assert!(
                !steps.iter().any(|step| step.contains(": unit ")),
                "{steps:#?}"
            );
        }
        let steps = steps_of(&cluster, RotationPhase::Switch, &[Authority::Registry]);
        let certificate = at(&steps, "host@node1: file /etc/kubexm/registry/tls.crt");
        let unit = steps
            .iter()
            .position(|step| step.starts_with("host@node1: unit "));
        assert!(unit.is_some_and(|unit| certificate < unit), "{steps:#?}");
    }
}

/// etcd reads the CAs only when it starts. A second member ends after the first one answers again.
#[test]
fn members_of_etcd_restart_one_after_another_while_all_are_healthy() {
    for kubernetes in ["", "type: systemd"] {
        let cluster = cluster(kubernetes, "etcd: {type: systemd}");
        for phase in [
            RotationPhase::Trust,
            RotationPhase::Remove,
            RotationPhase::Cancel,
        ] {
            let steps = steps_of(&cluster, phase, &[Authority::Etcd]);
            let unit = |host: &str| at(&steps, &format!("host@{host}: unit etcd.service"));
            let wait = "wait: Wait until etcd is healthy";
            let waits = steps[..unit("node1")]
                .iter()
                .filter(|step| step.starts_with("member@"));
            assert_eq!(waits.count(), 3, "{steps:#?}");
            for (one, next) in [("node1", "node2"), ("node2", "node3")] {
                let ca = at(
                    &steps,
                    &format!("host@{one}: file /etc/kubexm/etcd-member/ca.crt"),
                );
                let answers = steps
                    .iter()
                    .position(|step| step.starts_with(&format!("host@{one}: wait")));
                let answers = answers.unwrap_or_else(|| panic!("{wait}: {steps:#?}"));
                let ends = at(&steps, &format!("host@{one}: etcd clients"));
                assert!(ca < ends && ends + 1 == unit(one));
                assert!(ca < unit(one) && unit(one) < answers && answers < unit(next));
            }
            assert!(
                !steps.iter().any(|step| step.contains("member.key")),
                "{steps:#?}"
            );
            let client = at(&steps, "host@node2: file /etc/kubexm/etcd/ca.crt");
            let restart = match kubernetes {
                "" => at(&steps, "host@node2: rotation programs"),
                _ => at(&steps, "host@node2: unit kube-apiserver.service"),
            };
            assert!(client < restart);
        }
        let steps = steps_of(&cluster, RotationPhase::Switch, &[Authority::Etcd]);
        at(
            &steps,
            "host@node3: file /etc/kubexm/etcd-member/member.key",
        );
        at(&steps, "host@node3: file /etc/kubexm/etcd/client.key");
        assert!(
            !steps.iter().any(|step| step.ends_with("unit etcd.service")),
            "{steps:#?}"
        );
        assert!(
            !steps
                .iter()
                .any(|step| step.contains("kubeadm certificate")),
            "{steps:#?}"
        );
    }
}

/// Pods read certificates and CAs only when they start.
#[test]
fn pods_of_load_balancers_restart_after_the_files_of_their_host() {
    let restart = "host@node4: load balancer pod";
    let kube_vip = with_balancer("", "", "{type: kube-vip}");
    let all = [
        RotationPhase::Trust,
        RotationPhase::Switch,
        RotationPhase::Remove,
        RotationPhase::Cancel,
    ];
    for phase in all {
        let steps = steps_of(&kube_vip, phase, &[Authority::Kubernetes]);
        let files = at(&steps, "host@node1: rotation kubeconfigs");
        assert!(files < at(&steps, "host@node1: load balancer pod"));
        assert_eq!(at(&steps, "host@node1: endpoint leaves"), 0);
        let returns = at(&steps, "host@node1: endpoint returns");
        assert!(files < returns && returns < at(&steps, "host@node1: load balancer pod"));
        assert!(!steps.contains(&restart.to_owned()), "{steps:#?}");
    }
    let units = with_balancer("type: systemd", "etcd: {type: systemd}", "{type: kube-vip}");
    for phase in all {
        let steps = steps_of(&units, phase, &[Authority::Kubernetes]);
        let file = at(&steps, "host@node1: file /etc/kubernetes/kube-vip.conf");
        let manifest = "host@node1: file /etc/kubernetes/manifests/kube-vip.yaml";
        assert!(file < at(&steps, manifest), "{steps:#?}");
    }
    let steps = steps_of(&units, RotationPhase::Switch, &[Authority::Etcd]);
    assert!(!steps.iter().any(|step| step.contains("kube-vip")));
}

/// API servers add CAs to the object from which others take them, and remove none.
#[test]
fn aggregated_api_servers_lose_the_former_cas() {
    let step = "cluster@node1: authentication cas".to_owned();
    for phase in [RotationPhase::Remove, RotationPhase::Cancel] {
        for authority in [Authority::Kubernetes, Authority::FrontProxy] {
            assert!(steps(phase, &[authority]).contains(&step));
            assert!(steps_of_units(phase, &[authority]).contains(&step));
        }
        assert!(!steps(phase, &[Authority::Etcd]).contains(&step));
    }
    let all = [Authority::Kubernetes, Authority::FrontProxy];
    assert!(!steps(RotationPhase::Switch, &all).contains(&step));
}
