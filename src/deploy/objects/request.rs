//! Requests for certificates.

use serde::Deserialize;

use super::{Condition, Metadata};

/// A CertificateSigningRequest.
#[derive(Deserialize)]
pub struct Request {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: RequestSpec,
    #[serde(default)]
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
}

impl Request {
    /// Returns whether the request is neither approved nor denied.
    pub fn is_open(&self) -> bool {
        self.status.conditions.is_empty()
    }
}
