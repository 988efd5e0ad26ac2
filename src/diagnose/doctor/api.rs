//! What `doctor` asks an API server, with the fields that checks read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::needs::{self, Need};
use kubexm_deploy::objects::{
    Condition, ConfigMap, EndpointSlice, Metadata, Object, Pod, Request, Server, Service, Webhook,
};
use kubexm_engine::plan::StepError;
use kubexm_host::{HostError, Limit};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

/// How long an answer may take.
const LIMIT: Limit = Limit::new(Duration::from_secs(25), "a question to the API server");
/// The most questions at the same time. sshd permits 10 sessions of a connection, and some sites permit fewer.
const PARALLEL: usize = 4;
/// The most objects of an answer that checks look at: users decide how many there are, and each can be a finding.
const MOST: usize = 200;
/// Prints of bootstrap tokens when they end. The other fields of such a Secret must not leave the host: one of them is the part
/// of the token that is secret. kubectl prints whole objects if a template fails, as at an index of data that are missing.
const TOKENS: &str = r#"go-template={"items":[{{range $at, $token := .items}}{{if $at}},{{end}}{"metadata":{"name":"{{.metadata.name}}","creationTimestamp":"{{.metadata.creationTimestamp}}"},"data":{ {{with .data}}"expiration":"{{.expiration}}","usage-bootstrap-signing":"{{index . "usage-bootstrap-signing"}}"{{end}} }}{{end}}]}"#;

/// The objects of an answer, or why there is none.
pub(super) type Answer<T> = Result<Vec<T>, String>;

/// What an API server answered.
pub(super) struct Api {
    /// The clock of its host, in seconds since 1970.
    pub(super) now: i64,
    /// Pods that are not ready.
    pub(super) pods: Answer<Pod>,
    /// The pods of CoreDNS.
    pub(super) dns: Answer<Pod>,
    /// Requests that are neither approved nor denied.
    pub(super) requests: Answer<Request>,
    /// APIs that have a backend.
    pub(super) api_services: Answer<ApiService>,
    pub(super) webhooks: Answer<Webhooks>,
    /// Services with an endpoint that is ready.
    pub(super) services: Answer<Service>,
    /// Namespaces that are being deleted.
    pub(super) namespaces: Answer<Namespace>,
    /// The tokens with which nodes join; none without kubeadm.
    pub(super) tokens: Answer<Token>,
    /// The ConfigMap `cluster-info`, if it exists; none without kubeadm.
    pub(super) cluster_info: Answer<ConfigMap>,
    /// Classes, and objects that need something else in the cluster.
    pub(super) needs: Answer<Need>,
}

/// An API that a program of the cluster provides.
#[derive(Deserialize)]
pub(super) struct ApiService {
    pub(super) metadata: Metadata,
    pub(super) spec: ApiServiceSpec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Deserialize)]
pub(super) struct ApiServiceSpec {
    pub(super) service: Option<Service>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Status {
    pub(super) conditions: Vec<Condition>,
}

#[derive(Deserialize)]
pub(super) struct Namespace {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) status: Status,
}

/// A configuration of webhooks.
#[derive(Deserialize)]
pub(super) struct Webhooks {
    pub(super) kind: String,
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) webhooks: Vec<Webhook>,
}

/// A bootstrap token. The values are base64.
#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) metadata: Metadata,
    pub(super) data: TokenData,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct TokenData {
    pub(super) expiration: String,
    pub(super) usage_bootstrap_signing: String,
}

#[derive(Deserialize)]
struct ReplicaSet {
    metadata: Metadata,
    spec: ReplicaSetSpec,
}

#[derive(Deserialize)]
struct ReplicaSetSpec {
    replicas: Option<u32>,
}

impl Api {
    /// Asks an API server.
    pub(super) async fn ask(server: Server<'_>, is_of_kubeadm: bool, now: i64) -> Self {
        let asking = Asking {
            server: server.limit(LIMIT),
            turns: Semaphore::new(PARALLEL),
        };
        let of_kubeadm = async {
            if !is_of_kubeadm {
                return (Ok(Vec::new()), Ok(Vec::new()));
            }
            let of_type = "type=bootstrap.kubernetes.io/token";
            let tokens = [
                "secrets",
                "-n",
                "kube-system",
                "--field-selector",
                of_type,
                "-o",
                TOKENS,
            ];
            let name = "metadata.name=cluster-info";
            let info = ["configmaps", "-n", "kube-public", "--field-selector", name];
            tokio::join!(
                asking.some(&tokens, |_| true),
                asking.some(&info, |info: &ConfigMap| !info.data.is_empty())
            )
        };
        // CoreDNS is not asked about its pods that failed.
        let dns = [
            "pods",
            "-n",
            "kube-system",
            "-l",
            "k8s-app=kube-dns",
            "--field-selector",
            "status.phase!=Failed",
        ];
        let webhooks = ["validatingwebhookconfigurations,mutatingwebhookconfigurations"];
        let (pods, dns, requests, api_services, webhooks, services, namespaces, needs, of_kubeadm) = tokio::join!(
            asking.pods(),
            asking.all(&dns),
            asking.some(&["certificatesigningrequests"], Request::is_open),
            asking.some(&["apiservices"], |api: &ApiService| api
                .spec
                .service
                .is_some()),
            asking.some(&webhooks, |_| true),
            asking.services(),
            asking.some(&["namespaces"], |one: &Namespace| one
                .metadata
                .deletion_timestamp
                .is_some()),
            asking.some(&needs::WORDS, Need::counts),
            of_kubeadm,
        );
        let (tokens, cluster_info) = of_kubeadm;
        Self {
            now,
            pods,
            dns,
            requests,
            api_services,
            webhooks,
            services,
            namespaces,
            tokens,
            cluster_info,
            needs,
        }
    }
}

