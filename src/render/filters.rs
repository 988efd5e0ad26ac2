//! Filters that templates use.

/// Quotes a text as JSON does, which YAML and TOML read as the same text.
#[askama::filter_fn]
pub fn quote(value: impl std::fmt::Display, _: &dyn askama::Values) -> askama::Result<String> {
    serde_json::to_string(&value.to_string()).map_err(|_| askama::Error::Fmt)
}
