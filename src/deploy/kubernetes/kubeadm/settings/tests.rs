//! Which nodes change after which ones, and what happens to a program that does not work with its new settings.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;

use super::super::losing_host::{Lost, is_killed, run};
use super::*;
use crate::example::{cluster, with_inputs};
use kubexm_engine::{Command, Host, HostError, Output};
use kubexm_types::HostName;

const FLANNEL: [&str; 2] = [
    "ghcr.io/flannel-io/flannel:v0.28.4",
    "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
];

/// Returns the tasks with settings in a plan for a control plane `node1` and a worker `node2`, each with the tasks
/// that must succeed first.
fn settings(is_node: bool) -> Vec<(String, Vec<String>)> {
    with_inputs(&cluster("", ""), &FLANNEL, "", |inputs| {
        let mut hosts = inputs.hosts.clone();
        for facts in hosts.values_mut() {
            facts.is_node = is_node;
        }
        let inputs = Inputs {
            hosts,
            ..inputs.clone()
        };
        let tasks = crate::plan(&inputs).unwrap().plan.tasks.into_iter();
        let settings = tasks.filter(|task| task.name.contains("settings"));
        settings
            .map(|task| {
                let after = task.after.iter().map(|id| id.0.clone());
                (task.id().0, after.collect())
            })
            .collect()
    })
}

#[test]
fn nodes_that_exist_are_configured_one_after_another() {
    let found = settings(true);
    let after = |task: &str| -> Vec<&str> {
        let (_, after) = found.iter().find(|(id, _)| id == task).unwrap();
        after.iter().map(String::as_str).collect()
    };
    assert_eq!(
        after("kubernetes/kubelet-settings@node1"),
        ["control-plane/init@node1", "worker/join@node2"]
    );
    assert_eq!(
        after("kubernetes/kubelet-settings@node2"),
        ["kubernetes/kubelet-settings@node1"]
    );
    assert_eq!(after("control-plane/settings@node1"), ["nodes/admit@node1"]);
    assert_eq!(
        after("control-plane/stored-settings@node1"),
        ["nodes/admit@node1", "control-plane/settings@node1"]
    );
}

#[test]
fn new_nodes_have_their_settings_from_kubeadm() {
    let found = settings(false);
    let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["control-plane/stored-settings@node1"]);
}

const SCHEDULER: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";
const KUBELET: &str = "/var/lib/kubelet/config.yaml";

/// A node whose programs work unless one of their files contains `broken`.
struct Node {
    name: HostName,
    files: Mutex<BTreeMap<String, String>>,
    commands: Mutex<usize>,
    /// Restarts of the kubelet.
    restarts: Mutex<u64>,
    /// Whether the container runtime knows that a container fails.
    fails: bool,
}

impl Node {
    fn new() -> Self {
        let files = [SCHEDULER, KUBELET].map(|path| (path.to_owned(), "old\n".to_owned()));
        Self {
            name: "node1".parse().unwrap(),
            files: Mutex::new(files.into()),
            commands: Mutex::default(),
            restarts: Mutex::default(),
            fails: false,
        }
    }

    fn files(&self) -> BTreeMap<String, String> {
        self.files.lock().unwrap().clone()
    }

    fn works(&self, path: &str) -> bool {
        !self.files()[path].contains("broken")
    }

