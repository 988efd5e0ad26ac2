//! Kubernetes' programs: ports, flags, configuration files and volumes.

use super::{assert_refused, read};

#[test]
fn port_of_the_api_server_is_the_default_of_the_endpoint_and_free() {
    let cluster = read("apiServer: {port: 8443}", "").unwrap();
    assert_eq!(cluster.control_plane_endpoint.to_string(), "10.0.0.11:8443");
    for port in [22, 2379, 10250, 10257, 5000] {
        let settings = format!("apiServer: {{port: {port}}}");
        let path = "spec.kubernetes.apiServer.port";
        assert_refused(&settings, "", path, "another port");
    }
    let vip = "  highAvailability: {type: kube-vip}\n  controlPlaneEndpoint: 10.0.0.9:6443\n";
    let path = "spec.controlPlaneEndpoint";
    assert_refused("apiServer: {port: 8443}", vip, path, "8443");
}

#[test]
fn values_with_which_the_cluster_does_not_work_are_refused() {
    for (program, flag, value, hint) in [
        (
            "apiServer",
            "authorization-mode",
            "RBAC,Webhook",
            "Node,RBAC",
        ),
        (
            "apiServer",
            "authorization-mode",
            "AlwaysAllow",
            "Node,RBAC",
        ),
        (
            "apiServer",
            "enable-admission-plugins",
            "AlwaysPullImages",
            "NodeRestriction",
        ),
        (
            "apiServer",
            "anonymous-auth",
            "false",
            "authentication-config",
        ),
        (
            "controllerManager",
            "allocate-node-cidrs",
            "false",
            "another network plugin",
        ),
        ("apiServer", "bind-address", "::1", "all addresses"),
        (
            "apiServer",
            "disable-admission-plugins",
            "PodSecurity, ServiceAccount",
            "remove ServiceAccount",
        ),
        ("kubelet", "register-node", "false", "spec.hosts"),
    ] {
        let settings = format!("{program}: {{extraArgs: {{{flag}: '{value}'}}}}");
        let path = format!("spec.kubernetes.{program}.extraArgs.{flag}");
        assert_refused(&settings, "", &path, hint);
    }
    for (kubernetes, sections) in [
        (
            "apiServer: {extraArgs: {authorization-mode: 'Node,RBAC,Webhook'}}",
            "",
        ),
        (
            "apiServer: {extraArgs: {enable-admission-plugins: 'NodeRestriction,AlwaysPullImages'}}",
            "",
        ),
        (
            "apiServer: {extraArgs: {disable-admission-plugins: DefaultStorageClass, bind-address: '::'}}, \
             kubelet: {extraArgs: {register-node: 'true'}}",
            "",
        ),
        (
            "type: systemd, apiServer: {extraArgs: {anonymous-auth: 'false'}}",
            "  etcd: {type: systemd}\n",
        ),
        (
            "controllerManager: {extraArgs: {allocate-node-cidrs: 'false'}}",
            "  network: {plugin: none}\n",
        ),
    ] {
        read(kubernetes, sections).expect(kubernetes);
    }
}

#[test]
fn fields_that_another_field_decides_are_refused_with_that_field() {
    for (program, settings, field, hint) in [
        (
            "kubelet",
            "clusterDNS: [10.9.0.9]",
            "clusterDNS",
            "spec.dns",
        ),
        (
            "kubelet",
            "clusterDomain: corp",
            "clusterDomain",
            "kubernetes.dnsDomain",
        ),
        ("kubelet", "staticPodPath: null", "staticPodPath", "remove"),
        (
            "kubelet",
            "authentication: {x509: {clientCAFile: /ca}}",
            "authentication.x509.clientCAFile",
            "remove",
        ),
        (
            "kubelet",
            "authentication: null",
            "authentication",
            "write a mapping",
        ),
        (
            "kubelet",
            "registerWithTaints: []",
            "registerWithTaints",
            "taints of the hosts",
        ),
        (
            "kubeProxy",
            "mode: ipvs",
            "mode",
            "kubernetes.kubeProxy.mode",
        ),
        (
            "kubeProxy",
            "clusterCIDR: 10.9.0.0/16",
            "clusterCIDR",
            "network.podCIDR",
        ),
        (
            "kubeProxy",
            "clientConnection: {kubeconfig: /k}",
            "clientConnection.kubeconfig",
            "remove",
        ),
    ] {
        let settings = format!("{program}: {{extraConfig: {{{settings}}}}}");
        let path = format!("spec.kubernetes.{program}.extraConfig.{field}");
        assert_refused(&settings, "", &path, hint);
    }
    let units = "type: systemd, scheduler: {extraConfig: {clientConnection: {kubeconfig: /k}}}";
    let path = "spec.kubernetes.scheduler.extraConfig.clientConnection.kubeconfig";
    assert_refused(units, "  etcd: {type: systemd}\n", path, "remove");
    for free in [
        "kubelet: {extraConfig: {authentication: {webhook: {cacheTTL: 1m}}, hairpinMode: none}}",
        "kubeProxy: {extraConfig: {clientConnection: {qps: 9}, ipvs: {scheduler: lc}}}",
    ] {
        read(free, "").expect(free);
    }
}

