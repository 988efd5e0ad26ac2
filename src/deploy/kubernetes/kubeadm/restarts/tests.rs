use std::sync::Mutex;

use super::super::losing_host::{Lost, is_killed, run};
use super::*;
use crate::fake_host::words;
use kubexm_engine::plan::TaskName;
use kubexm_types::HostName;

const MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

/// When files changed, and when containers started before and after that, in seconds since 1970.
const CHANGED: u64 = 100;
const BEFORE: u64 = 50;
const AFTER: u64 = 101;

/// A control plane. Its kubelet starts a program again that has ended.
struct ControlPlane {
    name: HostName,
    /// Name, ID, and when they started.
    running: Mutex<Vec<(String, String, u64)>>,
    /// IDs of ended containers.
    ended: Mutex<Vec<String>>,
    /// Whether the API server serves its new certificate.
    serves: bool,
    /// Whether the container runtime answers.
    answers: bool,
    /// Whether commands exceed their limit.
    hangs: bool,
    /// After how many further looks the kubelet starts programs.
    starts_after: usize,
    looks: Mutex<usize>,
}

impl ControlPlane {
    fn new(programs: &[&str]) -> Self {
        let former = |name: &&str| ((*name).to_owned(), format!("{name}-1"), BEFORE);
        Self {
            name: "node1".parse().unwrap(),
            running: Mutex::new(programs.iter().map(former).collect()),
            ended: Mutex::default(),
            serves: true,
            answers: true,
            hangs: false,
            starts_after: 1,
            looks: Mutex::default(),
        }
    }

    fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().clone()
    }

    /// Lets the kubelet start what has ended.
    fn start(&self) {
        let mut running = self.running.lock().unwrap();
        for id in self.ended.lock().unwrap().iter() {
            let name = id.trim_end_matches("-1");
            if !running.iter().any(|(other, _, _)| other == name) {
                running.push((name.to_owned(), format!("{name}-2"), AFTER));
            }
        }
    }

    /// Returns what a command prints; `None` if it fails.
    fn answer(&self, words: &[&str]) -> Option<String> {
        match words {
            ["look", files @ ..] => {
                let mut looks = self.looks.lock().unwrap();
                *looks += 1;
                if *looks > self.starts_after {
                    *looks = 0;
                    self.start();
                }
                let times = files.iter().map(|_| format!("{CHANGED}\n"));
                let running = self.running.lock().unwrap();
                let containers = running
                    .iter()
                    .map(|(name, id, created)| json(name, id, *created));
                let containers: Vec<String> = containers.collect();
                self.answers
                    .then(|| format!("{}{}", times.collect::<String>(), list(&containers)))
            }
            ["stop", containers @ ..] => {
                let mut running = self.running.lock().unwrap();
                for id in containers {
                    running.retain(|(_, other, _)| other != id);
                    self.ended.lock().unwrap().push((*id).to_owned());
                }
                Some(String::new())
            }
            ["serves"] => self.serves.then(String::new),
            ["logs", names @ ..] => Some(format!("the logs of {}", names.join(", "))),
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a container of a static pod as crictl prints it.
fn json(name: &str, id: &str, created: u64) -> String {
    of_pod(&format!("{name}-node1"), name, id, created)
}

fn of_pod(pod: &str, name: &str, id: &str, created: u64) -> String {
    format!(
        r#"{{"id": "{id}", "metadata": {{"name": "{name}", "attempt": 0}}, "createdAt": "{created}999999999",
            "labels": {{"io.kubernetes.pod.name": "{pod}"}}}}"#
    )
}

fn list(containers: &[String]) -> String {
    format!("{{\n  \"containers\": [{}]\n}}\n", containers.join(","))
}

#[async_trait]
impl Host for ControlPlane {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let host = self.name.clone();
        if self.hangs {
            return Err(HostError::TimedOut {
                host,
                command: command.description(),
                limit: ANSWER,
                output: "the last line".to_owned(),
            });
        }
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let printed = self.answer(&words);
        let complaint = if printed.is_none() { "no runtime" } else { "" };
        Ok(Output {
            status: i32::from(printed.is_none()),
            stdout: printed.unwrap_or_default().into_bytes(),
            stderr: complaint.into(),
            log: None,
        })
    }
}

fn task() -> Task {
    TaskName::new("certificates", "renew").task(&"node1".parse().unwrap())
}

fn host() -> HostName {
    "node1".parse().unwrap()
}

fn files() -> Vec<String> {
    vec!["/a".to_owned(), "/b".to_owned()]
}

#[test]
fn program_is_new_if_it_started_after_all_its_files() {
    let programs = Programs(vec![("etcd", files()), (SCHEDULER, Vec::new())]);
    let reasons = |times: &str, containers: &[(&str, u64)]| {
        let containers = containers.iter();
        let containers: Vec<String> = containers
            .map(|(name, created)| json(name, "1", *created))
            .collect();
        programs
            .outdated(&host(), &format!("{times}{}", list(&containers)))
            .map(|outdated| super::reasons(&outdated))
    };
    let found = |etcd: &[u64]| {
        let etcd = etcd.iter().map(|created| ("etcd", *created));
        let all: Vec<(&str, u64)> = etcd.chain([(SCHEDULER, 1)]).collect();
        reasons("99\n100\n", &all).unwrap()
    };
    assert_eq!(found(&[101]), "");
    let former = "etcd started before its files changed";
    assert_eq!(found(&[50, 101]), former);
    // Times of files have whole seconds.
    assert_eq!(found(&[100]), former);
    assert_eq!(found(&[]), "no container of etcd runs");
    let other = reasons("99\n100\n", &[("etcd", 101), ("etcd-backup", 1)]);
    assert_eq!(other.unwrap(), "no container of kube-scheduler runs");
    assert!(reasons("99\n", &[]).is_err());
    for text in ["", "99\n100\n", "99\n100\n{}\n"] {
        assert!(programs.outdated(&host(), text).is_err(), "{text}");
    }
}

