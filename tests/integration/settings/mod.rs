//! Settings of the cluster file, and what they change in a plan.

mod site;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubexm_bundle::Blobs;
use kubexm_deploy::Inputs;
use kubexm_types::Version;

use crate::combinations::everything;
use crate::example::InMemory;

/// `kubernetes.type` of a cluster.
#[derive(Clone, Copy)]
enum Kind {
    Kubeadm,
    Systemd,
}

/// The steps of a plan, where a [`Change`] otherwise has a file.
const STEPS: &str = "steps";

/// Settings, and what they change in one file.
struct Change {
    kind: Kind,
    /// Further fields of `kubernetes`.
    kubernetes: &'static str,
    /// Sections of the spec, one in each line.
    sections: &'static str,
    /// The host and the path, as in `node1:/etc/hosts`, or [`STEPS`].
    place: &'static str,
    /// Texts that the settings add.
    added: Texts,
    /// Texts that the settings remove.
    removed: Texts,
}

type Texts = &'static [&'static str];

/// Returns a function that returns what these settings change in one file.
fn change_of(
    kubernetes: &'static str,
    sections: &'static str,
) -> impl Fn(Kind, &'static str, Texts, Texts) -> Change {
    move |kind, place, added, removed| Change {
        kind,
        kubernetes,
        sections,
        place,
        added,
        removed,
    }
}

/// Returns the steps and every file of a cluster of the control plane node1 and the worker node2, by place.
fn rendered(kind: Kind, kubernetes: &str, sections: &str) -> BTreeMap<String, String> {
    let version = Version::new(1, 36, 3);
    let (kind, etcd) = match kind {
        Kind::Kubeadm => ("kubeadm", ""),
        Kind::Systemd => ("systemd", "etcd: {type: systemd}"),
    };
    let mut text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: example}}\nspec:\n  hosts:\n    \
         - {{name: node1, address: 192.0.2.11}}\n    - {{name: node2, address: 192.0.2.12}}\n  \
         roleGroups: {{control-plane: [node1], worker: [node2]}}\n  \
         kubernetes: {{version: v{version}, type: {kind}, {kubernetes}}}\n"
    );
    let etcd = (!sections.contains("etcd: ") && !etcd.is_empty()).then_some(etcd);
    for section in sections.lines().chain(etcd) {
        text += &format!("  {section}\n");
    }
    let cluster = kubexm_config::parse_cluster("example", &text)
        .unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    let lock = everything::lock(&[version]);
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let mut inputs = Inputs::assumed(&cluster, &lock, blobs);
    for host in inputs.hosts.values_mut() {
        host.releases = vec![("debian".into(), "trixie".into())];
    }
    let plan = kubexm_deploy::plan(&inputs).unwrap().plan;
    let mut places = BTreeMap::new();
    for (host, files) in kubexm_deploy::rendered(&plan) {
        for file in files {
            places.insert(format!("{host}:{}", file.path), file.content);
        }
    }
    let steps = kubexm_engine::plan::show::as_text(&plan).unwrap();
    places.insert(STEPS.to_owned(), steps);
    places
}

/// Fails unless each change adds and removes its texts. A text that the file has without the settings proves nothing.
fn assert_changes(changes: &[Change]) {
    for change in changes {
        let place = change.place;
        let of = |kubernetes, sections| {
            let mut places = rendered(change.kind, kubernetes, sections);
            places.remove(place)
        };
        let before = of("", "").unwrap_or_default();
        let after = of(change.kubernetes, change.sections).unwrap_or_else(|| panic!("no {place}"));
        for (texts, with, without) in [
            (change.added, &after, &before),
            (change.removed, &before, &after),
        ] {
            for text in texts {
                assert!(with.contains(text), "{place} does not have {text}\n{with}");
                assert!(!without.contains(text), "{place} has {text}\n{without}");
            }
        }
    }
}

const KUBEADM: &str = "node1:/etc/kubexm/kubeadm-init.yaml";
const JOIN: &str = "node2:/run/kubexm/kubeadm-join.yaml";
const KUBELET: &str = "node2:/var/lib/kubelet/config.yaml";
const KUBE_PROXY: &str = "node2:/etc/kubernetes/kube-proxy.yaml";
const API_SERVER: &str = "node1:/etc/systemd/system/kube-apiserver.service";
const CONTROLLER_MANAGER: &str = "node1:/etc/systemd/system/kube-controller-manager.service";

