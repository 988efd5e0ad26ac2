//! Requests for certificates.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubexm_engine::plan::StepError;
use kubexm_engine::{Command, Host, Input, Limit};
use kubexm_scripts::kubernetes::{APPROVE, CREATE};
use kubexm_types::Message;
use serde::Deserialize;
use serde_json::Value;

use super::{Condition, Metadata, Polls, Server, change, delete};

/// How long the controller manager may take to sign a request.
const SIGNED: Duration = Duration::from_secs(30);

/// A CertificateSigningRequest.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Request {
    pub metadata: Metadata,
    pub spec: RequestSpec,
    status: RequestStatus,
}

/// What a request is for.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestSpec {
    pub signer_name: String,
    /// The user that created the request.
    pub username: String,
}

#[derive(Deserialize, Default)]
struct RequestStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
    /// PEM, as base64; empty before it is signed.
    #[serde(default)]
    certificate: String,
}

impl Request {
    /// Returns whether the request is neither approved nor denied.
    pub fn is_open(&self) -> bool {
        self.status.conditions.is_empty()
    }
}

/// Lets the cluster sign a request of this name, and removes the request. Kubernetes removes the one of a run that was killed.
/// Returns the certificate, PEM.
///
/// # Errors
/// The API server refuses, or the controller manager does not sign.
pub async fn sign(
    host: &dyn Host,
    what: &str,
    name: &str,
    request: &Value,
) -> Result<String, StepError> {
    let none: [&str; 0] = [];
    let create = Command::from_script(CREATE, none).describe(what);
    let create = create.input(Input::Bytes(request.to_string().into_bytes()));
    StepError::unless_done(what, host.run(create.limit(Limit::CHANGE)).await?)?;
    let signed = signed(host, what, name).await;
    let removed = delete(host, what, ["csr", name].map(str::to_owned)).await;
    let certificate = signed?;
    removed?;
    let pem = STANDARD.decode(certificate).ok();
    let pem = pem.and_then(|pem| String::from_utf8(pem).ok());
    pem.ok_or_else(|| {
        StepError::Other(Message::new("the answer is not a certificate").within(what))
    })
}

async fn signed(host: &dyn Host, what: &str, name: &str) -> Result<String, StepError> {
    change(host, APPROVE, what, [name]).await?;
    let mut certificate = String::new();
    let polls = Polls::at_most(SIGNED);
    loop {
        let missing = unsigned(host, what, name, &mut certificate).await;
        if !polls.go_on(missing).await? {
            return Ok(certificate);
        }
    }
}

/// Sets the certificate of a request, or returns why there is none yet.
async fn unsigned(
    host: &dyn Host,
    what: &str,
    name: &str,
    certificate: &mut String,
) -> Result<Option<Message>, StepError> {
    let found: Option<Request> = Server::of(host).find(what, &["csr", name]).await?;
    let status = found.unwrap_or_default().status;
    if !status.certificate.is_empty() {
        *certificate = status.certificate;
        return Ok(None);
    }
    let seconds = SIGNED.as_secs();
    let mut text =
        format!("the controller manager did not sign the request within {seconds} seconds");
    for condition in status.conditions {
        text.push_str(": ");
        text.push_str(&condition.message);
    }
    let hint = "look at the kube-controller-manager, which signs certificates";
    Ok(Some(Message::quoting(text).hint(hint).within(what)))
}
