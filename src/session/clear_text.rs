//! Secrets that are in clear text although those of the state directory are encrypted: keys that the cluster file does not use any
//! more, and archives of before the encryption.

use std::path::Path;

use crate::certificates::CaEncryption;
use crate::{CommandError, archives, background};
use kubexm_pki::CertificateStore;
use kubexm_types::event::Events;
use kubexm_types::{Message, WarningKind};

/// Encrypts them, when the work of a command is done. What cannot be encrypted stays as it is, with a warning. Without `encryption`,
/// nothing changes: the identity may be lost, and everything that it encrypts with it.
pub async fn encrypt(state: &Path, encryption: Option<&CaEncryption>, events: &Events) {
    let Some(encryption) = encryption.cloned() else {
        return;
    };
    let (state, emitted) = (state.to_owned(), events.clone());
    let work = move || encrypt_all(&state, &encryption, &emitted);
    if let Err(error) = background::run(work).await {
        events.warn(WarningKind::StateDirectory, Message::from(&error));
    }
}

fn encrypt_all(
    state: &Path,
    encryption: &CaEncryption,
    events: &Events,
) -> Result<(), CommandError> {
    let identity = encryption.identity()?;
    let store = CertificateStore::new(state.join("pki")).encrypted(Some(identity.clone()));
    for error in store.encrypt_remaining() {
        events.warn(WarningKind::StateDirectory, Message::from(&error));
    }
    archives::seal(state, &identity, events)
}