#[test]
fn flags_of_the_user_are_flags_of_the_control_plane() {
    let kubernetes = "apiServer: {extraArgs: {bind-address: 0.0.0.0, service-node-port-range: 20000-25000, \
        enable-admission-plugins: 'NodeRestriction,AlwaysPullImages'}}, \
        controllerManager: {extraArgs: {bind-address: 0.0.0.1}, featureGates: {D: true}}, \
        scheduler: {extraArgs: {v: 3}, featureGates: {E: false}}";
    let change = change_of(kubernetes, "");
    assert_changes(&[
        change(
            Kind::Kubeadm,
            KUBEADM,
            &[
                "- name: \"bind-address\"\n      value: \"0.0.0.0\"\n",
                "- name: \"service-node-port-range\"\n      value: \"20000-25000\"\n",
                "- name: \"enable-admission-plugins\"\n      value: \"NodeRestriction,AlwaysPullImages\"\n",
                "- name: \"bind-address\"\n      value: \"0.0.0.1\"\n",
                "- name: \"feature-gates\"\n      value: \"D=true\"\n",
                "- name: \"feature-gates\"\n      value: \"E=false\"\n",
            ],
            &[],
        ),
        change(
            Kind::Systemd,
            API_SERVER,
            &[
                "--bind-address=0.0.0.0 ",
                "--service-node-port-range=20000-25000 ",
                "--enable-admission-plugins=NodeRestriction,AlwaysPullImages ",
            ],
            &["--enable-admission-plugins=NodeRestriction "],
        ),
        change(
            Kind::Systemd,
            CONTROLLER_MANAGER,
            &["--bind-address=0.0.0.1 ", "--feature-gates=D=true "],
            &["--bind-address=127.0.0.1 "],
        ),
        change(
            Kind::Systemd,
            "node1:/etc/systemd/system/kube-scheduler.service",
            &["--feature-gates=E=false ", "--v=3\n"],
            &[],
        ),
    ]);
}

#[test]
fn fields_of_the_user_are_fields_of_the_kubelet() {
    let change = |kind, place| Change {
        kind,
        kubernetes: "kubelet: {extraConfig: {evictionHard: {memory.available: 500Mi}, podPidsLimit: 1000, \
            runtimeRequestTimeout: 4m, containerLogMaxFiles: 3, containerLogMaxSize: 20Mi, \
            hairpinMode: promiscuous-bridge, healthzPort: 10348}}",
        sections: "",
        place,
        added: &[
            "evictionHard:\n  memory.available: 500Mi\n",
            "podPidsLimit: 1000\n",
            "runtimeRequestTimeout: 4m\n",
            "containerLogMaxFiles: 3\n",
            "containerLogMaxSize: 20Mi\n",
            "hairpinMode: promiscuous-bridge\n",
            "healthzPort: 10348\n",
        ],
        removed: &[],
    };
    assert_changes(&[
        change(Kind::Kubeadm, KUBEADM),
        change(Kind::Systemd, KUBELET),
    ]);
}

/// kubeadm would give all kubelets the one of the first control plane, which may be of a program that others do not run.
#[test]
fn kubelets_of_kubeadm_use_the_resolv_conf_of_their_host() {
    let drop_in = "node2:/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";
    let without = "kubelet: {extraConfig: {resolvConf: /etc/site/resolv.conf}}";
    let removed: Texts = &[
        " --resolv-conf=/run/kubexm-kubelet/resolv.conf $",
        "/run/systemd/resolve/resolv.conf",
    ];
    let change = change_of(without, "");
    assert_changes(&[
        change(Kind::Kubeadm, drop_in, &[], removed),
        change(
            Kind::Kubeadm,
            KUBEADM,
            &["resolvConf: /etc/site/resolv.conf\n"],
            &[],
        ),
    ]);
}

#[test]
fn fields_and_flags_of_the_user_are_those_of_kube_proxy() {
    let change = |kind, place| Change {
        kind,
        kubernetes: "kubeProxy: {mode: ipvs, featureGates: {F: true}, extraConfig: {ipvs: {scheduler: lc, \
            syncPeriod: 10s, strictARP: true}, iptables: {masqueradeAll: true, masqueradeBit: 10, syncPeriod: 40s}}}",
        sections: "",
        place,
        added: &[
            "mode: ipvs\n",
            "scheduler: lc\n",
            "syncPeriod: 10s\n",
            "strictARP: true\n",
            "masqueradeAll: true\n",
            "masqueradeBit: 10\n",
            "syncPeriod: 40s\n",
            "F: true\n",
        ],
        removed: &["mode: \"iptables\"\n"],
    };
    assert_changes(&[
        change(Kind::Kubeadm, KUBEADM),
        change(Kind::Systemd, KUBE_PROXY),
        Change {
            kind: Kind::Systemd,
            kubernetes: "kubeProxy: {extraArgs: {v: 2}}",
            sections: "",
            place: "node2:/etc/systemd/system/kube-proxy.service",
            added: &["--v=2\n"],
            removed: &[],
        },
    ]);
}

