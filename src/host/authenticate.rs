//! Logging in: the given key, the agent, the user's own keys, the password.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use russh::MethodKind;
use russh::client::{AuthResult, Handle, Handler, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, load_secret_key};

use super::HostError;
use super::ssh::SshOptions;

/// Tries every way that the options allow.
///
/// # Errors
/// [`HostError::Denied`] with all ways that were tried.
pub async fn log_in<H: Handler>(
    handle: &mut Handle<H>,
    options: &SshOptions,
) -> Result<(), HostError> {
    let mut tried = Vec::new();
    let keys = match &options.private_key {
        Some(path) => vec![path.clone()],
        None => own_keys(),
    };
    for path in keys {
        match with_key(handle, options, &path).await {
            Ok(true) => return Ok(()),
            Ok(false) => tried.push(format!("key {} (refused)", path.display())),
            Err(reason) => tried.push(format!("key {} ({reason})", path.display())),
        }
        if handle.is_closed() {
            break;
        }
    }
    if options.private_key.is_none() || tried.iter().any(|way| way.contains("encrypted")) {
        match with_agent(handle, options).await {
            Some(true) => return Ok(()),
            Some(false) => tried.push("the agent's keys (refused)".to_owned()),
            None => tried.push("no agent".to_owned()),
        }
    }
    if let Some(password) = &options.password {
        match with_password(handle, &options.user, &password.0).await {
            Password::Taken => return Ok(()),
            Password::Refused => tried.push("password (refused)".to_owned()),
            Password::NotAsked => tried.push("password (the host takes none)".to_owned()),
        }
    }
    Err(HostError::Denied {
        host: options.name.clone(),
        user: options.user.clone(),
        reason: format!("tried {}", tried.join(", ")),
    })
}

fn own_keys() -> Vec<PathBuf> {
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
    options: &SshOptions,
    path: &Path,
) -> Result<bool, String> {
    let key = load_secret_key(path, None).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => "encrypted: load it into ssh-agent".to_owned(),
        other => other.to_string(),
    })?;
    let hash = rsa_hash(handle).await;
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    let result = handle.authenticate_publickey(&options.user, key).await;
    result
        .map(|result| result.success())
        .map_err(|error| error.to_string())
}

/// The best hash that the server takes with RSA keys; SHA-1 is never offered.
async fn rsa_hash<H: Handler>(handle: &Handle<H>) -> Option<HashAlg> {
    handle
        .best_supported_rsa_hash()
        .await
        .ok()
        .flatten()
        .flatten()
        .or(Some(HashAlg::Sha256))
}

async fn with_agent<H: Handler>(handle: &mut Handle<H>, options: &SshOptions) -> Option<bool> {
    let mut agent = AgentClient::connect_env().await.ok()?;
    let hash = rsa_hash(handle).await;
    for identity in agent.request_identities().await.ok()? {
        let AgentIdentity::PublicKey { key, .. } = identity else {
            continue;
        };
        let hash = hash.filter(|_| key.algorithm().is_rsa());
        let result = handle
            .authenticate_publickey_with(&options.user, key, hash, &mut agent)
            .await;
        if result.is_ok_and(|result| result.success()) {
            return Some(true);
        }
    }
    Some(false)
}

enum Password {
    Taken,
    Refused,
    /// The host's sshd logs nobody in by password.
    NotAsked,
}

async fn with_password<H: Handler>(handle: &mut Handle<H>, user: &str, password: &str) -> Password {
    let remaining = match handle.authenticate_password(user, password).await {
        Ok(AuthResult::Success) => return Password::Taken,
        Ok(AuthResult::Failure {
            remaining_methods, ..
        }) => remaining_methods,
        Err(_) => return Password::Refused,
    };
    let asks = [MethodKind::Password, MethodKind::KeyboardInteractive];
    if !handle.is_closed() && !asks.iter().any(|method| remaining.contains(method)) {
        return Password::NotAsked;
    }
    if !remaining.contains(&MethodKind::KeyboardInteractive) {
        return Password::Refused;
    }
    // Servers with PAM ask the same question by another method.
    let mut answer = handle
        .authenticate_keyboard_interactive_start(user, None::<String>)
        .await;
    for _ in 0..3 {
        match answer {
            Ok(KeyboardInteractiveAuthResponse::Success) => return Password::Taken,
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
