//! Every container runtime, from a cluster file to the files on its nodes. Each file is checked by the rules
//! of its reader, and the files of one runtime name no other.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;

use kubexm_bundle::Lock;
use kubexm_catalog::Catalog;
use kubexm_config::Cluster;
use kubexm_config::cluster::RuntimeKind;
use kubexm_deploy::Inputs;
use kubexm_types::Version;
use serde_json::Value;

use crate::combinations::everything;
use crate::example::InMemory;

const KINDS: &[&str] = RuntimeKind::NAMES;
const PAUSE: &str = "registry.k8s.io/pause:3.10.2";
const OWN: &str = "quay.example:8443/site/app:1";

/// Returns a lock with everything, and an image of the user.
fn lock() -> Lock {
    let mut lock = everything::lock(&[Version::new(1, 36, 3)]);
    lock.images.push(everything::image(OWN.parse().unwrap()));
    lock.sort();
    lock
}

fn cluster(kind: &str, settings: &str) -> Cluster {
    let text = kubexm_config::schema::TEMPLATE.replace(
        "    type: containerd",
        &format!("    type: {kind}\n    extraConfig: {settings}"),
    );
    let mut cluster = kubexm_config::parse_cluster("cluster.yaml", &text).unwrap();
    // A plan does not show files with a login.
    cluster.registry.login = false;
    cluster
}

/// Returns the plan as text, and every file of the first worker by its path.
fn render(cluster: &Cluster) -> (String, BTreeMap<String, String>) {
    let lock = lock();
    let inputs = Inputs::assumed(cluster, &lock, Arc::new(InMemory::default()));
    let deployment = kubexm_deploy::plan(&inputs).unwrap();
    let shown = kubexm_engine::plan::show::as_text(&deployment.plan).unwrap();
    let files = kubexm_deploy::rendered(&deployment.plan);
    let host = cluster.hosts[1].name.clone();
    let files = files[&host].iter();
    let files = files.map(|file| (file.path.to_string(), file.content.clone()));
    (shown, files.collect())
}

#[test]
fn runtime_socket_is_the_same_in_every_file() {
    let sockets: Vec<&str> = RuntimeKind::all_properties()
        .map(|own| own.socket)
        .collect();
    for (kind, own) in KINDS.iter().zip(sockets.iter().copied()) {
        let (_, files) = render(&cluster(kind, "{}"));
        assert!(files["/etc/crictl.yaml"].contains(own), "{kind}");
        let join = &files["/run/kubexm/kubeadm-join.yaml"];
        assert!(join.contains(&format!("criSocket: \"{own}\"")), "{kind}");
        for other in sockets.iter().filter(|other| **other != own) {
            for (path, text) in &files {
                assert!(!text.contains(other), "{kind}: {path} has {other}");
            }
        }
    }
}

#[test]
fn no_file_names_a_public_registry_and_the_pause_image_is_of_kubeadm() {
    for kind in KINDS {
        let cluster = cluster(kind, "{}");
        let blobs: Arc<dyn kubexm_bundle::Blobs> = Arc::new(InMemory::default());
        let findings = kubexm_deploy::completeness::check(&cluster, &lock(), &blobs)
            .unwrap()
            .findings;
        assert!(findings.is_empty(), "{kind}: {findings:?}");
        let (_, files) = render(&cluster);
        let (insecure, pause) = (
            |text: &&String| text.contains("insecure-"),
            |text: &&String| text.contains(PAUSE),
        );
        assert_eq!(files.values().filter(insecure).count(), 0, "{kind}");
        assert_eq!(files.values().filter(pause).count(), 1, "{kind}");
    }
}

#[test]
fn missing_runtime_files_of_a_bundle_are_named() {
    let mut without = lock();
    without
        .files
        .retain(|file| !["docker", "cri-o"].contains(&file.component.as_str()));
    for (kind, wanted) in [("docker", "docker for amd64"), ("cri-o", "cri-o for amd64")] {
        let blobs: Arc<dyn kubexm_bundle::Blobs> = Arc::new(InMemory::default());
        let report =
            kubexm_deploy::completeness::check(&cluster(kind, "{}"), &without, &blobs).unwrap();
        let findings = report.findings;
        assert!(findings.iter().any(|f| f.contains(wanted)), "{findings:?}");
    }
}

