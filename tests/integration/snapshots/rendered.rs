//! Every file that kubexm writes on hosts, for clusters that together use all templates.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use regex::Regex;

use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{Blobs, BundleError, Lock};
use kubexm_config::parse_cluster;
use kubexm_deploy::Inputs;
use kubexm_engine::plan::{PlannedFile, Step};
use kubexm_types::artifact::ArtifactKind;
use kubexm_types::{Digest, Version};

use super::assert_files;
use crate::combinations::everything;
use crate::sandbox::Sandbox;

/// A bundle with short manifests. Its other content does not matter.
struct Manifests(BTreeMap<Digest, &'static str>);

impl Blobs for Manifests {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let text = self.0.get(digest).copied().unwrap_or_default();
        Ok(Box::new(text.as_bytes()))
    }
}

const CALICO: &str = r#"
kind: ConfigMap
apiVersion: v1
metadata: {name: calico-config, namespace: kube-system}
data: {typha_service_name: "none", calico_backend: "bird", veth_mtu: "0"}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: calico-node, namespace: kube-system}
spec:
  template:
    spec:
      containers:
        - name: calico-node
          image: quay.io/calico/node:v3.31.2
          env:
            - {name: CALICO_IPV4POOL_IPIP, value: "Always"}
          livenessProbe: {exec: {command: [/bin/calico-node, -felix-live, -bird-live]}}
          readinessProbe: {exec: {command: [/bin/calico-node, -felix-ready, -bird-ready]}}
"#;

const CRI_O: &str = "containerRuntime: {type: cri-o, runtimes: [{name: runc}, {name: nvidia, path: /usr/bin/nvidia-container-runtime, nodeSelector: {gpu: 'yes'}}]}";

const CILIUM: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: cilium-config, namespace: kube-system}
data: {ipam: "cluster-pool", routing-mode: "tunnel", kube-proxy-replacement: "true"}
"#;

/// Returns a lock with everything that the catalog has for a version, and its content.
fn bundle(version: &Version) -> (Lock, Manifests) {
    let mut lock = everything::lock(std::slice::from_ref(version));
    let cilium = Digest::of(b"cilium.yaml");
    lock.artifacts.push(LockedArtifact {
        kind: ArtifactKind::Manifest,
        name: "cilium.yaml".into(),
        version: None,
        url: None,
        size: 1,
        digest: cilium,
        checksum: kubexm_bundle::lock::ChecksumSource::Pinned,
        images: Vec::new(),
    });
    // Kubernetes 1.28 to 1.30 also work with containerd 1.7.
    if version.minor() <= 30 {
        for file in &mut lock.files {
            if file.component == "containerd" {
                file.version = Version::new(1, 7, 30);
            }
        }
    }
    let calico = lock.files.iter().find(|file| file.component == "calico");
    let manifests = [(calico.unwrap().digest, CALICO), (cilium, CILIUM)];
    (lock, Manifests(manifests.into()))
}

/// A cluster with one or three control planes, and a worker.
struct Case {
    name: String,
    version: Version,
    control_planes: usize,
    /// The sections of `spec`.
    sections: Vec<String>,
}

const CIS: &str = "security: {profile: cis, encryption: {provider: secretbox}}";
const EXTERNAL_ETCD: &str = "etcd: {type: external, external: {endpoints: [\"https://192.0.2.20:2379\"], \
    caFile: FOLDER/ca.crt, certFile: FOLDER/client.crt, keyFile: FOLDER/client.key}}";
const EXTERNAL_REGISTRY: &str = "registry: {type: external, address: \"harbor.example:8443\", project: mirror, \
    caFile: FOLDER/ca.crt, username: puller, passwordFile: FOLDER/password}";
const TWO_REGISTRIES: &str =
    "roleGroups: {control-plane: [node1], worker: [node4], registry: [node1, node4]}";
const UNITS: &str = "kubernetes: {version: VERSION, type: systemd}";
const OWN_ETCD: &str = "etcd: {type: systemd}";
const COMPONENTS: &str = "apiServer: {extraArgs: {audit-log-maxage: '7'}, certSANs: [api.example], \
    featureGates: {A: true, B: false}}, controllerManager: {extraArgs: {node-cidr-mask-size: '25'}}, \
    scheduler: {extraArgs: {v: '3'}}, kubelet: {extraArgs: {v: '4'}, extraConfig: {maxPods: 200}, \
    featureGates: {C: true}}, kubeProxy: {mode: ipvs, extraConfig: {conntrack: {min: 0}}}";
