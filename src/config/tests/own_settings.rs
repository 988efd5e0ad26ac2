//! Settings that kubexm writes itself, and names of other tools: each is refused with the field to use.

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
        (
            "clusterConfiguration",
            "networking: 1",
            "kubernetes.dnsDomain",
        ),
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
        kubernetes.kubeadm_config.cluster["encryptionAlgorithm"],
        "RSA-3072"
    );
    assert_eq!(kubernetes.skip_phases.init, ["addon/kube-proxy"]);
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
    let old = format!("version: v1.30.4, {settings}");
    assert_refused(&old, "", "spec.kubernetes.certificates", "1.31");
    let old = format!("{old}, type: systemd");
    assert!(read(&old, "  etcd: {type: systemd}\n").is_ok());
    let wrong = "certificates: {validityDays: 90, caValidityDays: 89}";
    assert_refused(
        wrong,
        "",
        "spec.kubernetes.certificates",
        "larger caValidityDays",
    );
}

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
    ] {
        let settings = format!("{program}: {{extraArgs: {{{flag}: x, v: 2}}}}");
        let path = format!("spec.kubernetes.{program}.extraArgs.{flag}");
        assert_refused(&settings, "", &path, hint);
    }
    for free in [
        "apiServer: {extraArgs: {service-account-issuer: a, audit-log-maxage: 7, bind-address: a}}",
        "controllerManager: {extraArgs: {allocate-node-cidrs: false, bind-address: 0.0.0.0}}",
        "scheduler: {extraArgs: {config: /etc/kubernetes/site/scheduler.yaml}}",
        "kubelet: {extraArgs: {node-ip: 10.0.0.1, node-labels: a=b}}",
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
fn names_of_other_tools_lead_to_the_field() {
    for (kubernetes, sections, path, hint) in [
        (
            "proxyMode: ipvs",
            "",
            "spec.kubernetes.proxyMode",
            "kubeProxy: {mode",
        ),
        (
            "apiServer: {certExtraSans: [a]}",
            "",
            "spec.kubernetes.apiServer.certExtraSans",
            "certSANs",
        ),
        (
            "",
            "  network: {kubePodsCIDR: 10.1.0.0/16}\n",
            "spec.network.kubePodsCIDR",
            "podCIDR",
        ),
        (
            "",
            "  network: {kubeServiceCIDR: 10.1.0.0/16}\n",
            "spec.network.kubeServiceCIDR",
            "serviceCIDR",
        ),
        (
            "",
            "  etcd: {local: {dataDir: /srv}}\n",
            "spec.etcd.local",
            "write dataDir directly",
        ),
        (
            "",
            "  etcd: {local: {serverCertSANs: [a], peerCertSANs: [a]}}\n",
            "spec.etcd.local",
            "write certSANs directly",
        ),
        (
            "",
            "  dns: {upstreamDNSServers: [10.0.0.53]}\n",
            "spec.dns.upstreamDNSServers",
            "upstreams",
        ),
        (
            "",
            "  dns: {externalZones: []}\n",
            "spec.dns.externalZones",
            "servers: [192.0.2.53]",
        ),
        (
            "",
            "  system: {sysctlParams: {}}\n",
            "spec.system.sysctlParams",
            "sysctl",
        ),
        (
            "",
            "  highAvailability: {external: {type: kubexm-an}}\n",
            "spec.highAvailability.external",
            "type: keepalived-nginx directly",
        ),
        (
            "",
            "  highAvailability: {external: {type: haproxy}}\n",
            "spec.highAvailability.external",
            "type: haproxy directly",
        ),
    ] {
        assert_refused(kubernetes, sections, path, hint);
    }
}

#[test]
fn crio_is_a_former_name() {
    let cluster = read("", "  containerRuntime: {type: crio}\n").unwrap();
    assert_eq!(cluster.runtime.kind.name(), "cri-o");
    let notice = cluster.notices[0].to_string();
    assert!(notice.contains("hint: write cri-o"), "{notice}");
}

#[test]
fn volumes_have_names_and_paths_of_their_own() {
    let volumes = |list: &str| {
        let settings = format!("apiServer: {{extraVolumes: [{list}]}}");
        read(&settings, "")
    };
    let cluster =
        volumes("{name: site, hostPath: /etc/site, readOnly: true, pathType: Directory}").unwrap();
    let volume = &cluster.kubernetes.api_server.extra_volumes[0];
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
fn files_of_hosts_are_checked() {
    let read = |files: &str| read("", &format!("  system: {{files: [{files}]}}\n"));
    let cluster = read(
        "{path: /etc/site/a, content: \"x\", mode: \"0640\", owner: \"root:etcd\", roles: [etcd, worker]}",
    )
    .unwrap();
    let file = &cluster.system.files[0];
    assert_eq!((file.mode, file.is_secret()), (0o640, true));
    let hosts = cluster.hosts.iter();
    let hosts: Vec<bool> = hosts
        .map(|host| file.is_for(&cluster.roles, &host.name))
        .collect();
    assert_eq!(hosts, [true, true, true]);
    assert!(!format!("{cluster:?}").contains("\"x\""));
    for (files, expected) in [
        ("{content: x}", "is missing"),
        ("{path: /etc/site/a}", "neither source nor content"),
        (
            "{path: /etc/site/a, source: /none, content: x}",
            "both source and content",
        ),
        ("{path: /etc/site/a, source: /none}", "does not exist"),
        ("{path: /etc/site/a, content: x, mode: 640}", "in quotes"),
        (
            "{path: /etc/site/a, content: x, mode: \"1777\"}",
            "octal digits",
        ),
        (
            "{path: /etc/site/a, content: x, owner: \"a b\"}",
            "user or user:group",
        ),
        (
            "{path: /etc/site/a, content: x, owner: \"root:\"}",
            "user or user:group",
        ),
        (
            "{path: /etc/site/a, content: x, roles: [master]}",
            "unknown value",
        ),
        ("{path: /etc/kubexm/a, content: x}", "other programs write"),
        (
            "{path: /etc/kubernetes/pki/a, content: x}",
            "other programs write",
        ),
        (
            "{path: /a, content: x}, {path: /a, content: y}",
            "another item",
        ),
    ] {
        let problems = read(files).expect_err(files).to_string();
        assert!(problems.contains(expected), "{files}: {problems}");
    }
}

#[test]
fn registries_of_the_site_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        path.display().to_string()
    };
    let (ca, password) = (file("ca.crt"), file("password"));
    let read = |entry: &str| {
        read(
            "",
            &format!("  containerRuntime: {{registries: {{{entry}}}}}\n"),
        )
    };
    let good = format!(
        "\"harbor.corp:8443\": {{mirrors: [cache.corp], caFile: {ca}, username: a, passwordFile: {password}}}, docker.io: {{}}"
    );
    let registries = read(&good).unwrap().runtime.registries;
    assert_eq!(registries.len(), 2);
    assert_eq!(registries[0].mirrors, ["cache.corp"]);
    assert!(registries[0].login.is_some() && !registries[0].insecure);
    for (entry, expected) in [
        ("\"https://harbor.corp\": {}", "is not a registry"),
        ("harbor.corp/apps: {}", "is not a registry"),
        (
            "harbor.corp: {mirrors: [\"https://a.corp\"]}",
            "is not another server",
        ),
        (
            "harbor.corp: {mirrors: [harbor.corp]}",
            "is not another server",
        ),
        ("harbor.corp: {caFile: /none}", "does not exist"),
        ("harbor.corp: {username: a}", "belong together"),
        ("harbor.corp: {passwordEnv: A}", "belong together"),
        ("harbor.corp: {skipVerify: true}", "unknown field"),
    ] {
        let problems = read(entry).expect_err(entry).to_string();
        assert!(problems.contains(expected), "{entry}: {problems}");
    }
}