#[test]
fn docker_gets_every_registry_from_the_cluster_registry() {
    let (_, files) = render(&cluster("docker", "{}"));
    for (folder, path) in [
        ("registry.k8s.io", "registry.k8s.io"),
        ("quay.example:8443", "quay.example_8443"),
        ("_default", "not-in-the-bundle"),
    ] {
        let hosts = &files[&format!("/etc/docker/certs.d/{folder}/hosts.toml")];
        let hosts: toml::Table = hosts.parse().unwrap();
        let url = format!("https://registry.kubexm.internal:5000/v2/{path}");
        assert_eq!(hosts["server"].as_str(), Some(url.as_str()));
        assert_eq!(hosts["host"][&url]["override_path"].as_bool(), Some(true));
    }
    let daemon: Value = serde_json::from_str(&files["/etc/docker/daemon.json"]).unwrap();
    // Without it, Docker ignores hosts.toml.
    assert_eq!(daemon["features"]["containerd-snapshotter"], true);
    assert_eq!(daemon["exec-opts"][0], "native.cgroupdriver=systemd");
    assert_eq!(daemon["bridge"], "none");
    assert_eq!(daemon["iptables"], false);
}

#[test]
fn kubelet_with_cri_dockerd_does_not_redirect_streams() {
    let gate = "ExtendWebSocketsToKubelet";
    for (kind, version, settings, wanted) in [
        ("docker", "v1.36.3", "", Some("false")),
        (
            "docker",
            "v1.36.3",
            "    kubelet: {featureGates: {ExtendWebSocketsToKubelet: true}}\n",
            Some("true"),
        ),
        ("docker", "v1.35.1", "", None),
        ("containerd", "v1.36.3", "", None),
    ] {
        let text = kubexm_config::schema::TEMPLATE
            .replace("type: containerd", &format!("type: {kind}"))
            .replace(
                "    version: v1.36.3\n",
                &format!("    version: {version}\n{settings}"),
            );
        let cluster = kubexm_config::parse_cluster("cluster.yaml", &text).unwrap();
        let mut lock = lock();
        for version in lock
            .kubernetes
            .iter_mut()
            .chain(lock.kubeadm.iter_mut().map(|k| &mut k.version))
        {
            *version = cluster.kubernetes.version.clone();
        }
        for file in lock
            .files
            .iter_mut()
            .filter(|file| file.component.starts_with("kube"))
        {
            file.version = cluster.kubernetes.version.clone();
        }
        let blobs: Arc<dyn kubexm_bundle::Blobs> = Arc::new(InMemory::default());
        let configs = kubexm_deploy::completeness::check(&cluster, &lock, &blobs)
            .unwrap()
            .configs;
        let line = configs[0].text.lines().find(|line| line.contains(gate));
        let found = line.and_then(|line| line.rsplit(": ").next());
        assert_eq!(found, wanted, "{kind} {version}");
    }
}

#[test]
fn crio_uses_only_the_cluster_registry() {
    let (_, files) = render(&cluster("cri-o", "{}"));
    let registries = &files["/etc/containers/registries.conf.d/10-kubexm.conf"];
    let registries: toml::Table = registries.parse().unwrap();
    let moved: BTreeMap<&str, &str> = registries["registry"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            (
                r["prefix"].as_str().unwrap(),
                r["location"].as_str().unwrap(),
            )
        })
        .collect();
    let home = "registry.kubexm.internal:5000";
    assert_eq!(moved["registry.k8s.io"], format!("{home}/registry.k8s.io"));
    assert_eq!(
        moved["quay.example:8443"],
        format!("{home}/quay.example_8443")
    );
    let policy: Value = serde_json::from_str(&files["/etc/crio/policy.json"]).unwrap();
    assert_eq!(policy["default"][0]["type"], "reject");
    let accepted: BTreeSet<&str> = policy["transports"]["docker"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(accepted, moved.keys().copied().collect());
    assert!(files.contains_key(&format!("/etc/containers/certs.d/{home}/ca.crt")));
    let config: toml::Table = files["/etc/crio/crio.conf.d/10-kubexm.conf"]
        .parse()
        .unwrap();
    let pinned = config["crio"]["image"]["pinned_images"].as_array().unwrap();
    assert!(pinned.iter().any(|image| image.as_str() == Some(PAUSE)));
    // The network plugin connects to the API server, so this address must not use the proxy.
    let unit = &files["/etc/systemd/system/crio.service"];
    for reached in ["registry.kubexm.internal", "10.96.0.0/12", "192.0.2.11"] {
        let line = unit
            .lines()
            .find(|line| line.contains("NO_PROXY="))
            .unwrap();
        assert!(line.contains(reached), "{reached}");
    }
}

