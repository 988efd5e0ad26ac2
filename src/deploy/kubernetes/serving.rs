//! Serving certificates of kubelets: valid requests are approved, others are reported.
//!
//! A kubelet requests its serving certificate with a key that stays on its host. The certificate is valid for one
//! year, and the kubelet renews it in the last third. No program in a cluster approves such requests
//! (<https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/>), because only kubexm
//! knows the names of the nodes. Every install approves them, so a cluster needs an install in the last 30 days
//! of each year. If the certificate expires, `kubectl logs` and `exec` fail until the next install; pods continue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use serde::Deserialize;

use kubexm_engine::plan::{Action, Describe, Step, StepError};
use kubexm_engine::{Command, Host};
use kubexm_pki::request;
use kubexm_pki::request::Entitled;
use kubexm_scripts::kubernetes as scripts;
use kubexm_types::{HostName, Message, Untrusted};

use kubexm_config::cluster::HostSpec;
use kubexm_pki::kubernetes::node_user;

/// Approves the requests of kubelets until the API server can connect to each of them.
pub(super) struct ApproveServing {
    nodes: Vec<Node>,
}

/// A node, and the names that its serving certificate may contain.
pub(super) struct Node {
    name: HostName,
    entitled: Entitled,
}

impl ApproveServing {
    /// Returns the step for these nodes.
    pub(super) fn of(hosts: &[&HostSpec]) -> Self {
        let nodes = hosts.iter().map(|host| Node {
            name: host.name.clone(),
            entitled: entitled(host),
        });
        Self {
            nodes: nodes.collect(),
        }
    }
}

/// Returns the names that the serving certificate of a node may contain: its name, and its addresses in the cluster.
fn entitled(host: &HostSpec) -> Entitled {
    Entitled {
        common_name: node_user(&host.name),
        organization: "system:nodes".to_owned(),
        names: vec![host.name.to_string()],
        addresses: host.internal_addresses.iter().collect(),
    }
}

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum time until the API server must connect to every kubelet.
const AT_MOST: Duration = Duration::from_secs(120);

/// The state of the kubelets and their requests.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    /// Nodes that the API server cannot connect to, with the reason.
    unreachable: BTreeMap<HostName, String>,
    /// Names of valid requests.
    valid: Vec<String>,
    /// Invalid requests, with the reason.
    invalid: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    spec: Request,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Request {
    request: String,
    username: String,
    #[serde(default)]
    usages: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<serde_json::Value>,
}

impl ApproveServing {
    async fn query(&self, host: &dyn Host) -> Result<State, StepError> {
        let names = self.nodes.iter().map(|node| node.name.to_string());
        let command = Command::from_script(scripts::SERVING_LOOK, names);
        let action = "check the kubelets of the nodes";
        let output = host.run(command.describe(action)).await?;
        let text = StepError::unless_done(action, output)?.text();
        self.parse(&text)
            .map_err(|reason| StepError::Other(format!("{action}: {reason}").into()))
    }

    fn parse(&self, text: &str) -> Result<State, String> {
        let (reports, requests) = text
            .split_once("requests\n")
            .ok_or_else(|| "the output of kubectl is incomplete".to_owned())?;
        let list: List = serde_json::from_str(requests)
            .map_err(|error| format!("the list of requests from kubectl is invalid: {error}"))?;
        let mut state = State::default();
        for node in &self.nodes {
            let reached = format!("reached {}", node.name);
            if !reports.lines().any(|line| line == reached) {
                let missed = format!("missed {} ", node.name);
                let reason = reports.lines().find_map(|line| line.strip_prefix(&missed));
                let reason = Untrusted::one_line(reason.unwrap_or("no answer"), 300);
                let reason = reason.to_string();
                state.unreachable.insert(node.name.clone(), reason);
            }
        }
        // A request with a condition is already approved, denied or failed.
        let pending = list
            .items
            .iter()
            .filter(|item| item.status.conditions.is_empty());
        for item in pending {
            match self.check(&item.spec) {
                Ok(()) => state.valid.push(item.metadata.name.clone()),
                Err(reason) => {
                    let name = &item.metadata.name;
                    state
                        .invalid
                        .push(format!("{name} of {}: {reason}", item.spec.username));
                }
            }
        }
        Ok(state)
    }

    /// Checks that the requestor is a node of the cluster that requests its own serving certificate.
    fn check(&self, request: &Request) -> Result<(), String> {
        let mut nodes = self.nodes.iter();
        let node = nodes
            .find(|node| node.entitled.common_name == request.username)
            .ok_or("the user is not a node of this cluster")?;
        let allowed = ["digital signature", "key encipherment", "server auth"];
        let serves = request.usages.iter().any(|usage| usage == "server auth");
        if !serves
            || !request
                .usages
                .iter()
                .all(|usage| allowed.contains(&usage.as_str()))
        {
            return Err(format!("requests the usages {}", request.usages.join(", ")));
        }
        let pem = base64::engine::general_purpose::STANDARD
            .decode(&request.request)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or("is not PEM in base64")?;
        request::check(&pem, &node.entitled)
    }
}

impl Describe for ApproveServing {
    fn id(&self) -> String {
        "kubelet serving certificates".to_owned()
    }

