//! Simulated hosts of an installed cluster. They learn what an install wrote and which checks it satisfied. A later plan
//! then finds these checks satisfied, and every other check not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_engine::plan::{Check, Plan, Step, StepContext, StepError, UndoLog};
use kubexm_host::{Command, Host, HostError, Input, Output};
use kubexm_scripts::{
    applications, etcd, host, kubeadm, kubernetes, load_balancer, os, registry, steps,
};
use kubexm_types::HostName;
use kubexm_types::event::Events;
use serde_json::{Map, Value, json};

use super::generated;

/// What the API has of a node.
#[derive(Default)]
struct Node {
    labels: Map<String, Value>,
    taints: Vec<Value>,
    annotations: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    /// Digest, mode and owners of files, as `file-look.sh` prints them.
    files: BTreeMap<String, String>,
    /// Directories that kubexm created.
    folders: BTreeSet<String>,
    /// The blocks of kubexm in files of others.
    blocks: BTreeMap<String, String>,
    /// Commands that found the desired state.
    satisfied: BTreeSet<Vec<String>>,
    /// Files that a later install has changed.
    changed: BTreeSet<String>,
    /// What kubeadm would generate, by scope.
    generated: BTreeMap<String, Value>,
}

/// The ConfigMaps with settings of the cluster.
const STORES: [&str; 3] = ["kubeadm-config", "kubelet-config", "kube-proxy"];

/// What the check of the settings for later nodes prints.
pub const STORED: &str = "the ConfigMap kubeadm-config has other settings";

/// The beginnings of the paths of files that a step of their own removes.
const REMOVED: [&str; 2] = [
    "/etc/kubexm/patches/",
    "/etc/kubernetes/manifests/kube-vip-services.yaml",
];

/// What the check of files of earlier installs prints before their paths.
pub const FORMER: &str = "files of an earlier install stay on this host:";

/// The nodes in the API of the cluster.
type Api = Arc<Mutex<BTreeMap<String, Node>>>;

/// A host.
struct Machine {
    name: HostName,
    state: Mutex<State>,
    api: Api,
    /// Whether the install is still running.
    learns: Mutex<bool>,
    /// The arguments of the commands since the last call of [`Machine::asked`].
    asked: Mutex<Vec<String>>,
}

/// How a step finds a host.
pub enum Found {
    /// The step would change the host, for this reason.
    Needed(String),
    /// The step reports this, and changes nothing.
    Reported(String),
}

/// A step that does not find the state that it describes.
pub struct Difference {
    pub host: HostName,
    /// The id of the step, as in `file /etc/hosts`.
    pub step: String,
    /// The files that the step writes.
    pub files: Vec<String>,
    pub found: Found,
}

/// A plan, compared with hosts.
#[derive(Default)]
pub struct Compared {
    pub differences: Vec<Difference>,
    /// Files and directories that no step writes any more, by host.
    pub former: BTreeMap<HostName, BTreeSet<String>>,
    /// The arguments of all checks of a host, apart from those of steps that write files.
    pub read: BTreeMap<HostName, BTreeSet<String>>,
}

/// All hosts of a cluster.
pub struct Installed {
    hosts: BTreeMap<HostName, Arc<Machine>>,
    api: Api,
}

/// A receipt without records.
struct NoLog;