/// The fields in the schema of iSulad 2.1.5:
/// <https://gitee.com/openeuler/lcr/blob/master/src/json/schema/isulad-daemon-configs.json>.
const ISULAD: &str = "hosts default-runtime group graph state log-level log-driver log-opts cri-sandboxers \
    cri-runtimes container-log storage-driver storage-opts storage-enable-remote-layer pidfile engine \
    hook-spec start-timeout enable-plugins userns-remap cpu-rt-period cpu-rt-runtime sup-groups \
    registry-mirrors insecure-registries native.umask pod-sandbox-image network-plugin cni-bin-dir \
    cni-conf-dir nri-support image-layer-check use-decrypted-key insecure-skip-verify-enforce tls \
    tls-verify tls-config authorization-plugin cgroup-parent websocket-server-listening-port \
    default-ulimits runtimes selinux-enabled metrics-port enable-cri-v1 systemd-cgroup enable-pod-events \
    cdi-spec-dirs enable-cdi";

#[test]
fn unsupported_runtime_settings_are_refused_before_planning() {
    let refused = |kind: &str, registry: &str| {
        let text = kubexm_config::schema::TEMPLATE
            .replace("    type: containerd", &format!("    type: {kind}"))
            .replace("    registry: [node1]\n", "")
            .replace("    port: 5000\n", registry);
        kubexm_deploy::validate(&kubexm_config::parse_cluster("cluster.yaml", &text).unwrap())
    };
    let external = "    {type: external, address: harbor.example}\n";
    let error = refused("isulad", external).unwrap_err().to_string();
    assert!(error.contains("hint: remove registry.type"), "{error}");
    refused("isulad", "    port: 5000\n").unwrap();
    refused("cri-o", external).unwrap();
}

#[test]
fn isulad_has_only_known_settings_and_preloads_images() {
    let (_, files) = render(&cluster("isulad", "{}"));
    let daemon: Value = serde_json::from_str(&files["/etc/isulad/daemon.json"]).unwrap();
    let known: BTreeSet<&str> = ISULAD.split_whitespace().collect();
    for field in daemon.as_object().unwrap().keys() {
        assert!(
            known.contains(field.as_str()),
            "iSulad has no field {field}"
        );
    }
    assert_eq!(daemon["enable-cri-v1"], true);
    assert_eq!(daemon["systemd-cgroup"], true);
    let (isulad, _) = render(&cluster("isulad", "{}"));
    let (containerd, _) = render(&cluster("containerd", "{}"));
    let all = format!("Pull and pin {} images", lock().images.len());
    assert!(isulad.contains(&all), "{isulad}");
    assert!(!containerd.contains(&all), "{containerd}");
}

#[test]
fn systemd_analyze_accepts_runtime_units() {
    for (kind, units) in [
        ("docker", vec!["docker.service", "cri-dockerd.service"]),
        ("cri-o", vec!["crio.service"]),
        ("isulad", vec!["isulad.service"]),
    ] {
        let (_, files) = render(&cluster(kind, "{}"));
        let folder = tempfile::tempdir().unwrap();
        for unit in units {
            // The programs are not on this machine: `true` replaces them.
            let text = &files[&format!("/etc/systemd/system/{unit}")];
            let text = text.replace("ExecStart=/usr/local/bin/", "ExecStart=/bin/true ");
            let text = text.replace("ExecStart=/usr/bin/isulad", "ExecStart=/bin/true");
            std::fs::write(folder.path().join(unit), text).unwrap();
        }
        let paths = std::fs::read_dir(folder.path()).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no", "--recursive-errors=no"]);
        command.args(paths.map(|entry| entry.unwrap().path()));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let place = folder.path().display().to_string();
        let own: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(&place) || line.contains(".service: "))
            .collect();
        assert!(output.status.success() && own.is_empty(), "{kind}: {said}");
    }
}

