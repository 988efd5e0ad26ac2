//! Filters that templates use.

/// Quotes a text as in JSON. YAML and TOML read the same text.
#[askama::filter_fn]
pub fn quote(value: impl std::fmt::Display, _: &dyn askama::Values) -> askama::Result<String> {
    serde_json::to_string(&value.to_string()).map_err(|_| askama::Error::Fmt)
}

/// Encodes a text in base64, as for certificates in kubeconfigs.
#[askama::filter_fn]
pub fn base64(value: impl std::fmt::Display, _: &dyn askama::Values) -> askama::Result<String> {
    use ::base64::Engine as _;
    Ok(::base64::engine::general_purpose::STANDARD.encode(value.to_string()))
}
