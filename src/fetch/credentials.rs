//! Credentials for registries where `docker login` stores them: in Docker's `config.json`, or in the
//! credential helper that it names
//! (<https://docs.docker.com/reference/cli/docker/login/#credential-helper-protocol>).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Docker Hub's key in `config.json`.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";
/// The user name that credential helpers return for an identity token.
const IDENTITY_USER: &str = "<token>";
/// Timeout for a credential helper, which may ask the user or a cloud service.
const HELPER_WAIT: Duration = Duration::from_secs(60);
/// Maximum size of a helper's output and of `config.json`, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// Credentials for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    Password {
        user: String,
        /// Secret.
        password: String,
    },
    /// A refresh token, which is exchanged for access tokens. Secret.
    Identity(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { user, .. } => write!(f, "Password({user}, …)"),
            Self::Identity(_) => write!(f, "Identity(…)"),
        }
    }
}

/// The sources of credentials.
#[derive(Default)]
pub struct DockerCredentials {
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

impl DockerCredentials {
    /// Reads Docker's `config.json` in `$DOCKER_CONFIG` or `~/.docker`. The inner error is the reason why
    /// the file cannot be used; without a file, the keyring is empty.
    pub fn from_docker_config() -> Result<Self, String> {
        let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
        let Some(path) = folder.or_else(home).map(|f| f.join("config.json")) else {
            return Ok(Self::default());
        };
        let read = || -> std::io::Result<Vec<u8>> {
            use std::io::Read;
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path)?;
            file.take(LARGEST).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Self::parse(&bytes)
                .ok_or_else(|| format!("{}: not a Docker configuration", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // The parser's error might quote a secret.
        let config = serde_json::from_slice(bytes).ok()?;
        Some(Self { config })
    }

    /// Returns the login for a registry's host (and port). A helper that fails counts as no login, as in
    /// Docker, because many images need none.
    pub async fn login(&self, host: &str) -> Option<Login> {
        let names = names(host);
        let own = names
            .iter()
            .find_map(|name| self.config.cred_helpers.get(name));
        if let Some(helper) = own.or(self.config.creds_store.as_ref()) {
            for name in &names {
                if let Some(login) = run_helper(helper, name).await {
                    return Some(login);
                }
            }
        }
        let mut entries = self.config.auths.iter();
        let (_, entry) = entries.find(|(key, _)| bare(key) == bare(&names[0]))?;
        entry.login()
    }
}

impl Entry {
    fn login(&self) -> Option<Login> {
        if !self.identitytoken.is_empty() {
            return Some(Login::Identity(self.identitytoken.clone()));
        }
        let decoded = base64::engine::general_purpose::STANDARD.decode(self.auth.trim());
        let pair = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let (user, password) = match pair.as_deref().and_then(|pair| pair.split_once(':')) {
            // Docker pads passwords with zero bytes.
            Some((user, password)) => (user, password.trim_end_matches('\0')),
            None => (self.username.as_str(), self.password.as_str()),
        };
        (!user.is_empty()).then(|| Login::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

/// Returns the keys under which a registry's login may be stored, the best first.
fn names(host: &str) -> Vec<String> {
    match host {
        "docker.io" | "index.docker.io" | "registry-1.docker.io" => {
            vec![DOCKER_HUB.to_owned(), "docker.io".to_owned()]
        }
        host => vec![host.to_owned(), format!("https://{host}")],
    }
}

/// Returns a key of `auths` without the scheme and the path that some tools add.
fn bare(key: &str) -> &str {
    let key = key
        .trim_start_matches("https://")
        .trim_start_matches("http://");
    let host = key.split('/').next().unwrap_or(key);
    if host == "docker.io" {
        "index.docker.io"
    } else {
        host
    }
}

/// Runs a credential helper: it reads the registry's name from stdin and prints user and secret.
async fn run_helper(helper: &str, name: &str) -> Option<Login> {
    // The helper's name becomes a program name, so that it must not be a path.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if helper.is_empty() || !helper.chars().all(is_plain) {
        tracing::warn!(helper, "the name of the credential helper is not valid");
        return None;
    }
    let program = format!("docker-credential-{helper}");
    let answer = tokio::time::timeout(HELPER_WAIT, converse(&program, name)).await;
    let bytes = match answer {
        Ok(Ok(bytes)) => bytes?,
        Ok(Err(error)) => {
            tracing::warn!(program, %error, "cannot run the credential helper");
            return None;
        }
        Err(_) => {
            tracing::warn!(program, "the credential helper does not answer");
            return None;
        }
    };
    let answer: HelperAnswer = serde_json::from_slice(&bytes).ok()?;
    Some(if answer.username == IDENTITY_USER {
        Login::Identity(answer.secret)
    } else {
        Login::Password {
            user: answer.username,
            password: answer.secret,
        }
    })
}

/// Returns the output of a helper; `None` if it has no credentials.
async fn converse(program: &str, name: &str) -> std::io::Result<Option<Vec<u8>>> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input may still print an answer.
        let _ = input.write_all(format!("{name}\n").as_bytes()).await;
    }
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(LARGEST).read_to_end(&mut bytes).await?;
    }
    let status = child.wait().await?;
    Ok(status.success().then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(user: &str, password: &str) -> Option<Login> {
        Some(Login::Password {
            user: user.into(),
            password: password.into(),
        })
    }

    #[tokio::test]
    async fn logins_are_found_under_every_name_that_tools_give_them() {
        let config = r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOnMzY3JldA=="},
            "https://quay.io": {"auth": "cXVheTphOmI="},
            "ghcr.io": {"username": "gh", "password": "pw"},
            "gcr.io": {"identitytoken": "long-lived"},
            "127.0.0.1:5000": {"auth": "bG9jYWw6eA=="},
            "empty.example": {}
        }}"#;
        let credentials = DockerCredentials::parse(config.as_bytes()).unwrap();
        for (host, wanted) in [
            ("docker.io", password("hub", "s3cret")),
            ("registry-1.docker.io", password("hub", "s3cret")),
            ("quay.io", password("quay", "a:b")),
            ("ghcr.io", password("gh", "pw")),
            ("gcr.io", Some(Login::Identity("long-lived".into()))),
            ("127.0.0.1:5000", password("local", "x")),
            ("127.0.0.1:5001", None),
            ("empty.example", None),
            ("io", None),
        ] {
            assert_eq!(credentials.login(host).await, wanted, "{host}");
        }
        assert!(DockerCredentials::parse(b"{\"auths\": 7}").is_none());
        assert!(!format!("{:?}", password("a", "b").unwrap()).contains('b'));
    }

    #[tokio::test]
    async fn a_helper_with_a_path_in_its_name_is_not_run() {
        for name in ["../../tmp/evil", "a b", "", "a;b"] {
            assert_eq!(run_helper(name, "docker.io").await, None);
        }
    }
}