/// Other parts of kubexm, and the API server, rely on these values.
#[test]
fn values_of_configurations_on_which_the_cluster_relies_stay() {
    for (config, field, hint) in [
        ("address: 127.0.0.1", "address", "internalAddress"),
        ("enableServer: false", "enableServer", "remove"),
        ("podLogsDir: /srv/logs", "podLogsDir", "mount a disk"),
        ("port: 10255", "port", "firewalls"),
        ("registerNode: false", "registerNode", "spec.hosts"),
        ("rotateCertificates: null", "rotateCertificates", "remove"),
        (
            "authorization: {mode: AlwaysAllow}",
            "authorization.mode",
            "remove",
        ),
        (
            "authentication: {anonymous: {enabled: true}}",
            "authentication.anonymous.enabled",
            "remove",
        ),
    ] {
        let settings = format!("kubelet: {{extraConfig: {{{config}}}}}");
        let path = format!("spec.kubernetes.kubelet.extraConfig.{field}");
        assert_refused(&settings, "", &path, hint);
        let patch = format!(
            "kubeadm: {{patches: [{{target: kubeletconfiguration, patch: {{kind: KubeletConfiguration, {config}}}}}]}}"
        );
        let path = format!("spec.kubernetes.kubeadm.patches[0].patch.{field}");
        assert_refused(&patch, "", &path, hint);
    }
    let scheduler = "kubeProxy: {mode: ipvs, extraConfig: {ipvs: {scheduler: least}}}";
    let path = "spec.kubernetes.kubeProxy.extraConfig.ipvs.scheduler";
    assert_refused(scheduler, "", path, "as in lc");
    let operation = |operation: &str| {
        format!(
            "kubeadm: {{patches: [{{target: kubeletconfiguration, type: json, patch: [{{{operation}}}]}}]}}"
        )
    };
    for refused in [
        "op: add, path: /clusterDNS/0, value: 10.9.0.9",
        "op: replace, path: /authentication, value: {}",
        "op: replace, path: /authorization/mode, value: AlwaysAllow",
        "op: remove, path: /registerNode",
    ] {
        let path = "spec.kubernetes.kubeadm.patches[0].patch[0]";
        let problem = super::only_problem(read(&operation(refused), ""), path, refused);
        assert!(problem.hint.is_some(), "{refused}");
    }
    for free in [
        "kubelet: {extraConfig: {serverTLSBootstrap: false, address: 0.0.0.0, port: 10250, registerNode: true, healthzPort: 10348}}".to_owned(),
        "kubeadm: {patches: [{target: kubeletconfiguration, patch: {maxPods: 42, registerNode: true}}]}".to_owned(),
        "kubeadm: {patches: [{target: etcd, patch: {kind: Pod, port: 1}}]}".to_owned(),
        operation("op: add, path: /maxPods, value: 42"),
        operation("op: replace, path: /registerNode, value: true"),
        operation("op: test, path: /clusterDomain, value: cluster.local"),
    ] {
        read(&free, "").expect(&free);
    }
}

#[test]
fn scheduler_of_ipvs_is_a_module_of_nodes() {
    let modules = |scheduler: &str| {
        let extra = format!("extraConfig: {{ipvs: {{scheduler: {scheduler}}}}}");
        let cluster = read(&format!("kubeProxy: {{mode: ipvs, {extra}}}"), "").unwrap();
        cluster.kernel_modules().split_off(2)
    };
    let always = ["ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh"];
    assert_eq!(modules("rr"), always);
    assert_eq!(modules("lc")[..4], always);
    assert_eq!(modules("lc")[4..], ["ip_vs_lc"]);
}

#[test]
fn flags_that_kubexm_sets_are_refused_with_the_field_to_use() {
    for (program, flag, hint) in [
        ("apiServer", "secure-port", "kubernetes.apiServer.port"),
        ("apiServer", "etcd-servers", "etcd.external"),
        (
            "apiServer",
            "service-cluster-ip-range",
            "network.serviceCIDR",
        ),
        ("apiServer", "tls-cert-file", "apiServer.certSANs"),
        ("controllerManager", "cluster-cidr", "network.podCIDR"),
        ("controllerManager", "kubeconfig", "remove"),
        ("scheduler", "authorization-kubeconfig", "remove"),
        ("kubelet", "config", "kubelet.extraConfig"),
        (
            "kubelet",
            "container-runtime-endpoint",
            "containerRuntime.type",
        ),
        ("kubelet", "hostname-override", "spec.hosts"),
        ("kubelet", "node-ip", "internalAddress"),
        ("kubelet", "root-dir", "mount a disk"),
        ("kubelet", "register-with-taints", "taints of the hosts"),
        ("kubelet", "fail-swap-on", "failSwapOn"),
        ("kubelet", "pod-manifest-path", "remove"),
        ("kubelet", "client-ca-file", "remove"),
    ] {
        let settings = format!("{program}: {{extraArgs: {{{flag}: x, v: 2}}}}");
        let path = format!("spec.kubernetes.{program}.extraArgs.{flag}");
        assert_refused(&settings, "", &path, hint);
    }
    for free in [
        "apiServer: {extraArgs: {service-account-issuer: a, audit-log-maxage: 7, bind-address: a}}",
        "controllerManager: {extraArgs: {node-cidr-mask-size: 25, bind-address: 0.0.0.0}}",
        "scheduler: {extraArgs: {config: /etc/kubernetes/site/scheduler.yaml}}",
        "kubelet: {extraArgs: {node-labels: a=b, max-pods: 42}}",
    ] {
        assert!(read(free, "").is_ok(), "{free}");
    }
}