#[test]
fn flags_of_the_user_are_flags_of_etcd() {
    let units = "etcd: {type: systemd, extraArgs: {heartbeat-interval: 250, election-timeout: 2500, \
        snapshot-count: 20000, auto-compaction-retention: 1, metrics: extensive}}";
    let stacked = "etcd: {extraArgs: {heartbeat-interval: 250, election-timeout: 2500, \
        snapshot-count: 20000, auto-compaction-retention: 1, metrics: extensive}}";
    let change = |kind, sections, place, added, removed| Change {
        kind,
        kubernetes: "",
        sections,
        place,
        added,
        removed,
    };
    assert_changes(&[
        change(
            Kind::Systemd,
            units,
            "node1:/etc/systemd/system/etcd.service",
            &[
                "--heartbeat-interval=250",
                "--election-timeout=2500",
                "--snapshot-count=20000",
                "--auto-compaction-retention=1",
                "--metrics=extensive",
            ],
            &[],
        ),
        // etcd fails if a setting is in its environment and in its flags.
        change(
            Kind::Systemd,
            units,
            "node1:/etc/kubexm/etcd-member/etcd.env",
            &[],
            &["ETCD_AUTO_COMPACTION_RETENTION=8h\n"],
        ),
        change(
            Kind::Kubeadm,
            stacked,
            KUBEADM,
            &[
                "- name: \"heartbeat-interval\"\n        value: \"250\"\n",
                "- name: \"election-timeout\"\n        value: \"2500\"\n",
                "- name: \"snapshot-count\"\n        value: \"20000\"\n",
                "- name: \"auto-compaction-retention\"\n        value: \"1\"\n",
                "- name: \"metrics\"\n        value: \"extensive\"\n",
            ],
            &[],
        ),
    ]);
}

#[test]
fn only_etcd_as_systemd_units_has_a_unit() {
    let with = |etcd: &str| {
        let places = rendered(Kind::Kubeadm, "", &format!("etcd: {{type: {etcd}}}"));
        let has_file = places.keys().any(|place| place.ends_with("/etcd.service"));
        (has_file, places[STEPS].contains("Start etcd.service"))
    };
    assert_eq!(with("systemd"), (true, true));
    assert_eq!(with("kubeadm"), (false, false));
}

#[test]
fn networks_and_names_are_the_same_in_every_file() {
    let change = change_of(
        "dnsDomain: corp.local, clusterName: blue",
        "network: {podCIDR: 10.200.0.0/16, serviceCIDR: 10.112.0.0/16}",
    );
    assert_changes(&[
        change(
            Kind::Kubeadm,
            KUBEADM,
            &[
                "clusterName: \"blue\"\n",
                "dnsDomain: \"corp.local\"\n",
                "podSubnet: \"10.200.0.0/16\"\n",
                "serviceSubnet: \"10.112.0.0/16\"\n",
                "clusterDomain: \"corp.local\"\n",
                "clusterDNS:\n  - \"10.112.0.10\"\n",
                "clusterCIDR: \"10.200.0.0/16\"\n",
            ],
            &["10.244.", "10.96.", "cluster.local"],
        ),
        change(
            Kind::Systemd,
            API_SERVER,
            &[
                "--service-cluster-ip-range=10.112.0.0/16 ",
                "--service-account-issuer=https://kubernetes.default.svc.corp.local ",
            ],
            &["10.96.", "cluster.local"],
        ),
        change(
            Kind::Systemd,
            CONTROLLER_MANAGER,
            &[
                "--cluster-cidr=10.200.0.0/16 ",
                "--cluster-name=blue ",
                "--service-cluster-ip-range=10.112.0.0/16 ",
            ],
            &["10.244.", "10.96."],
        ),
        change(
            Kind::Systemd,
            KUBELET,
            &[
                "clusterDomain: \"corp.local\"\n",
                "clusterDNS:\n  - \"10.112.0.10\"\n",
            ],
            &["10.96.", "cluster.local"],
        ),
        change(
            Kind::Systemd,
            KUBE_PROXY,
            &["clusterCIDR: \"10.200.0.0/16\"\n"],
            &["10.244."],
        ),
        change(
            Kind::Systemd,
            "node1:/etc/kubexm/coredns.yaml",
            &["kubernetes corp.local in-addr.arpa", "10.112.0.10"],
            &["10.96.", "cluster.local"],
        ),
    ]);
}

#[test]
fn every_kubeadm_gets_the_port_and_the_ignored_checks() {
    let change = |kubernetes, place, added, removed| Change {
        kind: Kind::Kubeadm,
        kubernetes,
        sections: "",
        place,
        added,
        removed,
    };
    let ignored = "kubeadm: {ignorePreflightErrors: [NumCPU, Mem]}";
    let both: &[&str] = &["  ignorePreflightErrors:\n    - \"NumCPU\"\n    - \"Mem\"\n"];
    let port = "apiServer: {port: 8443}";
    assert_changes(&[
        change(ignored, KUBEADM, both, &[]),
        change(ignored, JOIN, both, &[]),
        change(
            port,
            KUBEADM,
            &[
                "bindPort: 8443\n",
                "controlPlaneEndpoint: \"192.0.2.11:8443\"\n",
            ],
            &["6443"],
        ),
        change(
            port,
            JOIN,
            &["apiServerEndpoint: \"192.0.2.11:8443\"\n"],
            &["6443"],
        ),
    ]);
}

