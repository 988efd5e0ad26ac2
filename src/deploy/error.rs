//! Why a cluster cannot be planned.

use kubexm_render::RenderError;
use kubexm_types::{InvalidValue, Message};

/// Why a cluster cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The bundle does not contain these parts of the cluster.
    #[error("the bundle does not contain everything that this cluster needs; it is missing:\n  {}", .0.join("\n  "))]
    Incomplete(Vec<String>),
    /// Programs of the bundle do not run with the C library of their hosts.
    #[error("{}", Message::from(self))]
    Linking(Vec<String>),
    /// A valid setting of a cluster file that this version cannot install.
    #[error("this version of kubexm cannot install {0}")]
    Unsupported(&'static str),
    /// The cluster's container runtime cannot work in this cluster.
    #[error("{0}")]
    Incompatible(Message),
    /// A template failed.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// kubexm created an invalid path or name.
    #[error(transparent)]
    Value(#[from] InvalidValue),
    /// A password cannot be read.
    #[error(transparent)]
    Secret(#[from] kubexm_types::SecretError),
    /// The password of keepalived is not one that its configuration can contain.
    #[error("{}", Message::from(self))]
    KeepalivedPassword,
    /// A file with values of an application cannot be decrypted.
    #[error("{0}")]
    Encrypted(Message),
    /// kubexm cannot read a file on the controller whose content belongs on the hosts.
    #[error("cannot read {path}: {source}")]
    File {
        path: String,
        source: std::io::Error,
    },
}

impl From<&DeployError> for Message {
    fn from(error: &DeployError) -> Self {
        match error {
            DeployError::Linking(conflicts) => Self::new(format!(
                "these programs of the bundle do not run on their hosts:\n  {}",
                conflicts.join("\n  ")
            ))
            .hint(
                "build a bundle with static programs of these components, or install these hosts with a newer distribution; \
                 `linking` in the lock of the bundle states what each program needs",
            ),
            DeployError::Incompatible(message) | DeployError::Encrypted(message) => message.clone(),
            DeployError::Secret(error) => Self::from(error),
            DeployError::KeepalivedPassword => Self::new(
                "cannot use the password in spec.highAvailability.keepalived: expected 1 to 8 letters and digits",
            )
            .hint("keepalived cuts off a longer password; correct the file or the environment variable"),
            other => Self::new(other.to_string()),
        }
    }
}