#[test]
fn flags_without_effect_and_second_settings_are_refused() {
    let proxy = "kubeProxy: {extraArgs: {v: 2}}";
    let path = "spec.kubernetes.kubeProxy.extraArgs";
    assert_refused(proxy, "", path, "kubeProxy.extraConfig");
    let etcd = "  etcd: {type: systemd}\n";
    assert!(read(&format!("type: systemd, {proxy}"), etcd).is_ok());
    let encryption = "  security: {encryption: {provider: secretbox}}\n";
    let flag = "apiServer: {extraArgs: {encryption-provider-config: /a}}";
    let path = "spec.kubernetes.apiServer.extraArgs.encryption-provider-config";
    assert_refused(flag, encryption, path, "security.encryption");
    assert!(read(flag, "").is_ok());
}

/// Before, the schema offered `extraConfig` for programs without a configuration file.
#[test]
fn schema_and_reader_agree_on_programs_with_a_configuration_file() {
    let schema: serde_json::Value = serde_json::from_str(&crate::schema::cluster()).unwrap();
    let programs = &schema["properties"]["spec"]["properties"]["kubernetes"]["properties"];
    for program in [
        "apiServer",
        "controllerManager",
        "scheduler",
        "kubelet",
        "kubeProxy",
    ] {
        let offered = programs[program]["properties"]["extraConfig"].is_object();
        let settings = format!("type: systemd, {program}: {{extraConfig: {{a: 1}}}}");
        let accepted = read(&settings, "  etcd: {type: systemd}\n").is_ok();
        assert_eq!(accepted, offered, "{program}");
    }
    let scheduler = "scheduler: {extraConfig: {profiles: []}}";
    let path = "spec.kubernetes.scheduler.extraConfig";
    assert_refused(scheduler, "", path, "system.files");
}

#[test]
fn volumes_have_names_and_paths_of_their_own() {
    let volumes = |list: &str| {
        let settings = format!("apiServer: {{extraVolumes: [{list}]}}");
        read(&settings, "")
    };
    let cluster =
        volumes("{name: site, hostPath: /etc/site, readOnly: true, pathType: Directory}").unwrap();
    let volume = &cluster.kubernetes.api_server.component.extra_volumes[0];
    assert_eq!(volume.mount_path, volume.host_path);
    for (list, expected) in [
        ("{name: Site, hostPath: /a}", "lower-case letters"),
        ("{name: a.b, hostPath: /a}", "lower-case letters"),
        ("{name: k8s-certs, hostPath: /a}", "has already"),
        ("{name: kubexm-audit-log, hostPath: /a}", "has already"),
        ("{name: a, hostPath: a}", "absolute path"),
        ("{name: a}", "is missing"),
        (
            "{name: a, hostPath: /a}, {name: a, hostPath: /b}",
            "the same name",
        ),
        (
            "{name: a, hostPath: /a}, {name: b, hostPath: /b, mountPath: /a}",
            "the same mountPath",
        ),
    ] {
        let problems = volumes(list).expect_err(list).to_string();
        assert!(problems.contains(expected), "{list}: {problems}");
    }
}

#[test]
fn reserved_resources_are_fields_of_the_kubelets_configuration() {
    let cluster = read(
        "kubelet: {systemReserved: {cpu: 200m, memory: 250Mi}, kubeReserved: {cpu: 1}, serializeImagePulls: false}",
        "",
    )
    .unwrap();
    let config = &cluster.kubernetes.kubelet.extra_config;
    assert_eq!(
        *config,
        serde_json::json!({"systemReserved": {"cpu": "200m", "memory": "250Mi"}, "kubeReserved": {"cpu": "1"},
            "serializeImagePulls": false})
    );
    let path = "spec.kubernetes.kubelet.systemReserved";
    let twice = "kubelet: {systemReserved: {cpu: 1}, extraConfig: {systemReserved: {cpu: '2'}}}";
    assert_refused(twice, "", path, "remove one");
    let wrong = "kubelet: {systemReserved: {memory: 250 MB}}";
    assert_refused(wrong, "", &format!("{path}.memory"), "250Mi");
    assert_refused(
        "",
        "  etcd: {lockMemory: true}\n",
        "spec.etcd.lockMemory",
        "systemd",
    );
}