#[test]
fn address_of_the_dns_cache_is_in_the_files_of_cache_and_kubelets() {
    let change = |kind, place, added| Change {
        kind,
        kubernetes: "",
        sections: "dns: {nodeLocal: {address: 169.254.25.10}}",
        place,
        added,
        removed: &[],
    };
    let dns: &[&str] = &["clusterDNS:\n  - \"169.254.25.10\"\n"];
    let bind: &[&str] = &["bind 169.254.25.10\n", "- \"169.254.25.10\"\n"];
    assert_changes(&[
        change(Kind::Kubeadm, "node1:/etc/kubexm/node-local-dns.yaml", bind),
        change(Kind::Kubeadm, KUBEADM, dns),
        change(Kind::Systemd, KUBELET, dns),
    ]);
}

/// `kubeadm init` and `join` start it.
#[test]
fn kubelet_of_kubeadm_is_only_enabled() {
    let steps = &rendered(Kind::Kubeadm, "", "")[STEPS];
    assert_eq!(
        steps.matches("Enable kubelet.service").count(),
        2,
        "{steps}"
    );
    assert!(!steps.contains("Start kubelet.service"), "{steps}");
}

#[test]
fn settings_of_the_system_are_applied_or_turned_off() {
    let change = |sections, place, added, removed| Change {
        kind: Kind::Kubeadm,
        kubernetes: "",
        sections,
        place,
        added,
        removed,
    };
    assert_changes(&[
        change(
            "system: {sysctl: {net.ipv4.tcp_keepalive_time: 600, net.core.somaxconn: '32768'}}",
            "node2:/etc/sysctl.d/90-kubexm.conf",
            &[
                "net.ipv4.tcp_keepalive_time = 600\n",
                "net.core.somaxconn = 32768\n",
            ],
            &[],
        ),
        change(
            "system: {timezone: Europe/Berlin}",
            STEPS,
            &["Set the time zone Europe/Berlin"],
            &[],
        ),
        change(
            "system: {disableSwap: false}",
            STEPS,
            &[],
            &["Turn swap off"],
        ),
        change(
            "system: {manageHostsFile: false}",
            STEPS,
            &[],
            &["names to /etc/hosts"],
        ),
        change(
            "system: {installPackages: false}",
            STEPS,
            &[],
            &["Install packages conntrack, "],
        ),
    ]);
}

#[test]
fn settings_of_the_user_are_in_the_file_of_the_runtime() {
    let change = |sections, place, added| Change {
        kind: Kind::Kubeadm,
        kubernetes: "",
        sections,
        place,
        added,
        removed: &[],
    };
    let kubelet: &[&str] = &["cgroupDriver: cgroupfs\n"];
    assert_changes(&[
        change(
            "containerRuntime: {extraConfig: {state: /run/site, debug: {level: info}}}",
            "node2:/etc/containerd/config.toml",
            &["state = \"/run/site\"\n", "level = \"info\"\n"],
        ),
        change(
            "containerRuntime: {type: docker, extraConfig: {log-driver: local}}",
            "node2:/etc/docker/daemon.json",
            &["\"log-driver\": \"local\""],
        ),
        change(
            "containerRuntime: {cgroupDriver: cgroupfs}",
            "node2:/etc/containerd/config.toml",
            &["SystemdCgroup = false\n"],
        ),
        change(
            "containerRuntime: {type: docker, cgroupDriver: cgroupfs}",
            "node2:/etc/docker/daemon.json",
            &["native.cgroupdriver=cgroupfs"],
        ),
        change(
            "containerRuntime: {type: cri-o, cgroupDriver: cgroupfs}",
            "node2:/etc/crio/crio.conf.d/10-kubexm.conf",
            &[
                "cgroup_manager = \"cgroupfs\"\n",
                "conmon_cgroup = \"pod\"\n",
            ],
        ),
        change(
            "containerRuntime: {type: isulad, cgroupDriver: cgroupfs}",
            "node2:/etc/isulad/daemon.json",
            &["\"systemd-cgroup\": false"],
        ),
        change(
            "containerRuntime: {cgroupDriver: cgroupfs}",
            KUBEADM,
            kubelet,
        ),
        change(
            "containerRuntime: {type: isulad, cgroupDriver: cgroupfs}",
            KUBEADM,
            kubelet,
        ),
    ]);
}