/// Questions to an API server. One that fails leaves the others answered.
struct Asking<'a> {
    server: Server<'a>,
    turns: Semaphore,
}

impl Asking<'_> {
    async fn all<T: DeserializeOwned>(&self, words: &[&str]) -> Answer<T> {
        let _turn = self.turns.acquire().await;
        let answer = self.server.list(words[0], words).await.map_err(cause);
        if let Err(cause) = &answer {
            tracing::debug!(
                question = words.join(" "),
                cause,
                "no answer of the API server"
            );
        }
        answer
    }

    /// Returns objects that checks look at.
    async fn some<T: DeserializeOwned>(
        &self,
        words: &[&str],
        is_one: impl Fn(&T) -> bool,
    ) -> Answer<T> {
        let all = self.all(words).await?.into_iter();
        Ok(all.filter(is_one).take(MOST).collect())
    }

    async fn services(&self) -> Answer<Service> {
        let slices = self.all(&["endpointslices", "--all-namespaces"]).await?;
        let slices = slices.into_iter();
        Ok(slices.filter_map(EndpointSlice::ready).collect())
    }

    async fn pods(&self) -> Answer<Pod> {
        let mut pods = unready(self.all(&["pods", "--all-namespaces"]).await?);
        // Most clusters have no such pod, and need no more questions.
        if pods.iter().any(|pod| failed_owner(pod).is_some()) {
            let (sets, jobs) = tokio::join!(
                self.all(&["replicasets", "--all-namespaces"]),
                self.all(&["jobs", "--all-namespaces"])
            );
            // Without an answer about the owners, every pod counts.
            let past = past_owners(&sets.unwrap_or_default(), jobs.unwrap_or_default());
            pods.retain(|pod| failed_owner(pod).is_none_or(|owner| !past.contains(owner)));
        }
        pods.truncate(MOST);
        Ok(pods)
    }
}

/// Returns the last line of what kubectl said, or what else is why a question has no answer.
fn cause(error: StepError) -> String {
    match error {
        StepError::Command {
            status, complaint, ..
        } => match complaint.as_str().lines().last() {
            Some(line) => line.to_owned(),
            None => format!("kubectl ended with {status}"),
        },
        StepError::Host(HostError::TimedOut { .. }) => {
            format!("no answer in {} s", LIMIT.seconds())
        }
        other => other.to_string(),
    }
}

/// Returns what creates a pod again. Static pods, whose owner is a node, have no replacement.
fn owner(pod: &Pod) -> Option<&str> {
    let mut owners = pod.metadata.owner_references.iter();
    let owner = owners.find(|owner| owner.kind != "Node")?;
    Some(owner.uid.as_str())
}

/// Returns the owner of a pod that failed.
fn failed_owner(pod: &Pod) -> Option<&str> {
    owner(pod).filter(|_| pod.status.phase == "Failed")
}

/// Returns the pods that are not ready, those that failed last. A controller leaves a pod that failed, as one that was evicted,
/// beside the one that replaces it: such a pod only counts if its owner has no pod that is ready or has succeeded.
fn unready(pods: Vec<Pod>) -> Vec<Pod> {
    let is_well = |pod: &Pod| match pod.status.phase.as_str() {
        "Succeeded" => true,
        "Running" => pod.containers().all(|container| container.ready),
        _ => false,
    };
    let (well, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(is_well);
    let well: BTreeSet<&str> = well.iter().filter_map(owner).collect();
    let others = others.into_iter();
    let mut others: Vec<_> = others
        .filter(|pod| failed_owner(pod).is_none_or(|owner| !well.contains(owner)))
        .collect();
    others.sort_by_key(|pod| failed_owner(pod).is_some());
    others
}

/// Returns the owners that want no pod any more: ReplicaSets of earlier rollouts, and Jobs of a CronJob that has a newer one. They
/// keep their pods that failed, and nothing replaces these.
fn past_owners(sets: &[ReplicaSet], mut jobs: Vec<Object>) -> BTreeSet<String> {
    let sets = sets.iter().filter(|set| set.spec.replicas == Some(0));
    let mut past: BTreeSet<String> = sets.map(|set| set.metadata.uid.clone()).collect();
    jobs.sort_by_key(|job| job.metadata.creation_timestamp);
    let mut newest = BTreeMap::new();
    for Object { metadata: job } in jobs {
        let owners = job.owner_references.iter();
        if let Some(run) = owners.clone().find(|owner| owner.kind == "CronJob") {
            past.extend(newest.insert(run.uid.clone(), job.uid));
        }
    }
    past
}
