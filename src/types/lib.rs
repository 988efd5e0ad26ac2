//! Values that every other crate uses, each a type that refuses what is not valid: digests, versions,
//! architectures, image references, host names and addresses, host paths, labels, flags, keys; the [`message`]s and [`event`]s that commands emit.
//! [`redacted`] removes secrets from texts of others.

pub mod arch;
pub mod artifact;
pub mod atomic_file;
pub mod authority;
pub mod cluster_identity;
pub mod debian_version;
pub mod digest;
pub mod disk_failure;
mod error_kind;
pub mod event;
pub mod finding_kind;
mod flag;
pub mod glibc_version;
pub mod hook_name;
pub mod host_address;
pub mod host_name;
pub mod host_path;
pub mod image;
pub mod image_path;
pub mod interface_name;
pub mod kernel_module;
pub mod kernel_setting;
mod kinds;
pub mod label;
pub mod line;
pub mod login_url;
pub mod message;
pub mod name_server;
pub mod path_prefix;
pub mod public_key;
pub mod redacted;
pub mod release_name;
pub mod rpm_version;
pub mod secret;
pub mod shown_url;
pub mod signature_policy;
pub mod time_zone;
pub mod untrusted;
pub mod user_name;
pub mod utc_time;
pub mod verifying_key;
pub mod version;
mod warning_kind;

pub use arch::Arch;
pub use atomic_file::{AtomicFile, remove_if_exists, write_atomic};
pub use authority::Authority;
pub use cluster_identity::{ClusterId, ClusterIdentity};
pub use digest::{Digest, DigestReader, DigestWriter};
pub use error_kind::ErrorKind;
pub use finding_kind::FindingKind;
pub use flag::{FeatureGate, FlagName, FlagValue};
pub use glibc_version::GlibcVersion;
pub use hook_name::HookName;
pub use host_address::{CertificateName, HostAddress};
pub use host_name::HostName;
pub use host_path::HostPath;
pub use image::ImageRef;
pub use image_path::{FieldPath, ImagePath, ObjectKind};
pub use interface_name::InterfaceName;
pub use kernel_module::KernelModule;
pub use kernel_setting::{KernelSetting, KernelValue};
pub use label::{LabelKey, LabelValue};
pub use line::Line;
pub use login_url::{LoginUrl, without_login};
pub use message::{Hint, Message};
pub use name_server::NameServer;
pub use path_prefix::strip_path_prefix;
pub use public_key::PublicKey;
pub use release_name::{HandlerName, Namespace, ReleaseName};
pub use secret::{Secret, SecretError};
pub use shown_url::ShownUrl;
pub use time_zone::TimeZone;
pub use untrusted::Untrusted;
pub use user_name::UserName;
pub use utc_time::UtcTime;
pub use verifying_key::VerifyingKey;
pub use version::Version;
pub use warning_kind::WarningKind;

/// A value that does not have the form of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} '{value}': {reason}")]
pub struct InvalidValue {
    /// The kind of the value: "digest", "host name".
    pub what: &'static str,
    /// The first 120 characters of the value.
    pub value: String,
    /// The expected form.
    pub reason: String,
}

impl InvalidValue {
    /// Creates an error that shows at most the first 120 characters of `value`.
    pub fn new(what: &'static str, value: &str, reason: impl Into<String>) -> Self {
        // Untrusted input may be megabytes long.
        let shown: String = value.chars().take(120).collect();
        Self {
            what,
            value: shown,
            reason: reason.into(),
        }
    }
}

/// Implements `FromStr`, `Serialize` and `Deserialize` for a type with `parse` and `Display`.
#[macro_export]
macro_rules! string_value {
    ($type:ty) => {
        impl std::str::FromStr for $type {
            type Err = $crate::InvalidValue;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Implements `as_str`, `Display`, and what [`string_value!`] implements, for a tuple struct around a `String` with `parse`.
#[macro_export]
macro_rules! text_value {
    ($type:ty) => {
        impl $type {
            /// Returns the value as it was parsed.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        $crate::string_value!($type);
    };
}