const KUBEADM: &str = "kubernetes: {version: VERSION, apiServer: {port: 8443, \
    extraArgs: {audit-webhook-config-file: /etc/kubernetes/site/webhook.yaml}, \
    extraVolumes: [{name: site, hostPath: /etc/kubernetes/site, readOnly: true, pathType: Directory}]}, \
    controllerManager: {extraVolumes: [{name: flex, hostPath: /srv/flex, mountPath: /flex}]}, \
    certificates: {validityDays: 90, caValidityDays: 7300}, \
    kubeadm: {skipPhases: {init: [show-join-command], join: [preflight]}, extraConfig: {\
    initConfiguration: {timeouts: {kubeletHealthCheck: 5m0s}}, \
    clusterConfiguration: {encryptionAlgorithm: RSA-3072}, \
    joinConfiguration: {nodeRegistration: {imagePullSerial: false}}}}}";
const KUBEADM_ETCD: &str =
    "etcd: {dataDir: /srv/etcd, certSANs: [etcd.example], extraArgs: {quota-backend-bytes: '1'}}";
const UNITS_MORE: &str = "kubernetes: {version: VERSION, type: systemd, apiServer: {port: 8443, \
    extraArgs: {audit-webhook-config-file: /etc/kubernetes/site/webhook.yaml}}, \
    scheduler: {extraConfig: {percentageOfNodesToScore: 50}}, certificates: {validityDays: 90}}";
const OWN_ETCD_MORE: &str = "etcd: {type: systemd, certSANs: [etcd.example], lockMemory: true}";
const RESERVED: &str = "kubernetes: {version: VERSION, kubelet: {systemReserved: {cpu: 200m, memory: 250Mi}, \
    kubeReserved: {cpu: 100m}, serializeImagePulls: false}}";
const FILES: &str = "system: {modules: [dm-crypt, overlay], files: [{path: /etc/kubernetes/site/webhook.yaml, content: 'kind: Config', roles: [control-plane]}, \
    {path: /etc/motd, source: FOLDER/ca.crt, mode: '0644'}]}";
const DNS_MORE: &str = "dns: {zones: [{names: [corp.example, 10.in-addr.arpa], servers: [192.0.2.55], cacheSeconds: 300}, \
    {name: lab.example, servers: [192.0.2.56], cacheSeconds: 0}], hosts: [{address: 192.0.2.60, names: [git.corp.example]}], \
    extraBlocks: [\"test.example:53 {\\n    erratic\\n}\"], nodeLocal: {}}";
const SITE_REGISTRIES: &str = "registries: {'harbor.corp:8443': {caFile: FOLDER/ca.crt, username: puller, \
    passwordFile: FOLDER/password}, docker.io: {mirrors: ['harbor.corp:8443']}, \
    registry.k8s.io: {mirrors: [cache.corp], insecure: true}}";
const DNS: &str = "dns: {replicas: 3, upstreams: [192.0.2.53, '192.0.2.54:5353'], \
    zones: [{name: corp.example, servers: [192.0.2.55]}], nodeLocal: {}}";
const ADDRESS: &str =
    "controlPlaneEndpoint: {domain: api.example, address: 192.0.2.10, port: 7443}";

