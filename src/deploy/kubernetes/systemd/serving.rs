//! Certificates of the kubelets' servers: requests that belong are approved, others are told.
//!
//! A kubelet asks for its server's certificate by itself, with a key that never leaves its host, and
//! again in the last third of the certificate's year. Nothing in a cluster approves such requests
//! (<https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/>), since only
//! the one who made the nodes knows which names are theirs: so every install does, and a cluster
//! wants one in the last 30 days of each year, as its other certificates do. Where it comes later,
//! `kubectl logs` and `exec` fail until then and pods run on.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use serde::Deserialize;

use kubexm_engine::plan::{Action, Describe, Step, StepError};
use kubexm_engine::{Command, Host};
use kubexm_pki::request;
use kubexm_pki::request::Entitled;
use kubexm_scripts::kubernetes as scripts;
use kubexm_types::HostName;

/// Approves what kubelets of the cluster ask for, until the API server reaches each of them.
pub(super) struct ApproveServing {
    /// All nodes.
    pub(super) nodes: Vec<Node>,
}

/// A node and what its server may be called.
pub(super) struct Node {
    pub(super) name: HostName,
    pub(super) entitled: Entitled,
}

const PAUSE: Duration = Duration::from_millis(500);
const AT_MOST: Duration = Duration::from_secs(120);
/// What the cluster says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Nodes that the API server cannot reach, with the reason.
    missed: Vec<String>,
    /// Requests to approve, by name.
    belong: Vec<String>,
    /// Requests that nobody is entitled to, with the reason.
    strange: Vec<String>,
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
    async fn look(&self, host: &dyn Host) -> Result<Seen, StepError> {
        let names = self.nodes.iter().map(|node| node.name.to_string());
        let command = Command::from_script(scripts::SERVING_LOOK, names);
        let action = "look at nodes' servers";
        let output = host.run(command.describe(action)).await?;
        let text = StepError::unless_done(action, output)?.text();
        self.read(&text)
            .map_err(|reason| StepError::Other(format!("{action}: {reason}")))
    }

    fn read(&self, text: &str) -> Result<Seen, String> {
        let (reports, requests) = text
            .split_once("requests\n")
            .ok_or_else(|| "kubectl's answer was cut off".to_owned())?;
        let list: List = serde_json::from_str(requests)
            .map_err(|error| format!("kubectl's list of requests cannot be read: {error}"))?;
        let mut seen = Seen::default();
        for node in &self.nodes {
            let reached = format!("reached {}", node.name);
            if !reports.lines().any(|line| line == reached) {
                let missed = format!("missed {} ", node.name);
                let reason = reports.lines().find_map(|line| line.strip_prefix(&missed));
                let reason = reason.unwrap_or("no answer");
                seen.missed.push(format!("{}: {reason}", node.name));
            }
        }
        // Whatever is approved, denied or failed has been decided on.
        let pending = list
            .items
            .iter()
            .filter(|item| item.status.conditions.is_empty());
        for item in pending {
            match self.judge(&item.spec) {
                Ok(()) => seen.belong.push(item.metadata.name.clone()),
                Err(reason) => {
                    let name = &item.metadata.name;
                    seen.strange
                        .push(format!("{name} of {}: {reason}", item.spec.username));
                }
            }
        }
        Ok(seen)
    }

    /// Whether the requestor is a node of the cluster that asks for its own server's certificate.
    fn judge(&self, request: &Request) -> Result<(), String> {
        let mut nodes = self.nodes.iter();
        let node = nodes
            .find(|node| node.entitled.common_name == request.username)
            .ok_or("is no node of this cluster")?;
        let may = ["digital signature", "key encipherment", "server auth"];
        let serves = request.usages.iter().any(|usage| usage == "server auth");
        if !serves
            || !request
                .usages
                .iter()
                .all(|usage| may.contains(&usage.as_str()))
        {
            return Err(format!("asks for the usages {}", request.usages.join(", ")));
        }
        let pem = base64::engine::general_purpose::STANDARD
            .decode(&request.request)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or("is not PEM in base64")?;
        request::judge(&pem, &node.entitled)
    }
}

impl Describe for ApproveServing {
    fn id(&self) -> String {
        "kubelets' server certificates".to_owned()
    }

    fn describe(&self) -> String {
        "Approve the kubelets' server certificates".to_owned()
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
            let seen = match self.look(host).await {
                Ok(seen) => seen,
                // An API server that comes back has not answered yet.
                Err(error) if error.is_loss_of_host() || began.elapsed() >= AT_MOST => {
                    return Err(error);
                }
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            if !seen.belong.is_empty() {
                let command = Command::from_script(scripts::SERVING_APPROVE, seen.belong);
                let output = host.run(command.describe(self.describe())).await?;
                StepError::unless_done(&self.describe(), output)?;
                continue;
            }
            if seen.missed.is_empty() {
                return Ok(());
            }
            if began.elapsed() >= AT_MOST {
                return Err(StepError::Other(complaint(&seen)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn complaint(seen: &Seen) -> String {
    let mut text = format!(
        "the API server cannot call the kubelet of\n  {}",
        seen.missed.join("\n  ")
    );
    if !seen.strange.is_empty() {
        text.push_str("\nThese requests for certificates were not approved:\n  ");
        text.push_str(&seen.strange.join("\n  "));
    }
    text.push_str("\nSee journalctl -u kubelet there, and kubectl get csr.");
    text
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

    /// A request as the API server tells of it.
    fn item(name: &str, user: &str, cn: &str, usages: &[&str], decided: bool) -> serde_json::Value {
        let mut params = rcgen::CertificateParams::new(vec!["node1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let subject = &mut params.distinguished_name;
        subject.push(rcgen::DnType::OrganizationName, "system:nodes");
        subject.push(rcgen::DnType::CommonName, cn);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let conditions = match decided {
            true => serde_json::json!([{"type": "Approved"}]),
            false => serde_json::json!([]),
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
    fn only_what_a_node_asks_for_itself_is_approved() {
        let (one, two) = ("system:node:node1", "system:node:node2");
        let server = ["digital signature", "server auth"];
        let list = serde_json::json!({"items": [
            item("own", one, one, &server, false),
            item("done", one, one, &server, true),
            item("for-another", two, one, &server, false),
            item("stranger", "system:node:node9", one, &server, false),
            item("somebody", "kubernetes-admin", one, &server, false),
            item("client-too", one, one, &["client auth", "server auth"], false),
            item("no-server", one, one, &["digital signature"], false),
        ]});
        let text = format!("reached node1\nmissed node2 remote error: tls\nrequests\n{list}");
        let seen = step().read(&text).unwrap();
        assert_eq!(seen.belong, ["own"]);
        assert_eq!(seen.missed, ["node2: remote error: tls"]);
        assert_eq!(seen.strange.len(), 5, "{:?}", seen.strange);
        insta::assert_snapshot!(complaint(&seen), @"
        the API server cannot call the kubelet of
          node2: remote error: tls
        These requests for certificates were not approved:
          for-another of system:node:node2: is for the subject 'O=system:nodes, CN=system:node:node1'
          stranger of system:node:node9: is no node of this cluster
          somebody of kubernetes-admin: is no node of this cluster
          client-too of system:node:node1: asks for the usages client auth, server auth
          no-server of system:node:node1: asks for the usages digital signature
        See journalctl -u kubelet there, and kubectl get csr.
        ");
    }

    #[test]
    fn half_an_answer_is_none() {
        assert!(step().read("reached node1\nreached node2\n").is_err());
        assert!(step().read("requests\n{\"items\": [{}]}").is_err());
    }
}
