//! Every combination of the parts of a cluster, for every minor that kubexm supports. It is refused with its
//! reason, or it renders files that their readers accept.

pub mod everything;
mod families;
pub mod files;
mod patches;
mod programs;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::{AddressHolder, ControlPlanePod, LocalProxy, RuntimeKind};
use kubexm_config::{Cluster, parse_cluster};
use kubexm_deploy::Inputs;
use kubexm_engine::plan::RenderedFile;
use kubexm_types::Version;

use crate::example::InMemory;
use programs::Programs;

const KINDS: [&str; 2] = ["kubeadm", "systemd"];
const ETCDS: [&str; 3] = ["kubeadm", "systemd", "external"];

/// Settings of hosts, with hooks before and after every phase.
fn system() -> String {
    let phases = ["install", "system", "runtime", "kubernetes", "reset"].into_iter();
    let hooks = phases.flat_map(|phase| {
        ["before", "after"].map(|when| {
            format!("{{name: {when}-{phase}, phase: {phase}, when: {when}, content: 'true'}}")
        })
    });
    let hooks: Vec<String> = hooks.collect();
    format!(
        "system: {{setHostname: true, time: {{source: node1}}, hooks: [{}], \
         resolvers: {{servers: [192.0.2.53], searches: [corp.example]}}}}",
        hooks.join(", ")
    )
}

/// Returns every `highAvailability`, as cluster files write it.
fn balancers() -> Vec<String> {
    let mut all = vec!["none".to_owned(), "external".to_owned()];
    for kind in LocalProxy::NAMES {
        all.extend([(*kind).to_owned(), format!("{kind}, run: static-pod")]);
    }
    let others = [AddressHolder::NAMES, ControlPlanePod::NAMES].concat();
    all.extend(others.into_iter().map(str::to_owned));
    all
}

/// One cluster of the product.
#[derive(Debug, Clone)]
struct Combination {
    kind: &'static str,
    etcd: &'static str,
    runtime: &'static str,
    balancer: String,
    control_planes: usize,
}