#[async_trait]
impl UndoLog for NoLog {
    async fn record(&self, _: &str, _: Value) -> Result<(), StepError> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Installed {
    /// Installs a plan on simulated hosts.
    pub async fn by(plan: &Plan) -> Self {
        let mut installed = Self {
            hosts: BTreeMap::new(),
            api: Api::default(),
        };
        installed.provide_values(plan, true).await;
        for task in &plan.tasks {
            let host = installed.host(&task.host, true);
            let context = StepContext {
                host: host.as_ref(),
                undo: &NoLog,
                events: &Events::silent(),
            };
            for step in &task.steps {
                if let Step::Ensure(step) = step {
                    // Transfers of the bundle fail, because its content is not there.
                    let _ = step.apply(&context).await;
                    let _ = step.check(host.as_ref()).await;
                }
            }
        }
        for host in installed.hosts.values() {
            *lock(&host.learns) = false;
        }
        installed
    }

    /// Compares another plan with the hosts.
    pub async fn compare(&mut self, plan: &Plan) -> Compared {
        self.provide_values(plan, false).await;
        let mut compared = Compared::default();
        for task in &plan.tasks {
            let host = self.host(&task.host, false);
            for step in &task.steps {
                let Step::Ensure(ensure) = step else { continue };
                host.asked();
                let check = ensure.check(host.as_ref()).await;
                let files = step.files();
                let files: Vec<String> = files.iter().map(|file| file.path.to_string()).collect();
                // These steps compare files, and read none for a program.
                let compares = ["former files", "etcd ca of the api server"];
                if files.is_empty() && !compares.contains(&step.id().as_str()) {
                    let read = compared.read.entry(task.host.clone()).or_default();
                    read.extend(host.asked());
                }
                if matches!(check, Ok(Check::Needed { .. })) {
                    lock(&host.state).changed.extend(files.iter().cloned());
                }
                let found = match check {
                    Ok(Check::Satisfied) => continue,
                    Ok(Check::Reported(text)) => Found::Reported(text.to_string()),
                    Ok(Check::Needed { reason, .. }) => Found::Needed(reason),
                    // A value that only a real cluster has.
                    Err(StepError::Missing(value)) => Found::Needed(value.to_owned()),
                    Err(error) => panic!("{}: {}: {error}", task.id(), step.id()),
                };
                compared.differences.push(Difference {
                    host: task.host.clone(),
                    step: step.id(),
                    files,
                    found,
                });
            }
        }
        for (name, host) in &self.hosts {
            let tasks = plan.tasks.iter().filter(|task| task.host == *name);
            let steps: Vec<&Step> = tasks.flat_map(|task| &task.steps).collect();
            let files = steps.iter().flat_map(|step| step.files());
            let files = files.map(|file| file.path);
            let folders = steps.iter().flat_map(|step| step.directories());
            let planned: BTreeSet<String> =
                files.chain(folders).map(|path| path.to_string()).collect();
            let state = lock(&host.state);
            let former = state.files.keys().chain(&state.folders);
            let former = former.filter(|path| !planned.contains(*path) && !is_removed(path));
            compared
                .former
                .insert(name.clone(), former.cloned().collect());
        }
        compared
    }

    /// Runs the actions that read values from hosts.
    async fn provide_values(&mut self, plan: &Plan, learns: bool) {
        for task in &plan.tasks {
            let host = self.host(&task.host, learns);
            for step in &task.steps {
                if let Step::Action(action) = step
                    && !action.provides().is_empty()
                {
                    // The secrets of joins are not there. Nothing on a node that exists depends on them.
                    let _ = action.run(host.as_ref()).await;
                }
            }
        }
    }

    fn host(&mut self, name: &HostName, learns: bool) -> Arc<Machine> {
        let machine = || {
            Arc::new(Machine {
                name: name.clone(),
                state: Mutex::default(),
                api: Arc::clone(&self.api),
                learns: Mutex::new(learns),
                asked: Mutex::default(),
            })
        };
        Arc::clone(self.hosts.entry(name.clone()).or_insert_with(machine))
    }
}

/// Returns the revisions of releases that a question asks for: those of one release, or of all.
fn releases(generated: &BTreeMap<String, Value>, words: &[String]) -> Vec<Value> {
    let releases = generated
        .iter()
        .filter(|(key, _)| key.starts_with("release "));
    let is_asked = |release: &Value| {
        let of = |key: &str| release[key].as_str().unwrap_or_default();
        let selector = format!("owner=helm,name={}", of("release"));
        words.iter().any(|word| word == "-A")
            || words.contains(&selector) && words.iter().any(|word| word == of("namespace"))
    };
    releases
        .map(|(_, release)| release.clone())
        .filter(is_asked)
        .collect()
}

/// Returns the value of a named parameter.
fn named<'a>(arguments: &'a [String], name: &str) -> &'a str {
    let mut pairs = arguments.iter().filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(found, _)| *found == name)
        .map_or("", |(_, value)| value)
}