#[test]
fn cgroup_drivers_of_runtime_and_kubelet_are_the_same() {
    let runtime = |text: &str| format!("  containerRuntime: {{{text}}}\n");
    let hint = "containerRuntime.cgroupDriver";
    for (kubernetes, settings, path) in [
        (
            "kubelet: {extraConfig: {cgroupDriver: cgroupfs}}",
            "type: docker",
            "spec.kubernetes.kubelet.extraConfig.cgroupDriver",
        ),
        (
            "kubeadm: {patches: [{target: kubeletconfiguration, patch: {cgroupDriver: cgroupfs}}]}",
            "type: docker",
            "spec.kubernetes.kubeadm.patches[0].patch",
        ),
        (
            "",
            "type: docker, extraConfig: {exec-opts: [native.cgroupdriver=cgroupfs]}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "type: cri-o, extraConfig: {crio: {runtime: {cgroup_manager: cgroupfs}}}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "type: isulad, cgroupDriver: cgroupfs, extraConfig: {systemd-cgroup: true}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "extraConfig: {plugins: {io.containerd.cri.v1.runtime: {containerd: {runtimes: {runc: \
             {options: {SystemdCgroup: false}}}}}}}",
            "spec.containerRuntime.extraConfig",
        ),
    ] {
        assert_refused(kubernetes, &runtime(settings), path, hint);
    }
    let both = "kubelet: {extraConfig: {cgroupDriver: cgroupfs}}";
    assert!(read(both, &runtime("cgroupDriver: cgroupfs")).is_ok());
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

#[test]
fn settings_of_balancers_fit_the_type_and_the_hosts() {
    let read = |settings: &str| {
        let endpoint = "  controlPlaneEndpoint: {address: 10.0.0.9, port: 8443}\n";
        read(
            "",
            &format!("  highAvailability: {{{settings}}}\n{endpoint}"),
        )
    };
    let good = "type: keepalived-haproxy, interface: bond0, keepalived: {priorities: {node1: 150}}, haproxy: {log: true}";
    let cluster = read(good).unwrap();
    let keepalived = &cluster.balancers.keepalived;
    assert_eq!(keepalived.priority(&cluster.hosts[0].name), 150);
    let names: Vec<_> = cluster.hosts.iter().map(|host| host.name.clone()).collect();
    assert_eq!(keepalived.decrease(&names), 70);
    for (settings, expected) in [
        (
            "type: haproxy, interface: bond0",
            "only accepted with type: keepalived-haproxy",
        ),
        (
            "type: haproxy, nginx: {extraConfig: a}",
            "only accepted with type: keepalived-nginx or nginx",
        ),
        ("type: nginx, nginx: {log: true}", "unknown field"),
        (
            "type: keepalived-nginx, interface: a/b",
            "not the name of a network interface",
        ),
        (
            "type: keepalived-nginx, keepalived: {priorities: {node1: 255}}",
            "from 1 to 254",
        ),
        (
            "type: keepalived-nginx, keepalived: {priorities: {node2: 120}}",
            "does not run",
        ),
        (
            "type: keepalived-nginx, keepalived: {passwordFile: /none}",
            "does not exist",
        ),
        (
            "type: keepalived-nginx, keepalived: {notifyScript: /none}",
            "does not exist",
        ),
        (
            "type: kube-vip, kubeVip: {env: {vip_interface: a}}",
            "is set by kubexm",
        ),
    ] {
        let problems = read(settings).expect_err(settings).to_string();
        assert!(problems.contains(expected), "{settings}: {problems}");
    }
}
