//! SSH authentication: the key of the cluster file, the user's own keys, the agent, the password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use russh::MethodKind;
use russh::client::{AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, load_secret_key};

use super::server::{Server, ServerError};
use super::transport::Connection;
use kubexm_types::Message;

/// The time for a login and for the check of sudo. PAM waits for seconds after a wrong password.
pub(super) const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Logs in to a server whose key was verified.
///
/// # Errors
/// The server refuses every method, or does not answer in time.
pub(super) async fn log_in(
    server: &Server,
    connection: Connection,
) -> Result<Connection, ServerError> {
    let Connection {
        mut handle,
        disconnect,
    } = connection;
    let trying = tokio::time::timeout(LOGIN_TIMEOUT, try_methods(&mut handle, server)).await;
    match trying {
        Ok(Ok(())) => Ok(Connection { handle, disconnect }),
        // The reason for the disconnect is more precise than the method that was tried last.
        Ok(Err(ServerError::Denied { user, reason })) if handle.is_closed() => {
            let closed = disconnect.or("the host closed the connection");
            let reason = reason.within(closed.to_string());
            Err(ServerError::Denied { user, reason })
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ServerError::Unreachable(too_slow("the login"))),
    }
}

/// Returns the cause of a login, or of a check of sudo, that did not end in time.
pub(super) fn too_slow(what: &str) -> Message {
    let seconds = LOGIN_TIMEOUT.as_secs();
    Message::quoting(format!(
        "{what} exceeded the time limit of {seconds} seconds"
    ))
}

/// Tries every method that is configured for the server.
///
/// # Errors
/// [`ServerError::Denied`] with all methods that were tried.
async fn try_methods<H: Handler>(
    handle: &mut Handle<H>,
    server: &Server,
) -> Result<(), ServerError> {
    let mut tried = Vec::new();
    let mut use_agent = server.private_key.is_none();
    let keys = match &server.private_key {
        Some(path) => vec![path.clone()],
        None => default_keys(),
    };
    for path in keys {
        match with_key(handle, server, &path).await {
            Ok(true) => return Ok(()),
            Ok(false) => tried.push(format!("key {} (refused)", path.display())),
            Err(error) => {
                // The agent may have the key that only its password opens.
                use_agent |= matches!(error, KeyError::Encrypted);
                tried.push(format!("key {} ({error})", path.display()));
            }
        }
        if handle.is_closed() {
            break;
        }
    }
    if use_agent {
        match with_agent(handle, server).await {
            Some(true) => return Ok(()),
            Some(false) => tried.push("the keys of ssh-agent (refused)".to_owned()),
            None => tried.push("ssh-agent (not running)".to_owned()),
        }
    }
    if let Some(password) = &server.password {
        match with_password(handle, &server.user, &password.0).await {
            Password::Accepted => return Ok(()),
            Password::Refused => tried.push("password (refused)".to_owned()),
            Password::NotOffered => {
                tried.push("password (the host does not offer password logins)".to_owned());
            }
        }
    }
    Err(ServerError::Denied {
        user: server.user.clone(),
        reason: Message::quoting(format!("tried {}", tried.join(", "))).hint(format!(
            "add a public key to {}'s ~/.ssh/authorized_keys on the host, or correct user, privateKeyPath \
             or password in the cluster file",
            server.user
        )),
    })
}

fn default_keys() -> Vec<PathBuf> {
    let Some(home) = std::env::var_os("HOME") else {
        return Vec::new();
    };
    let folder = PathBuf::from(home).join(".ssh");
    let names = ["id_ed25519", "id_ecdsa", "id_rsa"];
    names
        .iter()
        .map(|name| folder.join(name))
        .filter(|path| path.is_file())
        .collect()
}

async fn with_key<H: Handler>(
    handle: &mut Handle<H>,
    server: &Server,
    path: &Path,
) -> Result<bool, KeyError> {
    let key = load_secret_key(path, None).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => KeyError::Encrypted,
        russh::keys::Error::CouldNotReadKey => KeyError::NotAKey,
        other => KeyError::Unusable(other.to_string()),
    })?;
    let hash = rsa_hash(handle).await;
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    let result = handle.authenticate_publickey(&server.user, key).await;
    result
        .map(|result| result.success())
        .map_err(|error| KeyError::Unusable(error.to_string()))
}

/// The reason why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("encrypted; load it into ssh-agent")]
    Encrypted,
    #[error("not a private SSH key")]
    NotAKey,
    #[error("{0}")]
    Unusable(String),
}

/// Returns the best hash that the server accepts for RSA keys. kubexm never offers SHA-1.
async fn rsa_hash<H: Handler>(handle: &Handle<H>) -> Option<HashAlg> {
    handle
        .best_supported_rsa_hash()
        .await
        .ok()
        .flatten()
        .flatten()
        .or(Some(HashAlg::Sha256))
}

async fn with_agent<H: Handler>(handle: &mut Handle<H>, server: &Server) -> Option<bool> {
    let mut agent = AgentClient::connect_env().await.ok()?;
    let hash = rsa_hash(handle).await;
    for identity in agent.request_identities().await.ok()? {
        let AgentIdentity::PublicKey { key, .. } = identity else {
            continue;
        };
        let hash = hash.filter(|_| key.algorithm().is_rsa());
        let result = handle
            .authenticate_publickey_with(&server.user, key, hash, &mut agent)
            .await;
        if result.is_ok_and(|result| result.success()) {
            return Some(true);
        }
    }
    Some(false)
}

enum Password {
    Accepted,
    Refused,
    /// The host's sshd does not offer password logins.
    NotOffered,
}

async fn with_password<H: Handler>(handle: &mut Handle<H>, user: &str, password: &str) -> Password {
    let remaining = match handle.authenticate_password(user, password).await {
        Ok(AuthResult::Success) => return Password::Accepted,
        Ok(AuthResult::Failure {
            remaining_methods, ..
        }) => remaining_methods,
        Err(_) => return Password::Refused,
    };
    let by_password = [MethodKind::Password, MethodKind::KeyboardInteractive];
    if !handle.is_closed() && !by_password.iter().any(|method| remaining.contains(method)) {
        return Password::NotOffered;
    }
    if !remaining.contains(&MethodKind::KeyboardInteractive) {
        return Password::Refused;
    }
    // Servers with PAM ask for the password by the method keyboard-interactive.
    let mut answer = handle
        .authenticate_keyboard_interactive_start(user, None::<String>)
        .await;
    for _ in 0..3 {
        match answer {
            Ok(KeyboardInteractiveAuthResponse::Success) => return Password::Accepted,
            Ok(KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. }) => {
                let answers = prompts.iter().map(|_| password.to_owned()).collect();
                answer = handle
                    .authenticate_keyboard_interactive_respond(answers)
                    .await;
            }
            _ => break,
        }
    }
    Password::Refused
}
