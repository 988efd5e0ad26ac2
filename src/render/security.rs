//! Files of the API server for `spec.security`.

use askama::Template;

use super::filters;

/// A key of encryption.
pub struct Key {
    pub name: String,
    /// 32 bytes in base64. Secret.
    pub secret: String,
}

/// A provider of encryption with its keys.
pub struct Provider {
    pub name: &'static str,
    /// Never empty.
    pub keys: Vec<Key>,
}

/// An EncryptionConfiguration for Secrets.
#[derive(Template)]
#[template(path = "kubernetes/encryption.yaml")]
pub struct Encryption {
    /// Whether the first provider encrypts. Otherwise the API server writes plain text.
    pub writes: bool,
    pub providers: Vec<Provider>,
}

/// An AdmissionConfiguration with defaults of Pod Security and limits for events.
#[derive(Template)]
#[template(path = "kubernetes/admission.yaml")]
pub struct Admission<'a> {
    /// Namespaces without Pod Security.
    pub namespaces: Vec<&'a str>,
}