impl Machine {
    /// Returns the arguments of the commands since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// Returns exit status and output of a script.
    fn answer(&self, text: &str, arguments: &[String], input: Input) -> (i32, String) {
        let learns = *lock(&self.learns);
        let mut state = lock(&self.state);
        let first = arguments.first().cloned().unwrap_or_default();
        let known = [vec![text.to_owned()], arguments.to_vec()].concat();
        match text {
            _ if text == host::UPLOAD.text => {
                let digest = first_line(input);
                let owner = match named(arguments, "owner") {
                    "" => "root",
                    owner => owner,
                };
                let (user, group) = owner.split_once(':').unwrap_or((owner, "root"));
                let user = if user.is_empty() { "root" } else { user };
                let number = if user == "root" { 0 } else { 999 };
                let mode = named(arguments, "mode");
                let found = format!("{digest} {mode} {number} {group} {user}\n");
                state
                    .files
                    .insert(named(arguments, "path").to_owned(), found);
                (0, String::new())
            }
            _ if text == steps::FILE_LOOK.text => {
                let found = state.files.get(&first).cloned();
                (0, found.unwrap_or_else(|| "absent\n".to_owned()))
            }
            _ if text == steps::BLOCK_EDIT.text => {
                state.blocks.insert(first, arguments[2].clone());
                (0, String::new())
            }
            _ if text == steps::BLOCK_STATE.text => (0, "absent\n".to_owned()),
            // No member of etcd is without a host, and none restarts.
            _ if text == etcd::RESTARTS.text => (0, String::new()),
            _ if text == etcd::ASK.text => (0, r#"{"members":[]}"#.to_owned()),
            _ if text.contains("system.manageHostsFile") => {
                if state.blocks.is_empty() {
                    (0, String::new())
                } else {
                    (78, "system.manageHostsFile is not applied".to_owned())
                }
            }
            _ if text.contains("# kubexm begin") && text != os::TIME_SERVERS.text => {
                (0, state.blocks.get(&first).cloned().unwrap_or_default())
            }
            _ if text == steps::INSTALL_LOOK.text => {
                let is_new = !learns && !state.satisfied.contains(&known);
                if learns {
                    state.satisfied.insert(known);
                }
                (0, if is_new { "0\n" } else { "" }.to_owned())
            }
            _ if text == kubernetes::GET.text => {
                let list = |items: Vec<Value>| json!({"items": items}).to_string();
                let found = match &arguments[1..] {
                    [what] if what == "nodes" => list(self.nodes()),
                    [kind, name, ..] if kind == "deployment" && name == "coredns" => {
                        let replicas = state.generated.get("replicas");
                        json!({"spec": {"replicas": replicas.unwrap_or(&json!(2))}}).to_string()
                    }
                    [kind, name, ..] if kind == "configmap" && STORES.contains(&&**name) => {
                        let mark = state.generated.get(&format!("mark {name}"));
                        let annotations = json!({"kubexm.io/settings": mark.unwrap_or(&json!(""))});
                        json!({"metadata": {"annotations": annotations}}).to_string()
                    }
                    [kind, name, ..] if kind == "daemonset" && name == "kube-proxy" => {
                        json!({"metadata": {"name": name}}).to_string()
                    }
                    [kind, words @ ..]
                        if kind == "secrets"
                            && words.iter().any(|word| word.starts_with("owner=helm")) =>
                    {
                        list(releases(&state.generated, words))
                    }
                    [_, name, _, namespace, ..]
                        if state
                            .generated
                            .contains_key(&format!("values {namespace}/{name}")) =>
                    {
                        let values = &state.generated[&format!("values {namespace}/{name}")];
                        let stored = json!({"config": values});
                        let packed = STANDARD.encode(compressed(&stored.to_string()));
                        json!({"release": STANDARD.encode(packed)}).to_string()
                    }
                    [.., last] if last == "--ignore-not-found" => String::new(),
                    _ => list(Vec::new()),
                };
                (0, found)
            }
            _ if text == kubernetes::PATCH.text && STORES.contains(&&*arguments[1]) => {
                let patch = arguments.last().map(String::as_str).unwrap_or_default();
                let patch: Value = serde_json::from_str(patch).unwrap();
                let mark = patch["metadata"]["annotations"]["kubexm.io/settings"].clone();
                let name = format!("mark {}", arguments[1]);
                state.generated.insert(name, mark);
                (0, String::new())
            }
            _ if text == kubernetes::PATCH.text && arguments[1] == "coredns" => {
                let patch = arguments.last().map(String::as_str).unwrap_or_default();
                let patch: Value = serde_json::from_str(patch).unwrap();
                let replicas = patch["spec"]["replicas"].clone();
                state.generated.insert("replicas".to_owned(), replicas);
                (0, String::new())
            }
            _ if text == steps::RECEIVE_INPUT.text
                && arguments[1] == applications::RELEASE.text =>
            {
                let [name, namespace] = ["name", "namespace"].map(|key| named(arguments, key));
                let labels = named(arguments, "labels");
                let mut labels = labels.split(',').filter_map(|label| label.split_once('='));
                let content = labels.find(|(key, _)| *key == "kubexm.io/content");
                let revision = json!({
                    "secret": name, "release": name, "namespace": namespace, "revision": "1",
                    "status": "deployed", "content": content.map(|(_, digest)| digest),
                });
                let key = format!("release {namespace}/{name}");
                state.generated.insert(key, revision);
                let values = serde_json::from_str(&first_line(input)).unwrap();
                let key = format!("values {namespace}/{name}");
                state.generated.insert(key, values);
                (0, String::new())
            }
            _ if text == kubernetes::NODE_METADATA.text => {
                self.change_nodes(arguments);
                (0, String::new())
            }
            _ if text == kubeadm::SETTINGS.text && first == "look" => {
                let (scope, file) = match named(arguments, "phase") {
                    "kubelet-start" => ("kubelet", "config.yaml"),
                    "etcd local" => ("etcd", "etcd.yaml"),
                    _ => ("control-plane", "kube-apiserver.yaml"),
                };
                let wanted = generated::files(scope, named(arguments, "config"));
                if learns {
                    state.generated.insert(scope.to_owned(), wanted.clone());
                }
                let present = state.generated.get(scope).unwrap_or(&Value::Null);
                let live = format!("{}/{file}", named(arguments, "path"));
                let files = [(file, &wanted), (&*live, present)].map(|(path, value)| {
                    // As a flag of etcd.
                    let content = format!("- --{value}\n");
                    format!("{path} {}\n{content}", content.len())
                });
                (0, files.concat())
            }
            _ if text == kubeadm::CLUSTER_SETTINGS.text => (0, String::new()),
            // The digest of a hook is not an argument.
            _ if text == os::HOOK.text && first == "check" => {
                let hook = format!("hook {}", named(arguments, "name"));
                let digest = json!(first_line(input));
                if learns {
                    state.generated.insert(hook, digest);
                    return (0, String::new());
                }
                if state.generated.get(&hook) == Some(&digest) {
                    (0, String::new())
                } else {
                    (1, "has not run on this host".to_owned())
                }
            }
            _ if text == load_balancer::INTERFACE.text => (0, "eth0\n".to_owned()),
            _ if text.contains("ip -o link show") => (0, "eth0\neth1\n".to_owned()),
            _ if text == steps::MISSING_PATHS.text => {
                let missing = arguments
                    .iter()
                    .filter(|path| !state.folders.contains(*path));
                (0, missing.map(|path| format!("{path}\n")).collect())
            }
            _ if text == steps::DIRECTORY_CREATE.text => {
                let folders = arguments.chunks(2).map(|pair| pair[0].clone());
                state.folders.extend(folders);
                (0, String::new())
            }
            _ if text == steps::FORMER_FILES.text => {
                let written = state.files.keys().chain(&state.folders);
                let left: Vec<&str> = written
                    .filter(|path| !arguments.contains(path) && !is_removed(path))
                    .map(String::as_str)
                    .collect();
                // A report has a largest number of lines.
                let lines: Vec<String> = left.chunks(5).map(|some| some.join(" ")).collect();
                if left.is_empty() {
                    (0, String::new())
                } else {
                    (78, format!("{FORMER}\n{}", lines.join("\n")))
                }
            }
            _ if text == kubeadm::ETCD_CA.text => {
                if state.changed.contains(&arguments[1]) {
                    (78, "etcd.external.caFile is not applied".to_owned())
                } else {
                    (0, String::new())
                }
            }
            _ if text == kubeadm::KUBE_PROXY.text => {
                // kubeadm deploys it only once.
                let wanted = json!(arguments[1]);
                if learns {
                    state.generated.insert("kube-proxy".to_owned(), wanted);
                    return (0, String::new());
                }
                if state.generated.get("kube-proxy") == Some(&wanted) {
                    (0, String::new())
                } else {
                    (
                        78,
                        "kubernetes.kubeadm.skipPhases.init is not applied".to_owned(),
                    )
                }
            }
            // The content of the bundle is not part of the settings.
            _ if text == registry::LIST.text => (0, String::new()),
            _ if learns => {
                state.satisfied.insert(known);
                (0, String::new())
            }
            _ if state.satisfied.contains(&known) => (0, String::new()),
            _ => (1, "differs".to_owned()),
        }
    }

    fn nodes(&self) -> Vec<Value> {
        let mut api = lock(&self.api);
        for name in ["node1", "node2", "node3"] {
            api.entry(name.to_owned()).or_default();
        }
        let object = |(at, (name, node)): (usize, (&String, &Node))| {
            let address = json!({"type": "InternalIP", "address": format!("192.0.2.1{}", at + 1)});
            let metadata =
                json!({"name": name, "labels": node.labels, "annotations": node.annotations});
            json!({
                "metadata": metadata,
                "spec": {"taints": node.taints, "podCIDRs": [format!("10.244.{at}.0/24")]},
                "status": {"addresses": [address]},
            })
        };
        api.iter().enumerate().map(object).collect()
    }

    /// Applies changes as kubectl does.
    fn change_nodes(&self, arguments: &[String]) {
        let mut api = lock(&self.api);
        for change in arguments.chunks(3) {
            let [what, name, changes] = change else {
                continue;
            };
            let node = api.entry(name.clone()).or_default();
            for change in changes.split_whitespace() {
                let (key, value) = change.split_once('=').unwrap_or((change, ""));
                match what.as_str() {
                    "label" => drop(node.labels.insert(key.to_owned(), json!(value))),
                    "annotate" => drop(node.annotations.insert(key.to_owned(), value.to_owned())),
                    _ if change.ends_with('-') => {}
                    _ => {
                        let (rest, effect) = change.rsplit_once(':').unwrap();
                        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
                        let mut taint = json!({"key": key, "effect": effect});
                        if !value.is_empty() {
                            taint["value"] = json!(value);
                        }
                        node.taints.push(taint);
                    }
                }
            }
        }
    }
}

fn is_removed(path: &str) -> bool {
    REMOVED.iter().any(|beginning| path.starts_with(beginning))
}

fn first_line(input: Input) -> String {
    let mut text = Vec::new();
    match input {
        Input::None => {}
        Input::Bytes(bytes) => text = bytes,
        Input::Stream(mut stream) => drop(stream.read_to_end(&mut text)),
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[async_trait]
impl Host for Machine {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let description = command.description();
        let (argv, input) = command.into_parts();
        // `sh -euc TEXT kubexm ARGUMENTS…`
        let arguments = argv.get(4..).unwrap_or_default();
        // `config=/etc/…` is a named parameter.
        let value = |argument: &String| match argument.split_once("=/") {
            Some((_, path)) => format!("/{path}"),
            None => argument.clone(),
        };
        lock(&self.asked).extend(arguments.iter().map(value));
        let text = argv.get(2).map_or("", String::as_str);
        let (mut status, stdout) = self.answer(text, arguments, input);
        if description.starts_with("read /") {
            // The content of a file that differs.
            status = 0;
        }
        Ok(Output {
            status,
            stdout: if text == kubernetes::GET.text {
                compressed(&stdout)
            } else {
                stdout.into_bytes()
            },
            stderr: Vec::new(),
            log: None,
        })
    }
}