    /// Returns status and output of the script.
    fn answer(&self, verb: &str, of: &BTreeMap<&str, &str>, more: &[&str]) -> (i32, String) {
        let get = |name: &str| of.get(name).copied().unwrap_or_default();
        let (former, path) = (get("former"), get("path"));
        // A former directory has the names of files after a slash.
        let copies: Vec<(String, String)> = self
            .files()
            .into_iter()
            .filter_map(|(file, content)| {
                let name = file.strip_prefix(former).filter(|_| !former.is_empty())?;
                Some((format!("{path}{name}"), content))
            })
            .collect();
        let has_former = !copies.is_empty();
        let printed = match verb {
            "look" => {
                let name = match get("phase") {
                    "kubelet-start" => "config.yaml",
                    _ => "kube-scheduler.yaml",
                };
                let generated = get("config").lines().last().unwrap().to_owned() + "\n";
                let live = format!("{path}/{name}");
                let all = [(name, &generated), (&*live, &self.files()[&live])];
                let frames = all.map(|(path, text)| format!("{path} {}\n{text}", text.len()));
                let start = if has_former { "former\n" } else { "" };
                start.to_owned() + &frames.concat()
            }
            "put" => {
                let mut files = self.files.lock().unwrap();
                if !has_former {
                    let present = files[path].clone();
                    files.insert(former.to_owned(), present);
                }
                files.insert(path.to_owned(), get("content").to_owned());
                String::new()
            }
            "save" => {
                let mut files = self.files.lock().unwrap();
                for file in more.iter().filter(|_| !has_former) {
                    let name = file.rsplit('/').next().unwrap();
                    let present = files[*file].clone();
                    files.insert(format!("{former}/{name}"), present);
                }
                String::new()
            }
            "restore" | "keep" | "drop" => {
                let mut files = self.files.lock().unwrap();
                if verb != "restore" {
                    files.retain(|file, _| !file.starts_with(former));
                }
                for (path, content) in copies {
                    match verb {
                        "restore" => files.insert(path, content),
                        "keep" => files.insert(format!("/previous{path}"), content),
                        _ => None,
                    };
                }
                String::new()
            }
            "restart" => {
                let mut restarts = self.restarts.lock().unwrap();
                *restarts += 1;
                format!("2026-01-01T00:00:0{restarts}\n")
            }
            "life" => {
                let restarts = *self.restarts.lock().unwrap();
                let renewed = if self.works(KUBELET) { restarts } else { 0 };
                format!(
                    r#"active
{{"spec": {{"renewTime": "2026-01-01T00:00:0{renewed}.5Z"}}}}
{{"status": {{"conditions": [{{"type": "Ready", "status": "True"}}]}}}}"#
                )
            }
            "pod" => {
                let ready = if self.works(SCHEDULER) {
                    "True"
                } else {
                    "False"
                };
                let hash = &self.files()[SCHEDULER];
                format!(
                    r#"{{"metadata": {{"annotations": {{"kubernetes.io/config.hash": "{}"}}}},
"status": {{"conditions": [{{"type": "Ready", "status": "{ready}"}}]}}}}"#,
                    hash.trim()
                )
            }
            "latest" if self.fails && !self.works(SCHEDULER) => r#"130
100
{"containers": [{"createdAt": "101000000000", "metadata": {"attempt": 3}}]}"#
                .to_owned(),
            "latest" => "141\n100\n".to_owned(),
            "logs" => "the cause\n".to_owned(),
            other => panic!("{other}"),
        };
        (0, printed)
    }
}

#[async_trait]
impl Host for Node {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        *self.commands.lock().unwrap() += 1;
        let words = command.into_parts().0;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (status, printed) = if let ["test", "-e", path] = words[..] {
            let exists = self.files().keys().any(|file| file.starts_with(path));
            (i32::from(!exists), String::new())
        } else {
            let of = words[5..].iter().filter_map(|word| word.split_once('='));
            let more = words.iter().skip_while(|word| **word != "--").skip(1);
            let more: Vec<&str> = more.copied().collect();
            self.answer(words[4], &of.collect(), &more)
        };
        Ok(Output {
            status,
            stdout: printed.into_bytes(),
            stderr: Vec::new(),
            log: None,
        })
    }
}