impl Combination {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for kind in KINDS {
            for etcd in ETCDS {
                for runtime in RuntimeKind::NAMES {
                    for balancer in balancers() {
                        for control_planes in [1, 3] {
                            all.push(Self {
                                kind,
                                etcd,
                                runtime,
                                balancer: balancer.clone(),
                                control_planes,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    /// Returns the text of the expected refusal, or `None` if the combination is supported.
    fn why_not(&self) -> Option<&'static str> {
        let of_units = self.kind == "systemd";
        if of_units && self.etcd == "kubeadm" {
            return Some("kubeadm does not run");
        }
        if self.balancer == "none" && self.control_planes > 1 {
            return Some("several control planes need one address");
        }
        let is_pod = self.balancer.ends_with("static-pod");
        (of_units && is_pod).then_some("static pod")
    }

    fn holds_address(&self) -> bool {
        AddressHolder::NAMES.contains(&&*self.balancer)
    }

    fn moves_address(&self) -> bool {
        ControlPlanePod::NAMES.contains(&&*self.balancer)
    }

    fn yaml(&self, version: &Version, folder: &Path) -> String {
        let nodes: Vec<String> = (1..=self.control_planes)
            .map(|n| format!("node{n}"))
            .collect();
        let hosts: String = (1..=4)
            .map(|n| format!("    - {{name: node{n}, address: 192.0.2.1{n}}}\n"))
            .collect();
        let endpoint = match self.balancer == "external" || self.holds_address() {
            true => {
                "  controlPlaneEndpoint: {domain: api.example, address: 192.0.2.10, port: 7443}\n"
            }
            false if self.moves_address() => {
                "  controlPlaneEndpoint: {domain: api.example, address: 192.0.2.10}\n"
            }
            false => "",
        };
        let file = |name: &str| folder.join(name).display().to_string();
        let external = match self.etcd {
            "external" => format!(
                ", external: {{endpoints: [\"https://192.0.2.20:2379\"], caFile: {}, certFile: {}, keyFile: {}}}",
                file("ca.crt"),
                file("client.crt"),
                file("client.key")
            ),
            _ => String::new(),
        };
        format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n{hosts}  \
             roleGroups:\n    control-plane: [{}]\n    worker: [node4]\n  kubernetes: {{version: v{version}, type: {}}}\n  \
             etcd: {{type: {}{external}}}\n  containerRuntime: {{type: {}}}\n  highAvailability: {{type: {}}}\n{endpoint}  {}\n",
            nodes.join(", "),
            self.kind,
            self.etcd,
            self.runtime,
            self.balancer,
            system(),
        )
    }
}

/// Returns a directory with the files of an external etcd. Nothing connects with them.
fn etcd_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "client.crt", "client.key"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    folder
}

#[test]
fn contradictory_settings_are_refused_with_their_reason_and_all_others_are_accepted() {
    let folder = etcd_files();
    let version = Version::new(1, 36, 3);
    for combination in Combination::all() {
        let yaml = combination.yaml(&version, folder.path());
        let problems = match parse_cluster("cluster.yaml", &yaml) {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        };
        match combination.why_not() {
            Some(reason) => assert!(problems.contains(reason), "{combination:?}: {problems}"),
            None => assert!(problems.is_empty(), "{combination:?}: {problems}"),
        }
    }
}

/// Returns a version of each minor. Templates depend on the minor only.
fn minors() -> Vec<Version> {
    (28..=37).map(|minor| Version::new(1, minor, 4)).collect()
}

/// Returns every accepted cluster in each of the versions.
fn accepted<'a>(folder: &'a Path, versions: &'a [Version]) -> impl Iterator<Item = Cluster> + 'a {
    let version = versions.last().unwrap();
    let combinations = Combination::all().into_iter();
    let clusters = combinations.filter_map(|combination| {
        let yaml = combination.yaml(version, folder);
        parse_cluster("cluster.yaml", &yaml).ok()
    });
    let of_families = families::yamls(version).into_iter().map(|yaml| {
        let cluster = parse_cluster("cluster.yaml", &yaml);
        cluster.unwrap_or_else(|problems| panic!("{problems}\n{yaml}"))
    });
    let clusters = clusters.chain(of_families);
    clusters.flat_map(move |cluster| {
        versions.iter().map(move |version| {
            let mut cluster = cluster.clone();
            cluster.kubernetes.version = version.clone();
            // A plan does not show files with a login. The snapshots of rendered files have them.
            cluster.registry.login = false;
            cluster
        })
    })
}

#[test]
fn every_accepted_combination_renders_files_that_their_readers_accept() {
    let folder = etcd_files();
    let versions = minors();
    let lock = everything::lock(&versions);
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let mut seen = BTreeSet::new();
    let mut plans = 0;
    for cluster in accepted(folder.path(), &versions) {
        for file in rendered(&cluster, &lock, &blobs) {
            seen.insert((file.path.to_string(), file.content));
        }
        plans += 1;
    }
    assert!(plans > 500, "only {plans} combinations were accepted");
    let findings = files::check(&seen);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
#[ignore = "needs the programs that tests/lab/upstream/build makes"]
fn programs_accept_what_is_rendered_for_1_36() {
    assert_programs_accept(Version::new(1, 36, 3));
}

#[test]
#[ignore = "needs the programs that tests/lab/upstream/build --all makes"]
fn programs_accept_what_is_rendered_for_1_30() {
    assert_programs_accept(Version::new(1, 30, 4));
}

/// Returns a cluster with every setting of kubeadm that this version has.
fn with_settings_of_kubeadm(version: &Version) -> [Cluster; 1] {
    let newer = if version.minor() >= 31 {
        "certificates: {validityDays: 90, caValidityDays: 7300}, kubeadm: {skipPhases: {init: [addon/kube-proxy], \
         join: [preflight]}, extraConfig: {initConfiguration: {timeouts: {kubeletHealthCheck: 5m0s}}, \
         clusterConfiguration: {encryptionAlgorithm: RSA-3072}, \
         joinConfiguration: {nodeRegistration: {imagePullSerial: false}}}}"
    } else {
        "kubeadm: {skipPhases: {init: [addon/kube-proxy], join: [preflight]}, extraConfig: \
         {clusterConfiguration: {apiServer: {timeoutForControlPlane: 9m0s}}}}"
    };
    let volume =
        "extraVolumes: [{name: site, hostPath: /etc/site, readOnly: true, pathType: Directory}]";
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n    \
         - {{name: node1, address: 192.0.2.11}}\n    - {{name: node4, address: 192.0.2.14}}\n  \
         roleGroups: {{control-plane: [node1], worker: [node4]}}\n  \
         etcd: {{dataDir: /srv/etcd, certSANs: [etcd.example, 192.0.2.20], extraArgs: {{quota-backend-bytes: '1'}}}}\n  \
         kubernetes: {{version: v{version}, apiServer: {{port: 8443, {volume}}}, \
         controllerManager: {{{volume}}}, scheduler: {{{volume}}}, {newer}}}\n"
    );
    let cluster = parse_cluster("cluster.yaml", &text);
    [cluster.unwrap_or_else(|problems| panic!("{problems}"))]
}

fn assert_programs_accept(version: Version) {
    let folder = etcd_files();
    let mut programs = Programs::of(&version.to_string());
    let versions = [version];
    let lock = everything::lock(&versions);
    let blobs: Arc<dyn Blobs> = Arc::new(InMemory::default());
    let mut configurations = BTreeSet::new();
    let mut findings = BTreeSet::new();
    let clusters = accepted(folder.path(), &versions).chain(with_settings_of_kubeadm(&versions[0]));
    for cluster in clusters {
        let configs = kubexm_deploy::completeness::check(&cluster, &lock, &blobs)
            .unwrap()
            .configs;
        configurations.extend(configs.into_iter().map(|config| config.text));
        for file in rendered(&cluster, &lock, &blobs) {
            if file.path.as_str().ends_with(".service") {
                findings.extend(programs.unknown_flags(&file.content));
            }
            configurations.extend(of_a_component(&file));
        }
    }
    assert!(
        configurations.len() > 5,
        "there are hardly any configurations"
    );
    findings.extend(configurations.iter().filter_map(|text| {
        let complaint = programs.kubeadm_complaint(text)?;
        Some(format!("{complaint}\n{text}"))
    }));
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

/// Returns the configuration file of a kubelet or kube-proxy as a document that kubeadm decodes strictly.
fn of_a_component(file: &RenderedFile) -> Option<String> {
    let kinds = ["kind: KubeletConfiguration", "kind: KubeProxyConfiguration"];
    let is = |kind: &&str| file.content.contains(*kind);
    let alone = !file.content.contains("kind: InitConfiguration");
    (alone && kinds.iter().any(is)).then(|| {
        format!(
            "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n---\n{}",
            file.content
        )
    })
}

fn rendered(cluster: &Cluster, lock: &Lock, blobs: &Arc<dyn Blobs>) -> Vec<RenderedFile> {
    let mut inputs = Inputs::assumed(cluster, lock, Arc::clone(blobs));
    for host in inputs.hosts.values_mut() {
        host.releases = vec![("debian".into(), "trixie".into())];
    }
    let deployment =
        kubexm_deploy::plan(&inputs).unwrap_or_else(|error| panic!("{cluster:?}: {error}"));
    // Fails on tasks that wait for each other, or for a task that does not exist.
    kubexm_engine::plan::show::as_text(&deployment.plan).unwrap();
    kubexm_deploy::rendered(&deployment.plan)
        .into_values()
        .flatten()
        .collect()
}