/// The clusters. Each differs from the first one, or from `units`, in a few settings.
fn cases() -> Vec<Case> {
    let case = |name: &str, minor, control_planes, sections: &[&str]| Case {
        name: name.to_owned(),
        version: Version::new(1, minor, 4),
        control_planes,
        sections: sections.iter().map(ToString::to_string).collect(),
    };
    let one = |name: &str, sections: &[&str]| case(name, 36, 1, sections);
    let three = |name: &str, sections: &[&str]| case(name, 36, 3, sections);
    let settings = format!(
        "kubernetes: {{version: VERSION, {COMPONENTS}, kubeadm: {{patches: [\
         {{target: kube-apiserver, patch: {{metadata: {{labels: {{by: us}}}}}}}}]}}}}"
    );
    let of_units = format!("kubernetes: {{version: VERSION, type: systemd, {COMPONENTS}}}");
    vec![
        one("default", &[]),
        one("settings", &[&settings]),
        case("v1.28", 28, 1, &[]),
        case("v1.28-settings", 28, 1, &[&settings]),
        one("docker", &["containerRuntime: {type: docker}"]),
        one("cri-o", &[CRI_O]),
        one("isulad", &["containerRuntime: {type: isulad}"]),
        one("host-gw", &["network: {flannel: {backend: host-gw}}"]),
        one("bridge", &["network: {plugin: bridge}"]),
        one("calico", &["network: {plugin: calico}"]),
        one("cilium", &["network: {plugin: cilium}"]),
        one("no-network", &["network: {plugin: none}"]),
        one("dns", &[DNS]),
        one("dns-loopback", &["dns: {nodeLocal: {interface: loopback}}"]),
        one("two-registries", &[TWO_REGISTRIES]),
        one("external-registry", &[EXTERNAL_REGISTRY]),
        one(
            "external-registry-docker",
            &[EXTERNAL_REGISTRY, "containerRuntime: {type: docker}"],
        ),
        one(
            "external-registry-cri-o",
            &[EXTERNAL_REGISTRY, "containerRuntime: {type: cri-o}"],
        ),
        one("external-etcd", &[EXTERNAL_ETCD]),
        three("external", &["highAvailability: {type: external}", ADDRESS]),
        three("haproxy", &["highAvailability: {type: haproxy}"]),
        three(
            "haproxy-pod",
            &["highAvailability: {type: haproxy, run: static-pod}"],
        ),
        three("nginx", &["highAvailability: {type: nginx}"]),
        three(
            "nginx-pod",
            &["highAvailability: {type: nginx, run: static-pod}"],
        ),
        three(
            "keepalived-haproxy",
            &["highAvailability: {type: keepalived-haproxy}", ADDRESS],
        ),
        three(
            "keepalived-nginx",
            &["highAvailability: {type: keepalived-nginx}", ADDRESS],
        ),
        three(
            "kube-vip",
            &[
                "highAvailability: {type: kube-vip}",
                "controlPlaneEndpoint: 192.0.2.10",
            ],
        ),
        three("etcd", &[OWN_ETCD, "highAvailability: {type: haproxy}"]),
        one("units", &[UNITS, OWN_ETCD]),
        one("units-settings", &[&of_units, OWN_ETCD]),
        case("units-v1.28", 28, 1, &[UNITS, OWN_ETCD]),
        one("units-external-etcd", &[UNITS, EXTERNAL_ETCD]),
        three(
            "units-haproxy",
            &[UNITS, OWN_ETCD, "highAvailability: {type: haproxy}"],
        ),
        one("cis", &[CIS]),
        one("cis-systemd", &[CIS, UNITS, OWN_ETCD]),
        // Snapshots have the name of the first case with a file, so new cases are last.
        one("kubeadm", &[KUBEADM, KUBEADM_ETCD, FILES]),
        one(
            "site-registries",
            &[&format!("containerRuntime: {{{SITE_REGISTRIES}}}")],
        ),
        one(
            "site-registries-docker",
            &[&format!(
                "containerRuntime: {{type: docker, {SITE_REGISTRIES}}}"
            )],
        ),
        one(
            "site-registries-cri-o",
            &[&format!(
                "containerRuntime: {{type: cri-o, {SITE_REGISTRIES}}}"
            )],
        ),
        one(
            "site-registries-isulad",
            &[
                "containerRuntime: {type: isulad, registries: {'harbor.corp': {caFile: FOLDER/ca.crt, insecure: true}}}",
            ],
        ),
        one(
            "cgroupfs",
            &["containerRuntime: {cgroupDriver: cgroupfs}", RESERVED],
        ),
        one(
            "cgroupfs-cri-o",
            &["containerRuntime: {type: cri-o, cgroupDriver: cgroupfs}"],
        ),
        one(
            "cgroupfs-docker",
            &["containerRuntime: {type: docker, cgroupDriver: cgroupfs}"],
        ),
        one("dns-more", &[DNS_MORE]),
        three(
            "keepalived-settings",
            &[
                "highAvailability: {type: keepalived-haproxy, interface: bond0, haproxy: {log: true, extraConfig: '# site'}, \
                keepalived: {priorities: {node1: 150}, notifyScript: FOLDER/ca.crt, \
                extraConfig: '# site'}}",
                ADDRESS,
            ],
        ),
        three(
            "nginx-settings",
            &["highAvailability: {type: nginx, nginx: {extraConfig: '# site'}}"],
        ),
        three(
            "kube-vip-settings",
            &[
                "highAvailability: {type: kube-vip, interface: bond0, kubeVip: {services: true, env: {vip_loglevel: 5}}}",
                "controlPlaneEndpoint: 192.0.2.10",
            ],
        ),
        one("units-more", &[UNITS_MORE, OWN_ETCD_MORE, FILES]),
        three(
            "units-kube-vip",
            &[
                UNITS,
                OWN_ETCD,
                "highAvailability: {type: kube-vip}",
                "controlPlaneEndpoint: 192.0.2.10",
            ],
        ),
        three(
            "units-kube-vip-services",
            &[
                UNITS,
                OWN_ETCD,
                "highAvailability: {type: kube-vip, kubeVip: {services: true, env: {svc_election: true, prometheus_server: ':2112'}}}",
                "controlPlaneEndpoint: 192.0.2.10",
            ],
        ),
    ]
}

