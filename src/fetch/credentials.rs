//! Credentials for registries.

use std::collections::BTreeMap;

/// User and password by registry, from Docker's `config.json`.
pub fn of_docker() -> BTreeMap<String, (String, String)> {
    use base64::Engine;
    let folder = std::env::var_os("DOCKER_CONFIG")
        .map(std::path::PathBuf::from)
        .or_else(|| {
            std::env::var_os("HOME").map(|home| std::path::PathBuf::from(home).join(".docker"))
        });
    let config = folder.and_then(|folder| std::fs::read(folder.join("config.json")).ok());
    let config: serde_json::Value = config
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let mut credentials = BTreeMap::new();
    for (host, entry) in config["auths"].as_object().into_iter().flatten() {
        let host = host
            .trim_start_matches("https://")
            .trim_end_matches("/v1/")
            .trim_end_matches('/');
        let host = if host == "index.docker.io" {
            "docker.io"
        } else {
            host
        };
        let decoded = entry["auth"]
            .as_str()
            .and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((user, password)) = decoded.as_deref().and_then(|pair| pair.split_once(':')) {
            credentials.insert(host.to_owned(), (user.to_owned(), password.to_owned()));
        }
    }
    credentials
}