#[test]
fn runtime_settings_of_the_user_override_defaults() {
    for (kind, settings, path, wanted) in [
        (
            "containerd",
            "{root: /data/c}",
            "/etc/containerd/config.toml",
            "root = \"/data/c\"",
        ),
        (
            "docker",
            "{data-root: /data/d, log-opts: {max-file: \"2\"}}",
            "/etc/docker/daemon.json",
            "\"max-file\": \"2\"",
        ),
        (
            "cri-o",
            "{crio: {root: /data/o, runtime: {default_runtime: runc}}}",
            "/etc/crio/crio.conf.d/10-kubexm.conf",
            "default_runtime = \"runc\"",
        ),
        (
            "isulad",
            "{graph: /data/i, log-level: DEBUG}",
            "/etc/isulad/daemon.json",
            "\"log-level\": \"DEBUG\"",
        ),
    ] {
        let cluster = cluster(kind, settings);
        let (_, files) = render(&cluster);
        assert!(files[path].contains(wanted), "{}", files[path]);
        let folder = cluster.runtime.data_directory();
        assert!(
            folder.starts_with("/data/") && files[path].contains(folder),
            "{kind}"
        );
    }
}

#[test]
fn incompatible_runtime_versions_are_refused() {
    let catalog = Catalog::embedded().unwrap();
    assert_eq!(catalog.incompatibilities(&lock()), Vec::<String>::new());
    for (component, version, wanted) in [
        (
            "cri-o",
            Version::new(1, 33, 0),
            "cri-o 1.33.0 is not compatible with Kubernetes 1.36.3",
        ),
        (
            "docker",
            Version::new(28, 5, 2),
            "docker 28.5.2 is not compatible with Kubernetes 1.36.3",
        ),
        (
            "cri-dockerd",
            Version::new(0, 3, 16),
            "cri-dockerd 0.3.16 is not compatible with",
        ),
    ] {
        let mut lock = lock();
        for file in lock
            .files
            .iter_mut()
            .filter(|file| file.component == component)
        {
            file.version = version.clone();
        }
        let findings = catalog.incompatibilities(&lock);
        assert!(findings[0].starts_with(wanted), "{findings:?}");
    }
}

/// The first releases of a line of containerd may be too old, although those of an earlier line are not.
#[test]
fn each_release_line_of_containerd_has_its_own_minimum() {
    let catalog = Catalog::embedded().unwrap();
    let findings = |kubernetes: &str, containerd: &str| {
        let mut lock = lock();
        lock.kubernetes = vec![kubernetes.parse().unwrap()];
        lock.files.retain(|file| file.component == "containerd");
        assert!(!lock.files.is_empty());
        for file in &mut lock.files {
            file.version = containerd.parse().unwrap();
        }
        catalog.incompatibilities(&lock)
    };
    for (kubernetes, containerd, fits) in [
        ("1.33.0", "1.7.24", true),
        ("1.33.0", "2.0.3", false),
        ("1.34.0", "1.7.28", true),
        ("1.34.0", "2.0.5", false),
        ("1.34.0", "2.1.2", false),
        ("1.34.0", "2.1.3", true),
        ("1.35.0", "2.0.7", false),
        ("1.35.0", "2.1.4", false),
        ("1.35.0", "2.2.0", true),
        ("1.37.2", "2.3.7", true),
        ("1.37.2", "1.7.30", false),
    ] {
        let found = findings(kubernetes, containerd);
        assert_eq!(
            found.is_empty(),
            fits,
            "{kubernetes} {containerd}: {found:?}"
        );
    }
}

/// A version of Kubernetes that is newer than this kubexm is a warning; an older one than the first is refused.
#[test]
fn unknown_versions_of_kubernetes_cause_one_warning() {
    let catalog = Catalog::embedded().unwrap();
    let with = |versions: &[&str]| {
        let mut lock = lock();
        lock.kubernetes = versions.iter().map(|v| v.parse().unwrap()).collect();
        lock
    };
    let known = with(&["1.28.0", "1.37.2"]);
    assert_eq!(catalog.unknown_kubernetes(&known), None);
    let newer = with(&["1.36.3", "1.99.0", "2.0.0"]);
    assert_eq!(catalog.incompatibilities(&newer), Vec::<String>::new());
    let warning = catalog.unknown_kubernetes(&newer).unwrap();
    assert!(
        warning.contains("compatible with 1.99.0 and 2.0.0;"),
        "{warning}"
    );
    let older = catalog.incompatibilities(&with(&["1.27.16"]));
    assert_eq!(
        older,
        ["Kubernetes 1.27.16 is not supported; kubexm supports 1.28 and newer"]
    );
}