/// Returns the steps that apply a setting, for the scheduler and for the kubelet.
fn tasks(setting: &str) -> [(Task, &'static str, &'static str); 2] {
    let config = format!("kind: ClusterConfiguration\n{setting}\n");
    let task = || TaskName::new("control-plane", "settings").task(&"node1".parse().unwrap());
    let [_, _, scheduler] = PROGRAMS;
    let pod = static_pod::applied(scheduler, "node1", &config, task());
    let kubelet = of_kubelet("node1", config, task());
    [
        (
            pod,
            SCHEDULER,
            "/var/lib/kubexm/settings/control-plane/kube-scheduler.yaml",
        ),
        (
            kubelet,
            KUBELET,
            "/var/lib/kubexm/settings/kubelet/config.yaml",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_replaced_and_the_former_ones_are_kept() {
    for number in 0..2 {
        let node = Node::new();
        let steps = |setting| {
            let [pod, kubelet] = tasks(setting);
            if number == 0 { pod } else { kubelet }
        };
        let (task, path, former) = steps("new");
        run(&task, &node).await.unwrap();
        let files = node.files();
        assert_eq!(files[path], "new\n");
        assert_eq!(files[&format!("/previous{path}")], "old\n");
        assert!(!files.contains_key(former));
        // Another run changes nothing.
        let restarts = *node.restarts.lock().unwrap();
        run(&steps("new").0, &node).await.unwrap();
        assert_eq!(node.files(), files);
        assert_eq!(*node.restarts.lock().unwrap(), restarts);
    }
}

#[tokio::test(start_paused = true)]
async fn program_that_does_not_work_gets_its_former_files_again() {
    let mut errors = Vec::new();
    for (task, _, _) in tasks("broken") {
        let node = Node::new();
        let error = run(&task, &node).await.unwrap_err();
        errors.push(error.to_string());
        assert_eq!(node.files(), Node::new().files());
    }
    insta::assert_snapshot!(errors.join("\n\n"), @"
    kube-scheduler does not become ready with its new settings, so it has its former ones again
    the cause
    hint: correct the settings of kube-scheduler in the cluster file, then run the same command again

    the kubelet does not become healthy with its new settings, so it has its former ones again
    the cause
    hint: correct the settings of the kubelet in the cluster file, then run the same command again
    ");
}

/// A container that fails again and again ends the wait before its limit.
#[tokio::test(start_paused = true)]
async fn new_container_that_fails_is_not_waited_for() {
    let mut node = Node::new();
    node.fails = true;
    let [(task, ..), _] = tasks("broken");
    let began = tokio::time::Instant::now();
    run(&task, &node).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn program_without_any_settings_that_work_is_named() {
    let node = Node::new();
    node.files
        .lock()
        .unwrap()
        .insert(SCHEDULER.to_owned(), "broken before\n".to_owned());
    let [(task, _, former), _] = tasks("broken");
    let error = run(&task, &node).await.unwrap_err().to_string();
    let last = "\nkube-scheduler does not become ready with its former settings either\nhint: ";
    assert!(error.contains(last), "{error}");
    // The next run begins with them.
    assert_eq!(node.files()[former], "broken before\n");
    let [(task, ..), _] = tasks("new");
    run(&task, &node).await.unwrap();
    assert_eq!(node.files()[SCHEDULER], "new\n");
}

/// Kills a change, and its undo, before and after each command. Between are the polls of a wait.
#[tokio::test(start_paused = true)]
async fn interrupted_change_goes_on_or_is_undone() {
    for setting in ["new", "broken"] {
        for number in 0..2 {
            let steps = |setting| {
                let [pod, kubelet] = tasks(setting);
                if number == 0 { pod } else { kubelet }
            };
            let whole = Node::new();
            let (task, path, former) = steps(setting);
            assert_eq!(run(&task, &whole).await.is_err(), setting == "broken");
            let all = *whole.commands.lock().unwrap();
            assert!(all > 5, "{all}");
            let kills = (0..all).filter(|at| *at < 12 || *at + 12 >= all);
            for (at, how) in kills.flat_map(|at| [(at, Lost::Before), (at, Lost::After)]) {
                let place = format!("{how:?} command {at}, {setting}, {path}");
                let node = Node::new();
                assert!(
                    is_killed(&steps(setting).0, &node, at, how).await,
                    "{place}"
                );
                let again = run(&steps(setting).0, &node).await;
                if setting == "broken" {
                    assert!(again.is_err(), "{place}");
                    assert_eq!(node.files(), Node::new().files(), "{place}");
                    // The user corrects the cluster file.
                    run(&steps("new").0, &node).await.unwrap();
                }
                let files = node.files();
                assert_eq!(files[path], "new\n", "{place}");
                assert_eq!(files[&format!("/previous{path}")], "old\n", "{place}");
                assert!(!files.contains_key(former), "{place}");
            }
        }
    }
}