    fn describe(&self) -> String {
        "Approve the serving certificates of kubelets".to_owned()
    }
}

impl From<ApproveServing> for Step {
    fn from(step: ApproveServing) -> Self {
        Self::Action(Box::new(step))
    }
}

#[async_trait]
impl Action for ApproveServing {
    async fn run(&self, host: &dyn Host) -> Result<(), StepError> {
        let began = Instant::now();
        loop {
            let state = match self.query(host).await {
                Ok(state) => state,
                // An API server that restarts does not answer yet.
                Err(error) if error.is_loss_of_host() || began.elapsed() >= AT_MOST => {
                    return Err(error);
                }
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if !state.valid.is_empty() {
                let command = Command::from_script(scripts::APPROVE, state.valid);
                let output = host.run(command.describe(self.describe())).await?;
                StepError::unless_done(&self.describe(), output)?;
                continue;
            }
            if state.unreachable.is_empty() {
                return Ok(());
            }
            if began.elapsed() >= AT_MOST {
                return Err(failure(state));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn failure(state: State) -> StepError {
    let nodes = state.unreachable.iter();
    let nodes: Vec<String> = nodes
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect();
    let mut text = format!(
        "the API server cannot connect to the kubelets of these nodes:\n  {}",
        nodes.join("\n  ")
    );
    if !state.invalid.is_empty() {
        text.push_str("\nthese certificate signing requests are invalid:\n  ");
        text.push_str(&state.invalid.join("\n  "));
    }
    let hosts = state.unreachable.into_iter();
    let reason = "the API server cannot connect to its kubelet";
    StepError::OtherHosts {
        hosts: hosts
            .map(|(name, cause)| (name, format!("{reason}: {cause}")))
            .collect(),
        message: Message::new(text)
            .hint("run `journalctl -u kubelet` on these nodes, and `kubectl get csr`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> ApproveServing {
        let node = |number: u8| Node {
            name: format!("node{number}").parse().unwrap(),
            entitled: Entitled {
                common_name: format!("system:node:node{number}"),
                organization: "system:nodes".to_owned(),
                names: vec![format!("node{number}")],
                addresses: vec![[192, 0, 2, 10 + number].into()],
            },
        };
        ApproveServing {
            nodes: vec![node(1), node(2)],
        }
    }

    /// Returns a request as the API server lists it.
    fn item(name: &str, user: &str, cn: &str, usages: &[&str], decided: bool) -> serde_json::Value {
        let mut params = rcgen::CertificateParams::new(vec!["node1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let subject = &mut params.distinguished_name;
        subject.push(rcgen::DnType::OrganizationName, "system:nodes");
        subject.push(rcgen::DnType::CommonName, cn);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let conditions = if decided {
            serde_json::json!([{"type": "Approved"}])
        } else {
            serde_json::json!([])
        };
        serde_json::json!({
            "metadata": {"name": name},
            "spec": {
                "request": base64::engine::general_purpose::STANDARD.encode(pem),
                "username": user,
                "usages": usages,
            },
            "status": {"conditions": conditions},
        })
    }

    #[test]
    fn only_requests_of_nodes_for_themselves_are_valid() {
        let (one, two) = ("system:node:node1", "system:node:node2");
        let server = ["digital signature", "server auth"];
        let list = serde_json::json!({"items": [
            item("own", one, one, &server, false),
            item("done", one, one, &server, true),
            item("for-another", two, one, &server, false),
            item("unknown-node", "system:node:node9", one, &server, false),
            item("other-user", "kubernetes-admin", one, &server, false),
            item("client-too", one, one, &["client auth", "server auth"], false),
            item("no-server", one, one, &["digital signature"], false),
        ]});
        let text = format!("reached node1\nmissed node2 remote error: tls\nrequests\n{list}");
        let state = step().parse(&text).unwrap();
        assert_eq!(state.valid, ["own"]);
        let node2: HostName = "node2".parse().unwrap();
        let unreachable = BTreeMap::from([(node2.clone(), "remote error: tls".to_owned())]);
        assert_eq!(state.unreachable, unreachable);
        assert_eq!(state.invalid.len(), 5, "{:?}", state.invalid);
        let failure = failure(state);
        let StepError::OtherHosts { hosts, .. } = &failure else {
            panic!("{failure}");
        };
        let reason = "the API server cannot connect to its kubelet: remote error: tls";
        assert_eq!(hosts, &BTreeMap::from([(node2, reason.to_owned())]));
        insta::assert_snapshot!(failure, @"
        the API server cannot connect to the kubelets of these nodes:
          node2: remote error: tls
        these certificate signing requests are invalid:
          for-another of system:node:node2: has the subject 'O=system:nodes, CN=system:node:node1'
          unknown-node of system:node:node9: the user is not a node of this cluster
          other-user of kubernetes-admin: the user is not a node of this cluster
          client-too of system:node:node1: requests the usages client auth, server auth
          no-server of system:node:node1: requests the usages digital signature
        hint: run `journalctl -u kubelet` on these nodes, and `kubectl get csr`
        ");
    }

    #[test]
    fn incomplete_output_is_an_error() {
        assert!(step().parse("reached node1\nreached node2\n").is_err());
        assert!(step().parse("requests\n{\"items\": [{}]}").is_err());
    }
}
