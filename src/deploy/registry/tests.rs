//! The login at the registry, and the order in which it comes into force.

use std::collections::BTreeSet;

use crate::example::{cluster, file_of, with_inputs};
use crate::{HostFacts, Inputs};
use kubexm_config::Cluster;
use kubexm_engine::plan::Plan;
use kubexm_engine::plan::graph::Graph;
use kubexm_types::Arch;

/// A section of the cluster file.
const NETWORK: &str = "network: {plugin: none}";
const CONFIG: &str = "/etc/kubexm/registry/config.yml";
const HOSTS: &str = "/etc/containerd/certs.d/registry.k8s.io/hosts.toml";

/// Returns the plan for a registry that runs on node1, with or without a login.
fn plan(cluster: &Cluster, running: Option<bool>) -> Plan {
    with_inputs(cluster, &[], "", |inputs| {
        let mut hosts = inputs.hosts.clone();
        let facts = HostFacts {
            registry_login: running,
            ..HostFacts::assumed(Arch::Amd64)
        };
        hosts.insert("node1".parse().unwrap(), facts);
        let inputs = Inputs {
            cluster,
            hosts,
            ..inputs.clone()
        };
        let plan = crate::plan(&inputs).unwrap().plan;
        Graph::new(&plan).unwrap();
        plan
    })
}

/// Returns the tasks of the runtimes and of the registry that a task waits for.
fn after(plan: &Plan, id: &str) -> BTreeSet<String> {
    let task = plan.tasks.iter().find(|task| task.id().0 == id).unwrap();
    let names = task.after.iter().map(|id| id.0.clone());
    names
        .filter(|id| id.starts_with("runtime/") || id.starts_with("registry/"))
        .collect()
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn registry_requires_a_login_by_default_and_every_node_has_it() {
    let cluster = cluster("", NETWORK);
    with_inputs(&cluster, &[], "", |inputs| {
        let config = file_of(inputs, "node1", CONFIG).unwrap();
        assert!(config.contains("\nauth:\n  htpasswd:\n"), "{config}");
        assert!(
            config.contains("path: \"/etc/kubexm/registry/htpasswd\""),
            "{config}"
        );
        let plan = crate::plan(inputs).unwrap().plan;
        let files = plan.tasks.iter().flat_map(|task| {
            let steps = task.steps.iter().flat_map(|step| step.files());
            steps.map(|file| (task.host.to_string(), file))
        });
        let files: Vec<_> = files.collect();
        for (host, path, mode) in [
            ("node1", "/etc/kubexm/registry/htpasswd", 0o640),
            ("node1", HOSTS, 0o600),
            ("node2", HOSTS, 0o600),
        ] {
            let of_host = |(name, file): &&(String, kubexm_engine::plan::PlannedFile)| {
                name == host && file.path.as_str() == path
            };
            let (_, file) = files.iter().find(of_host).unwrap();
            assert_eq!(file.mode, mode, "{path}");
            assert_eq!(file.content, kubexm_engine::plan::FileContent::Secret);
        }
    });
}

#[test]
fn login_can_be_turned_off() {
    let cluster = cluster("", &format!("{NETWORK}\nregistry: {{login: false}}"));
    with_inputs(&cluster, &[], "", |inputs| {
        let config = file_of(inputs, "node1", CONFIG).unwrap();
        assert!(!config.contains("auth:"), "{config}");
        let hosts = file_of(inputs, "node2", HOSTS).unwrap();
        assert!(!hosts.contains("Authorization"), "{hosts}");
        let plan = crate::plan(inputs).unwrap().plan;
        let mut files = plan
            .tasks
            .iter()
            .flat_map(|task| &task.steps)
            .flat_map(|step| step.files());
        assert!(files.all(|file| !file.path.as_str().ends_with("htpasswd")));
    });
}

/// The registry does not need to enter the directories above the images. In the unit, a path may contain every character.
#[test]
fn unit_mounts_the_images_of_any_data_directory() {
    for (data_dir, mounted) in [
        (
            "/var/lib/kubexm/registry",
            "\"/var/lib/kubexm/registry/docker\"",
        ),
        ("/srv/a b:100%", "\"/srv/a b:100%%/docker\""),
    ] {
        let section = format!("{NETWORK}\nregistry: {{dataDir: '{data_dir}'}}");
        with_inputs(&cluster("", &section), &[], "", |inputs| {
            let unit = file_of(
                inputs,
                "node1",
                "/etc/systemd/system/kubexm-registry.service",
            );
            let unit = unit.unwrap();
            let line = format!("\nBindReadOnlyPaths={mounted}:/var/lib/kubexm/registry/docker\n");
            assert!(unit.contains(&line), "{unit}");
            let config = file_of(inputs, "node1", CONFIG).unwrap();
            let root = "rootdirectory: \"/var/lib/kubexm/registry\"";
            assert!(config.contains(root), "{config}");
        });
    }
}

/// Pulls must not fail while a login comes into force in a running cluster.
#[test]
fn clients_have_the_login_before_a_running_registry_requires_it() {
    let with_login = cluster("", NETWORK);
    let (serve, runtime) = ("registry/serve@node1", "runtime/install@node2");
    let runtimes = ids(&["runtime/install@node1", runtime]);
    let none = BTreeSet::new();
    let upgraded = plan(&with_login, Some(false));
    assert_eq!(after(&upgraded, serve), runtimes);
    assert_eq!(after(&upgraded, runtime), none);
    // A first install, and a later one, fill the registry while runtimes are installed.
    for running in [None, Some(true)] {
        let plan = plan(&with_login, running);
        assert_eq!(after(&plan, serve), none, "{running:?}");
        assert_eq!(after(&plan, runtime), none, "{running:?}");
    }
    let without = cluster("", &format!("{NETWORK}\nregistry: {{login: false}}"));
    let opened = plan(&without, Some(true));
    assert_eq!(after(&opened, serve), none);
    assert_eq!(after(&opened, runtime), ids(&[serve]));
    assert_eq!(after(&plan(&without, Some(false)), runtime), none);
}
