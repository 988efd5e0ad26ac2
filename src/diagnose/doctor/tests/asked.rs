//! What doctor asks an API server.

use std::io::Write;
use std::sync::Mutex;

use async_trait::async_trait;
use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_deploy::objects::Server;
use kubexm_host::{Command, Host, HostError, Limit, Output};

use super::*;

/// A host with an API server.
struct ApiServer {
    name: HostName,
    /// The items of lists by the first words of a question. Others have none.
    items: Vec<(&'static str, Value)>,
    /// The exit status and the complaint of questions that fail.
    failures: Vec<(&'static str, i32, &'static str)>,
    /// The questions, the number of those without an answer yet, and its maximum.
    asked: Mutex<(Vec<String>, usize, usize)>,
}

impl ApiServer {
    fn new(items: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self {
            name: name("node1"),
            items: items.into_iter().collect(),
            failures: Vec::new(),
            asked: Mutex::default(),
        }
    }

    async fn ask(&self, is_of_kubeadm: bool) -> Api {
        let server = Server::of(self).at("https://192.0.2.11:6443");
        Api::ask(server, is_of_kubeadm, NOW).await
    }

    fn asked(&self, words: &str) -> bool {
        let asked = &self.asked.lock().unwrap().0;
        asked.iter().any(|question| question.starts_with(words))
    }

    fn answer(&self, question: &str) -> Result<Output, HostError> {
        let mut output = Output {
            status: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            log: None,
        };
        let mut failures = self.failures.iter();
        match failures.find(|(words, ..)| question.starts_with(words)) {
            Some((_, 124, _)) => {
                return Err(HostError::TimedOut {
                    host: self.name.clone(),
                    command: question.to_owned(),
                    limit: Limit::DEFAULT,
                    output: String::new(),
                });
            }
            Some((_, status, complaint)) => {
                output.status = *status;
                output.stderr = complaint.as_bytes().to_vec();
                output.stdout = b"compressed".to_vec();
                return Ok(output);
            }
            None => {}
        }
        let mut all = self.items.iter();
        let items = all.find(|(words, _)| question.starts_with(words));
        let items = items.map_or(json!([]), |(_, items)| items.clone());
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let list = json!({ "items": items }).to_string();
        encoder.write_all(list.as_bytes()).unwrap();
        output.stdout = encoder.finish().unwrap();
        Ok(output)
    }
}

#[async_trait]
impl Host for ApiServer {
    fn name(&self) -> &HostName {
        &self.name
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        assert!(command.has_secret_output());
        let question = command.into_parts().0.split_off(5).join(" ");
        {
            let (asked, now, most) = &mut *self.asked.lock().unwrap();
            asked.push(question.clone());
            *now += 1;
            *most = (*most).max(*now);
        }
        tokio::task::yield_now().await;
        self.asked.lock().unwrap().1 -= 1;
        self.answer(&question)
    }
}

#[tokio::test]
async fn questions_that_fail_have_a_cause_and_leave_the_others_answered() {
    let slice = json!({
        "metadata": {"namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"conditions": {"ready": false}}, {"conditions": {"ready": true}}],
    });
    let mut server = ApiServer::new([
        ("endpointslices", json!([slice])),
        ("certificatesigningrequests", json!([{"metadata": 1}])),
    ]);
    server.failures = vec![
        (
            "pods -n kube-system",
            1,
            "Warning: old\nUnable to connect\n",
        ),
        ("namespaces", 124, ""),
        ("apiservices", 3, ""),
    ];
    let api = server.ask(true).await;
    assert_eq!(api.dns.err().unwrap(), "Unable to connect");
    assert_eq!(api.namespaces.err().unwrap(), "no answer in 25 s");
    assert_eq!(api.api_services.err().unwrap(), "kubectl ended with 3");
    let invalid = api.requests.err().unwrap();
    assert!(
        invalid.contains("the answer of kubectl is invalid"),
        "{invalid}"
    );
    let services = api.services.unwrap();
    let services: Vec<String> = services.iter().map(|service| service.path()).collect();
    assert_eq!(services, ["shop/web"]);
    assert!(api.pods.unwrap().is_empty() && api.tokens.is_ok() && api.cluster_info.is_ok());
    assert_eq!(server.asked.lock().unwrap().2, 4, "at the same time");
}

#[tokio::test]
async fn only_kubeadm_has_tokens_and_their_secrets_stay_on_the_host() {
    let server = ApiServer::new([]);
    server.ask(true).await;
    let tokens = "secrets -n kube-system --field-selector type=bootstrap.kubernetes.io/token -o go-template=";
    assert!(server.asked(tokens) && server.asked("configmaps -n kube-public"));
    let questions = server.asked.lock().unwrap().0.concat();
    assert!(!questions.contains("token-secret"), "{questions}");
    let server = ApiServer::new([]);
    server.ask(false).await;
    assert!(!server.asked("secrets") && !server.asked("configmaps"));
    // CoreDNS is not asked about its pods that failed.
    assert!(
        server
            .asked("pods -n kube-system -l k8s-app=kube-dns --field-selector status.phase!=Failed")
    );
}

fn pod_of(name: &str, phase: &str, ready: bool, owner: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "shop", "ownerReferences": [owner]});
    let status = json!({"phase": phase, "containerStatuses": [{"ready": ready}]});
    json!({"metadata": metadata, "status": status})
}