impl Case {
    fn yaml(&self, folder: &Path) -> String {
        let hosts: String = (1..=self.control_planes)
            .map(|n| format!("    - {{name: node{n}, address: 192.0.2.1{n}}}\n"))
            .collect();
        let mut yaml = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec:\n  hosts:\n{hosts}    \
             - {{name: node4, address: 192.0.2.14, labels: {{disk: ssd}}, taints: ['dedicated=db:NoSchedule']}}\n"
        );
        let last = self.control_planes;
        let groups = format!("roleGroups: {{control-plane: ['node[1:{last}]'], worker: [node4]}}");
        let unsaid = [groups.as_str(), "kubernetes: {version: VERSION}"];
        let name = |section: &str| section.split(':').next().unwrap().to_owned();
        let said = |section: &&str| self.sections.iter().any(|s| name(s) == name(section));
        let unsaid = unsaid.into_iter().filter(|section| !said(section));
        for section in unsaid.chain(self.sections.iter().map(String::as_str)) {
            yaml += &format!("  {section}\n");
        }
        yaml.replace("VERSION", &format!("v{}", self.version))
            .replace("FOLDER", &folder.display().to_string())
    }
}

/// A file on a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    path: String,
    mode: u32,
    content: String,
}

impl File {
    /// Files of nodes and registries that differ only in names and addresses have the same name here.
    fn normalized(&self) -> Self {
        let names =
            Regex::new(r"\bnode\d|\b192\.0\.2\.1[1-4]\b|(?:certs|docker/certs)\.d/[^/]+").unwrap();
        let of = |text: &str| names.replace_all(text, "NAME").into_owned();
        let mut file = Self {
            path: of(&self.path),
            content: of(&self.content),
            mode: self.mode,
        };
        if let Some(registry) = self
            .path
            .split("/certs.d/")
            .nth(1)
            .and_then(|rest| rest.split('/').next())
        {
            file.content = file
                .content
                .replace(registry, "NAME")
                .replace(&registry.replace(':', "_"), "NAME");
        }
        file
    }

    /// Returns the part of the snapshot's name that stands for the file.
    fn name(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '_'
            }
        };
        self.path
            .trim_start_matches('/')
            .chars()
            .map(plain)
            .collect()
    }
}

/// Returns every file of a case with its host. A plan does not show secret files: the first one with a path
/// is written into a directory and read there.
async fn files(case: &Case, folder: &Path, secrets: &mut BTreeSet<String>) -> Vec<(String, File)> {
    let yaml = case.yaml(folder);
    let cluster = parse_cluster("cluster.yaml", &yaml)
        .unwrap_or_else(|problems| panic!("{}: {problems}\n{yaml}", case.name));
    let (lock, blobs) = bundle(&case.version);
    let mut inputs = Inputs::assumed(&cluster, &lock, Arc::new(blobs));
    for host in inputs.hosts.values_mut() {
        host.releases = vec![("debian".into(), "trixie".into())];
        host.has_network_manager = true;
        host.has_networkd = true;
    }
    let plan = kubexm_deploy::plan(&inputs)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
        .plan;
    let mut files = Vec::new();
    for task in &plan.tasks {
        for step in &task.steps {
            for file in step.files().into_iter().filter_map(PlannedFile::rendered) {
                let (path, mut content) = (file.path.to_string(), file.content);
                if content == "<secret>\n" {
                    // Files with a login have other content in each cluster.
                    let has_login = path.ends_with("/hosts.toml") || path.ends_with("/logins.json");
                    if !has_login && !secrets.insert(path.clone()) {
                        continue;
                    }
                    let sandbox = Sandbox::new();
                    // Without other rights, a file can only have the group 0.
                    sandbox.write("/etc/group", "etcd:x:0:\nkubexm-registry:x:0:\n");
                    let Step::Ensure(ensure) = step else {
                        panic!("{path}: only a state has a secret file");
                    };
                    sandbox.apply(ensure.as_ref()).await.unwrap();
                    content = sandbox.read(&path);
                }
                files.push((
                    task.host.to_string(),
                    File {
                        path,
                        mode: file.mode,
                        content,
                    },
                ));
            }
        }
    }
    files
}

