//! Reasons why a registry refuses a push, and what the user can do.

use oci_client::errors::OciDistributionError;

use crate::FetchError;
use crate::response::root_cause;
use kubexm_types::{ImageRef, ShownUrl, Untrusted};

/// Why a registry refused a request.
#[derive(Debug)]
pub(super) enum PushRefusal {
    /// The registry does not accept the content, independent of the user; its message.
    Content(String),
    Other(FetchError),
}

impl PushRefusal {
    /// Whether another attempt may succeed.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Other(
                FetchError::Unreachable { .. }
                    | FetchError::Refused {
                        status: 429 | 500..,
                        ..
                    }
            )
        )
    }
}

impl std::fmt::Display for PushRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content(reason) => f.write_str(reason),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl From<PushRefusal> for FetchError {
    fn from(refusal: PushRefusal) -> Self {
        match refusal {
            PushRefusal::Other(error) => error,
            PushRefusal::Content(reason) => Self::Content {
                what: "the bundle".to_owned(),
                reason: format!("the registry refuses it: {reason}").into(),
            },
        }
    }
}

/// Converts an error of pushing `what` to `place`.
pub(super) fn push_failure(
    what: &str,
    place: &ImageRef,
    error: OciDistributionError,
) -> PushRefusal {
    use OciDistributionError as E;
    let registry = place.registry();
    let (status, reason) = match error {
        E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => (401, String::new()),
        E::ServerError { code, message, .. } => (code, registry_message(&message)),
        E::RequestError(error) if error.status().is_some() => {
            let status = error.status().map_or(0, |status| status.as_u16());
            (status, String::new())
        }
        E::SpecViolationError(reason) => return PushRefusal::Content(reason),
        other => {
            return PushRefusal::Other(FetchError::Unreachable {
                what: what.to_owned(),
                url: ShownUrl::of_text(&place.to_string()),
                reason: root_cause(&other).into(),
            });
        }
    };
    let hint = match status {
        401 | 403 => {
            format!("log in with `docker login {registry}` as a user with permission to push")
        }
        404 => "create the project or repository first; some registries require it".to_owned(),
        405 => "the registry does not accept pushes: it may be read-only or a mirror".to_owned(),
        413 => "raise the size limit of the registry or of a proxy in front of it".to_owned(),
        429 => "too many requests: try again later".to_owned(),
        500.. => "the registry failed repeatedly: check its log and its disk space".to_owned(),
        _ => return PushRefusal::Content(format!("status {status}{reason}")),
    };
    PushRefusal::Other(FetchError::Refused {
        what: what.to_owned(),
        url: ShownUrl::of_text(&place.to_string()),
        status,
        hint: format!("{hint}{reason}"),
    })
}

/// Returns the message of a registry's error, shortened and escaped for a terminal.
fn registry_message(message: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(message).unwrap_or_default();
    let error = &value["errors"][0];
    let reason = error["message"].as_str().or(error["code"].as_str());
    let reason = Untrusted::one_line(reason.unwrap_or_default(), 200);
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}
