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