fn set(uid: &str) -> Value {
    json!({"kind": "ReplicaSet", "uid": uid})
}

/// Returns the names of the pods that count.
fn names(api: &Api) -> Vec<&str> {
    let pods = api.pods.as_ref().unwrap().iter();
    pods.map(|pod| pod.metadata.name.as_str()).collect()
}

#[tokio::test]
async fn pods_that_failed_do_not_count_if_their_owner_has_a_good_one() {
    let mut sidecar = pod_of("sidecar-ends", "Running", true, set("db"));
    sidecar["status"]["initContainerStatuses"] = json!([{"ready": false}]);
    let mut alone = pod_of("alone", "Failed", false, Value::Null);
    alone["metadata"]["ownerReferences"] = json!([]);
    let node = json!({"kind": "Node", "uid": "node1"});
    let pods = json!([
        pod_of("evicted", "Failed", false, set("web")),
        pod_of("replacement", "Running", true, set("web")),
        pod_of("tried", "Failed", false, set("job")),
        pod_of("done", "Succeeded", false, set("job")),
        pod_of("failing", "Failed", false, set("api")),
        pod_of("starting", "Running", false, set("api")),
        alone,
        sidecar,
        pod_of("static", "Failed", false, node.clone()),
        pod_of("other-static", "Running", true, node),
    ]);
    let server = ApiServer::new([("pods --all-namespaces", pods)]);
    let expected = ["starting", "alone", "sidecar-ends", "static", "failing"];
    assert_eq!(names(&server.ask(false).await), expected);
}

#[tokio::test]
async fn pods_that_failed_do_not_count_if_nothing_replaces_them_any_more() {
    let failed = |name: &str, owner: &str| pod_of(name, "Failed", false, set(owner));
    let pods = json!([
        failed("of-an-earlier-rollout", "old-set"),
        failed("of-this-rollout", "set"),
        failed("of-an-earlier-run", "run-1"),
        failed("of-the-newest-run", "run-3"),
        failed("of-a-single-job", "job"),
    ]);
    let set =
        |uid: &str, replicas: u8| json!({"metadata": {"uid": uid}, "spec": {"replicas": replicas}});
    let run = |uid: &str, hour: u8, owners: Value| {
        let created = format!("2026-01-02T0{hour}:00:00Z");
        json!({"metadata": {"uid": uid, "creationTimestamp": created, "ownerReferences": owners}})
    };
    let cron = json!([{"kind": "CronJob", "uid": "cron"}]);
    let jobs = json!([
        run("run-3", 3, cron.clone()),
        run("run-1", 1, cron.clone()),
        run("run-2", 2, cron),
        run("job", 0, json!([])),
    ]);
    let mut server = ApiServer::new([
        ("pods --all-namespaces", pods),
        ("replicasets", json!([set("old-set", 0), set("set", 2)])),
        ("jobs", jobs),
    ]);
    let expected = ["of-this-rollout", "of-the-newest-run", "of-a-single-job"];
    assert_eq!(names(&server.ask(false).await), expected);
    // Without an answer about the owners, every pod counts.
    server.failures = vec![("replicasets", 1, "refused"), ("jobs", 1, "refused")];
    assert_eq!(names(&server.ask(false).await).len(), 5);
    // Most clusters have no such pod.
    let server = ApiServer::new([]);
    server.ask(false).await;
    assert!(!server.asked("replicasets") && !server.asked("jobs"));
}
