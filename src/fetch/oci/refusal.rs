//! From the registry client's errors to kubexm's: what was wanted, where, what it means.

use oci_client::Reference;
use oci_client::errors::OciDistributionError;

use crate::fetch::FetchError;
use crate::spec::ImageRef;

/// What an error of the registry client means to the user.
pub(super) fn failure(
    name: &ImageRef,
    reference: &Reference,
    error: OciDistributionError,
) -> FetchError {
    use OciDistributionError as E;
    let (what, url) = (name.to_string(), reference.to_string());
    let refused = |status: u16, hint: &str| FetchError::Refused {
        what: what.clone(),
        url: url.clone(),
        status,
        hint: hint.to_owned(),
    };
    match error {
        E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => refused(
            401,
            "the image does not exist there, or `docker login` is needed",
        ),
        E::ImageManifestNotFoundError(_) => refused(404, "there is no such image or tag"),
        E::ServerError { code: 429, .. } => {
            refused(429, "too many requests; wait, or use a mirror")
        }
        E::ServerError { code, .. } => {
            refused(code, "the registry failed; try later, or use a mirror")
        }
        E::RegistryError { envelope, .. } => {
            let words = envelope.to_string();
            if words.contains("TOOMANYREQUESTS")
                || words.to_lowercase().contains("too many requests")
            {
                refused(429, "too many requests; wait, or use a mirror")
            } else {
                refused(404, words.trim())
            }
        }
        E::RequestError(error) if error.status().is_some() => {
            let status = error.status().map_or(0, |status| status.as_u16());
            refused(status, "the registry refuses")
        }
        E::DigestError(error) => FetchError::Content {
            what,
            reason: error.to_string(),
        },
        other => FetchError::Unreachable {
            what,
            url,
            reason: root_cause(&other),
        },
    }
}

/// Whether a registry refuses to go on from the middle of a blob. Some wrap that in an envelope of
/// their own, which says nothing about the status.
pub(super) fn may_be_about_the_range(error: &OciDistributionError) -> bool {
    use OciDistributionError as E;
    matches!(
        error,
        E::ServerError { code: 416, .. } | E::RegistryError { .. }
    )
}

/// Whether another try may help.
pub(super) fn is_passing(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::Unreachable { .. }
            | FetchError::Refused {
                status: 429 | 500..,
                ..
            }
    )
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Why a registry did not take something.
#[derive(Debug)]
pub(super) enum PushRefusal {
    /// It does not take what was sent, whoever sends it: its words.
    Content(String),
    /// Anything else.
    Other(FetchError),
}

impl PushRefusal {
    /// Whether another try may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Other(error) if is_passing(error))
    }
}

impl std::fmt::Display for PushRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content(words) => f.write_str(words),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl From<PushRefusal> for FetchError {
    fn from(refusal: PushRefusal) -> Self {
        match refusal {
            PushRefusal::Other(error) => error,
            PushRefusal::Content(words) => Self::Content {
                what: "the bundle".to_owned(),
                reason: format!("the registry does not take it: {words}"),
            },
        }
    }
}

/// What an error means to somebody who pushes `what` to `place`.
pub(super) fn push_failure(
    what: &str,
    place: &ImageRef,
    error: OciDistributionError,
) -> PushRefusal {
    use OciDistributionError as E;
    let registry = place.registry();
    let (status, words) = match error {
        E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => (401, String::new()),
        E::ServerError { code, message, .. } => (code, words_of(&message)),
        E::RequestError(error) if error.status().is_some() => {
            let status = error.status().map_or(0, |status| status.as_u16());
            (status, String::new())
        }
        E::SpecViolationError(words) => return PushRefusal::Content(words),
        other => {
            return PushRefusal::Other(FetchError::Unreachable {
                what: what.to_owned(),
                url: place.to_string(),
                reason: root_cause(&other),
            });
        }
    };
    let hint = match status {
        401 | 403 => {
            format!("you may not push there; `docker login {registry}` as somebody who may")
        }
        404 => {
            "there is no such project or repository; some registries want it made first".to_owned()
        }
        405 => "the registry takes nothing: is it read-only, or a mirror?".to_owned(),
        413 => "too large for the registry, or for a proxy before it: raise its limit".to_owned(),
        429 => "too many requests; try again later".to_owned(),
        500.. => {
            "the registry failed again and again; look into its log (is its disk full?)".to_owned()
        }
        _ => return PushRefusal::Content(format!("status {status}{words}")),
    };
    PushRefusal::Other(FetchError::Refused {
        what: what.to_owned(),
        url: place.to_string(),
        status,
        hint: format!("{hint}{words}"),
    })
}

/// The words of a registry's error, short and fit to be printed.
fn words_of(message: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(message).unwrap_or_default();
    let error = &value["errors"][0];
    let words = error["message"].as_str().or(error["code"].as_str());
    let words: String = words
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    match words.is_empty() {
        true => String::new(),
        false => format!(": {words}"),
    }
}