#[tokio::test]
async fn every_rendered_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ca.crt", "client.crt", "client.key", "password"] {
        std::fs::write(folder.path().join(name), format!("<{name}>\n")).unwrap();
    }
    let (mut seen, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    let mut snapshots: BTreeMap<String, String> = BTreeMap::new();
    for case in cases() {
        for (host, file) in files(&case, folder.path(), &mut secrets).await {
            if !seen.insert(file.normalized()) {
                continue;
            }
            // A line in angle brackets replaces a certificate, a key or a password.
            let stands_for = file.content.starts_with('<') && file.content.lines().count() == 1;
            let (name, text) = if stands_for {
                (
                    "certificates and keys".to_owned(),
                    format!("{} {:o} {}", file.path, file.mode, file.content),
                )
            } else {
                (
                    format!("{}@{}", file.name(), case.name),
                    format!(
                        "# {} of {host}, mode {:o}\n{}",
                        file.path, file.mode, file.content
                    ),
                )
            };
            *snapshots.entry(name).or_default() += &text;
        }
    }
    let texts = snapshots
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    assert_files("rendered", texts);
    assert_all_templates(&snapshots);
}

/// Checks that a snapshot contains every template: the texts outside of its tags, in the same order.
fn assert_all_templates(snapshots: &BTreeMap<String, String>) {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let texts: Vec<String> = snapshots.values().map(|text| squeezed(text)).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates");
    let mut unseen = Vec::new();
    let mut count = 0;
    for group in std::fs::read_dir(&folder).unwrap() {
        for template in std::fs::read_dir(group.unwrap().path()).unwrap() {
            let path = template.unwrap().path();
            let parts = unconditional(&std::fs::read_to_string(&path).unwrap());
            let parts: Vec<String> = parts.iter().map(|part| squeezed(part)).collect();
            assert!(
                parts.concat().len() > 10,
                "{} has too little text to be found",
                path.display()
            );
            let is_in = |text: &String| {
                let find = |rest, part: &String| {
                    let rest: &str = rest;
                    rest.split_once(part.as_str()).map(|(_, rest)| rest)
                };
                parts.iter().try_fold(text.as_str(), find).is_some()
            };
            if !texts.iter().any(is_in) {
                unseen.push(path.strip_prefix(&folder).unwrap().to_owned());
            }
            count += 1;
        }
    }
    assert!(
        count > 50,
        "the templates are not where they are looked for"
    );
    assert!(
        unseen.is_empty(),
        "no cluster here renders {unseen:?}: add one to `cases`"
    );
}

/// Returns the texts of a template that are outside of tags, and outside of `if`, `for` and `match`.
fn unconditional(template: &str) -> Vec<String> {
    let tags = Regex::new(r"(?s)\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}").unwrap();
    let (mut depth, mut end) = (0, 0);
    let mut parts = Vec::new();
    for tag in tags.find_iter(template) {
        if depth == 0 {
            parts.push(template[end..tag.start()].to_owned());
        }
        end = tag.end();
        let words = tag.as_str().trim_matches(['{', '%', '-', '~', '+', '}']);
        let is_block = tag.as_str().starts_with("{%");
        match words.split_whitespace().next() {
            Some("if" | "for" | "match") if is_block => depth += 1,
            Some("endif" | "endfor" | "endmatch") if is_block => depth -= 1,
            _ => {}
        }
    }
    parts.push(template[end..].to_owned());
    parts
}