/// A user can have pods in kube-system whose containers have these names.
#[test]
fn containers_of_other_pods_do_not_count() {
    let programs = Programs(vec![("etcd", files())]);
    let own = json("etcd", "1", AFTER);
    for pod in [
        "etcd-backup-node1",
        "etcd-7d4b9",
        "etcd-node2",
        "my-etcd-node1",
    ] {
        let other = of_pod(pod, "etcd", "2", BEFORE);
        let printed = format!("99\n{CHANGED}\n{}", list(&[own.clone(), other]));
        let outdated = programs.outdated(&host(), &printed).unwrap();
        assert_eq!(outdated, [], "{pod}");
    }
}

/// After a kill between the writes of two manifests, nothing restarts the pod of the first one again.
#[test]
fn each_pod_of_a_program_is_compared_with_its_own_manifest() {
    let of = |name: &'static str| (name, vec![format!("/{name}.yaml")]);
    let programs = Programs(vec![of("kube-vip"), of("kube-vip-services")]);
    let reasons = |endpoint: u64, services: u64| {
        let containers = [
            of_pod("kube-vip-node1", "kube-vip", "1", endpoint),
            of_pod("kube-vip-services-node1", "kube-vip", "2", services),
        ];
        let printed = format!("100\n200\n{}", list(&containers));
        super::reasons(&programs.outdated(&host(), &printed).unwrap())
    };
    assert_eq!(reasons(101, 201), "");
    assert_eq!(
        reasons(101, 101),
        "kube-vip-services started before its files changed"
    );
}

#[tokio::test(start_paused = true)]
async fn programs_end_once_in_their_order() {
    let programs = Programs(vec![(API_SERVER, files()), ("etcd", files())]);
    let task = programs.restart("programs", "Restart programs", task());
    let host = ControlPlane::new(&["etcd", API_SERVER]);
    for _ in 0..2 {
        run(&task, &host).await.unwrap();
        assert_eq!(host.ended(), ["kube-apiserver-1", "etcd-1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn controller_manager_runs_again_before_the_scheduler_ends() {
    let mut host = ControlPlane::new(&[API_SERVER, MANAGER, SCHEDULER]);
    // Its kubelet does not start the controller manager.
    host.starts_after = usize::MAX;
    let error = run(&after_renewal(task()), &host).await.unwrap_err();
    insta::assert_snapshot!(error, @"
    Wait until these use their new files: kube-controller-manager: the condition does not hold after 360 seconds: no container of kube-controller-manager runs
    the logs of kube-controller-manager
    hint: the lines above are what the host reports; remove the cause, then run the same command again: it continues with this condition
    ");
    assert_eq!(host.ended(), ["kube-controller-manager-1"]);
}

#[tokio::test(start_paused = true)]
async fn no_program_restarts_while_the_api_server_does_not_serve_its_new_certificate() {
    let mut host = ControlPlane::new(&[API_SERVER, MANAGER, SCHEDULER]);
    host.serves = false;
    let error = run(&after_renewal(task()), &host).await.unwrap_err();
    insta::assert_snapshot!(error, @"
    Wait until these use their new files: kube-apiserver: the condition does not hold after 360 seconds: kube-apiserver is not ready with its new certificate
    the logs of kube-apiserver
    hint: the lines above are what the host reports; remove the cause, then run the same command again: it continues with this condition
    ");
    assert!(host.ended().is_empty());
}

/// Kills a renewal before and after each of its commands.
#[tokio::test(start_paused = true)]
async fn interrupted_renewal_goes_on_and_restarts_nothing_twice() {
    for how in [Lost::Before, Lost::After] {
        for starts_after in 0..4 {
            let mut kills = 0;
            loop {
                let mut host = ControlPlane::new(&[API_SERVER, MANAGER, SCHEDULER]);
                host.starts_after = starts_after;
                if !is_killed(&after_renewal(task()), &host, kills, how).await {
                    break;
                }
                kills += 1;
                run(&after_renewal(task()), &host).await.unwrap();
                let expected = ["kube-controller-manager-1", "kube-scheduler-1"];
                assert_eq!(host.ended(), expected, "{how:?} command {kills}");
            }
            assert!(kills > 6, "{kills}");
        }
    }
}

#[tokio::test]
async fn runtime_without_an_answer_is_not_one_without_containers() {
    let programs = Programs(vec![(SCHEDULER, files())]);
    let end = EndPrograms {
        id: "end",
        title: "Restart",
        programs: programs.clone(),
    };
    let wait = ProgramsRestarted {
        id: "wait",
        programs,
    };
    let unmet = |missing: &str| Condition::Unmet(missing.to_owned());
    let mut host = ControlPlane::new(&[]);
    let runs_none = unmet("no container of kube-scheduler runs");
    assert_eq!(wait.poll(&host).await.unwrap(), runs_none);
    assert_eq!(end.check(&host).await.unwrap(), Check::Satisfied);
    host.answers = false;
    let silent = unmet("cannot list the running containers: no runtime");
    assert_eq!(wait.poll(&host).await.unwrap(), silent);
    let error = end.check(&host).await.unwrap_err().to_string();
    let expected = "list the running containers failed (exit status 1):\nno runtime";
    assert_eq!(error, expected);
    host.hangs = true;
    let late = unmet("no answer within 60 seconds\nthe last line");
    assert_eq!(wait.poll(&host).await.unwrap(), late);
}
