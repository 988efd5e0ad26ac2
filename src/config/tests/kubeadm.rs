//! Settings of kubeadm: those that kubexm writes are refused with the field to use.

use super::{assert_refused, read};

#[test]
fn fields_of_kubeadm_that_kubexm_writes_are_refused() {
    for (document, field, hint) in [
        (
            "clusterConfiguration",
            "kubernetesVersion: v1",
            "kubernetes.version",
        ),
        (
            "clusterConfiguration",
            "networking: {podSubnet: 10.1.0.0/16}",
            "network.podCIDR",
        ),
        ("clusterConfiguration", "networking: 1", "write a mapping"),
        (
            "clusterConfiguration",
            "apiServer: {extraArgs: []}",
            "kubernetes.apiServer.extraArgs",
        ),
        (
            "clusterConfiguration",
            "scheduler: {extraVolumes: []}",
            "kubernetes.scheduler.extraVolumes",
        ),
        (
            "clusterConfiguration",
            "etcd: {local: {dataDir: /srv}}",
            "etcd.dataDir",
        ),
        (
            "clusterConfiguration",
            "etcd: {local: {peerCertSANs: [a]}}",
            "etcd.certSANs",
        ),
        (
            "clusterConfiguration",
            "imageRepository: a.example",
            "images of the bundle",
        ),
        (
            "clusterConfiguration",
            "certificateValidityPeriod: 1h",
            "certificates.validityDays",
        ),
        ("clusterConfiguration", "apiVersion: v1", "remove"),
        (
            "initConfiguration",
            "localAPIEndpoint: {bindPort: 1}",
            "kubernetes.apiServer.port",
        ),
        (
            "initConfiguration",
            "nodeRegistration: {taints: []}",
            "taints of the host",
        ),
        ("initConfiguration", "skipPhases: []", "kubeadm.skipPhases"),
        ("initConfiguration", "bootstrapTokens: []", "remove"),
        ("joinConfiguration", "discovery: {}", "pins the CA"),
        (
            "joinConfiguration",
            "controlPlane: null",
            "roleGroups.control-plane",
        ),
        (
            "joinConfiguration",
            "nodeRegistration: {kubeletExtraArgs: {}}",
            "kubelet.extraArgs",
        ),
    ] {
        let settings = format!("kubeadm: {{extraConfig: {{{document}: {{{field}}}}}}}");
        let problems = read(&settings, "").expect_err(field);
        let start = format!("spec.kubernetes.kubeadm.extraConfig.{document}.");
        for problem in &problems.list {
            assert!(problem.path.starts_with(&start), "{problems}");
        }
        assert!(problems.to_string().contains(hint), "{field}: {problems}");
    }
}

#[test]
fn other_fields_of_kubeadm_are_accepted() {
    let config = "clusterConfiguration: {encryptionAlgorithm: RSA-3072, featureGates: {A: true}, \
                  networking: {}, apiServer: {timeoutForControlPlane: 9m}}, \
                  initConfiguration: {timeouts: {kubeletHealthCheck: 9m}}, \
                  joinConfiguration: {nodeRegistration: {imagePullSerial: false}}";
    let settings = format!(
        "kubeadm: {{extraConfig: {{{config}}}, skipPhases: {{init: [addon/kube-proxy], join: [preflight]}}}}"
    );
    let cluster = read(&settings, "").unwrap();
    let kubernetes = &cluster.kubernetes;
    assert_eq!(
        kubernetes.kubeadm.config.cluster["encryptionAlgorithm"],
        "RSA-3072"
    );
    assert_eq!(kubernetes.kubeadm.skip_phases.init, ["addon/kube-proxy"]);
}

#[test]
fn phases_that_kubexm_needs_are_not_skipped() {
    for (command, phase) in [
        ("init", "certs"),
        ("init", "addon"),
        ("init", "addon/coredns"),
        ("init", "preflights"),
        ("join", "kubelet-start"),
        ("join", "show-join-command"),
    ] {
        let settings = format!("kubeadm: {{skipPhases: {{{command}: [{phase}]}}}}");
        let path = format!("spec.kubernetes.kubeadm.skipPhases.{command}[0]");
        assert_refused(&settings, "", &path, "preflight");
    }
}

#[test]
fn settings_of_kubeadm_have_no_effect_on_systemd_units() {
    let etcd = "  etcd: {type: systemd}\n";
    for (setting, path) in [
        (
            "kubeadm: {extraConfig: {initConfiguration: {timeouts: {}}}}",
            "kubeadm.extraConfig",
        ),
        (
            "kubeadm: {skipPhases: {init: [preflight]}}",
            "kubeadm.skipPhases",
        ),
        (
            "controllerManager: {extraVolumes: [{name: a, hostPath: /a}]}",
            "controllerManager.extraVolumes",
        ),
    ] {
        let settings = format!("type: systemd, {setting}");
        assert_refused(
            &settings,
            etcd,
            &format!("spec.kubernetes.{path}"),
            "remove it",
        );
    }
}

#[test]
fn validity_needs_a_version_of_kubeadm_that_has_it() {
    let settings = "certificates: {validityDays: 90, caValidityDays: 1000}";
    assert_eq!(read(settings, "").unwrap().kubernetes.validity.days, 90);
    let old = "version: v1.30.4, certificates: {validityDays: 90}";
    assert_refused(old, "", "spec.kubernetes.certificates.validityDays", "1.31");
    let old = format!("{old}, type: systemd");
    assert!(read(&old, "  etcd: {type: systemd}\n").is_ok());
    let old = "version: v1.30.4, certificates: {ca: {certFile: Cargo.toml, keyFile: Cargo.toml}}";
    assert!(read(old, "").unwrap().kubernetes.site_ca.is_some());
    let alone = "certificates: {ca: {certFile: Cargo.toml}}";
    assert_refused(alone, "", "spec.kubernetes.certificates.ca", "keyFile");
    let missing = "certificates: {ca: {certFile: Cargo.toml, keyFile: none.key}}";
    assert_refused(missing, "", "spec.kubernetes.certificates.ca.keyFile", "");
    let wrong = "certificates: {validityDays: 90, caValidityDays: 89}";
    assert_refused(
        wrong,
        "",
        "spec.kubernetes.certificates",
        "larger caValidityDays",
    );
}
