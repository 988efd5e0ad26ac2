use super::*;
use crate::renewal::tests::cluster;

const TWO: &str = "<both CAs>";

/// Returns `TASK@HOST: STEP` for each step of a phase.
fn steps(phase: RotationPhase, authorities: &[Authority]) -> Vec<String> {
    let cluster = cluster("", "");
    let rotated = |authority: &Authority| {
        let own = RotatedAuthority {
            trusted: TWO.to_owned(),
            present: "<one>".to_owned(),
            key: (phase == RotationPhase::Switch).then(|| "<key>".to_owned()),
        };
        (*authority, own)
    };
    let plan = rotation(&RotationInputs {
        cluster: &cluster,
        hosts: BTreeMap::new(),
        certificates: Certificates::placeholder(&cluster),
        phase,
        id: "2026-01-31T12:00:00Z",
        authorities: &authorities.iter().map(rotated).collect(),
        has_super_admin: true,
    });
    let tasks = plan.unwrap().plan.tasks;
    for pair in tasks.windows(2) {
        assert_eq!(pair[1].after, [pair[0].id()]);
    }
    let steps = tasks.iter().flat_map(|task| {
        let steps = task.steps.iter();
        steps.map(move |step| format!("{}@{}: {}", task.name, task.host, step.id()))
    });
    steps.collect()
}

fn at(steps: &[String], step: &str) -> usize {
    let found = steps.iter().position(|found| found == step);
    found.unwrap_or_else(|| panic!("{step} is not in {steps:#?}"))
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
    let kubelet = at(&steps, "kubelet@node1: kubelet credentials");
    assert!(last < kubelet, "{steps:#?}");
    assert!(
        at(&steps, "kubelet@node4: rotation kubelet certificates")
            < at(&steps, "kubelet@node4: kubelet credentials")
    );
    assert!(
        at(&steps, "host@node1: file /etc/kubernetes/pki/ca.key")
            < at(&steps, "host@node1: kubeadm certificate files")
    );
    assert!(
        at(&steps, "approve-node3@node1: kubelet serving certificates")
            < at(&steps, "kubelet@node4: kubelet credentials")
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

#[test]
fn clusters_whose_programs_cannot_follow_are_refused() {
    assert_eq!(rotation_obstacle(&cluster("", "")), None);
    let units = rotation_obstacle(&cluster("type: systemd", "etcd: {type: systemd}")).unwrap();
    assert!(units.contains("systemd units") && units.contains("hint: "));
}
