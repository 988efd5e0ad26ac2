//! SSH authentication: the key of the cluster file, the user's own keys, the agent, the password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use russh::MethodKind;
use russh::client::{AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, load_openssh_certificate, load_secret_key};

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
    let mut requires_more = false;
    let mut use_agent = server.private_key.is_none();
    let keys = match &server.private_key {
        Some(path) => vec![path.clone()],
        None => default_keys(),
    };
    for path in keys {
        match with_key(handle, server, &path).await {
            Ok(Answer::Accepted) => return Ok(()),
            Ok(Answer::Partly(more)) => {
                requires_more = true;
                tried.push(format!(
                    "key {} (accepted; the host also requires {more})",
                    path.display()
                ));
                break;
            }
            Ok(Answer::Refused) => tried.push(format!("key {} (refused)", path.display())),
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
    if use_agent && !requires_more {
        match with_agent(handle, server).await {
            Some(Answer::Accepted) => return Ok(()),
            Some(Answer::Partly(more)) => {
                requires_more = true;
                tried.push(format!(
                    "a key of ssh-agent (accepted; the host also requires {more})"
                ));
            }
            Some(Answer::Refused) => tried.push("the keys of ssh-agent (refused)".to_owned()),
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
        reason: Message::quoting(format!("tried {}", tried.join(", "))).hint(if requires_more {
            "set password for the host in the cluster file, or let sshd accept the key alone (AuthenticationMethods)".to_owned()
        } else {
            format!(
                "add a public key to {}'s ~/.ssh/authorized_keys on the host, or correct user, privateKeyPath \
                 or password in the cluster file",
                server.user
            )
        }),
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

/// What a server says about a key.
enum Answer {
    Accepted,
    /// It accepts the key, and requires these other methods, too.
    Partly(String),
    Refused,
}

impl From<AuthResult> for Answer {
    fn from(result: AuthResult) -> Self {
        match result {
            AuthResult::Success => Self::Accepted,
            AuthResult::Failure {
                remaining_methods,
                partial_success: true,
            } => {
                let names = remaining_methods.iter().map(<&'static str>::from);
                Self::Partly(names.collect::<Vec<_>>().join(" or "))
            }
            AuthResult::Failure { .. } => Self::Refused,
        }
    }
}

/// Offers the certificate beside a key, as OpenSSH does, and then the key.
async fn with_key<H: Handler>(
    handle: &mut Handle<H>,
    server: &Server,
    path: &Path,
) -> Result<Answer, KeyError> {
    let key = load_secret_key(path, None).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => KeyError::Encrypted,
        russh::keys::Error::CouldNotReadKey => KeyError::NotAKey,
        other => KeyError::Unusable(other.to_string()),
    })?;
    let key = Arc::new(key);
    let failed = |error: russh::Error| KeyError::Unusable(error.to_string());
    let mut certificate = path.as_os_str().to_owned();
    certificate.push("-cert.pub");
    let certificate = PathBuf::from(certificate);
    let mut unreadable = None;
    if certificate.is_file() {
        match load_openssh_certificate(&certificate) {
            Ok(certificate) => {
                let (user, key) = (&server.user, Arc::clone(&key));
                let offered = handle
                    .authenticate_openssh_cert(user, key, certificate)
                    .await;
                match Answer::from(offered.map_err(failed)?) {
                    Answer::Refused => {}
                    answer => return Ok(answer),
                }
            }
            Err(error) => unreadable = Some(KeyError::Certificate(error.to_string())),
        }
    }
    let hash = rsa_hash(handle).await;
    let key = PrivateKeyWithHashAlg::new(key, hash);
    let result = handle.authenticate_publickey(&server.user, key).await;
    match (result.map(Answer::from).map_err(failed)?, unreadable) {
        (Answer::Refused, Some(error)) => Err(error),
        (answer, _) => Ok(answer),
    }
}

/// The reason why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("encrypted; load it into ssh-agent")]
    Encrypted,
    #[error("not a private SSH key")]
    NotAKey,
    #[error("its certificate cannot be read: {0}")]
    Certificate(String),
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

async fn with_agent<H: Handler>(handle: &mut Handle<H>, server: &Server) -> Option<Answer> {
    let mut agent = AgentClient::connect_env().await.ok()?;
    let hash = rsa_hash(handle).await;
    for identity in agent.request_identities().await.ok()? {
        let hash = hash.filter(|_| identity.public_key().algorithm().is_rsa());
        let user = &server.user;
        let result = match identity {
            AgentIdentity::PublicKey { key, .. } => {
                let signing = handle.authenticate_publickey_with(user, key, hash, &mut agent);
                signing.await
            }
            AgentIdentity::Certificate { certificate, .. } => {
                let signing =
                    handle.authenticate_certificate_with(user, certificate, hash, &mut agent);
                signing.await
            }
        };
        match result.map(Answer::from) {
            Ok(Answer::Refused) | Err(_) => {}
            Ok(answer) => return Some(answer),
        }
    }
    Some(Answer::Refused)
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
