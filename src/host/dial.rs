//! The connection itself: TCP, key exchange, the host's key, and why it ended.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::client::{self, DisconnectReason, Handle};
use russh::keys::Algorithm;
use russh::{Error, Preferred};
use tokio::net::TcpStream;

use super::HostError;
use super::known_hosts::{HostKeys, Verdict};
use super::ssh::SshOptions;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A host that says nothing for so long is asked whether it is still there...
const KEEPALIVE: Duration = Duration::from_secs(10);
/// ...and is given up when so many questions had no answer.
const UNANSWERED: usize = 3;
/// What was sent must be acknowledged within this time: while we wait to send, nobody asks.
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);

/// A connection whose host key is right; nobody is logged in yet.
pub(super) struct Dialed {
    pub handle: Handle<Checker>,
    pub end: End,
}

/// Why a connection ended, once it did.
#[derive(Clone, Default)]
pub(super) struct End(Arc<Mutex<Option<String>>>);

impl End {
    /// What is known of the end, else `otherwise`.
    pub fn words(&self, otherwise: &str) -> String {
        let known = self.0.lock().ok().and_then(|place| place.clone());
        known.unwrap_or_else(|| otherwise.to_owned())
    }

    fn is(&self, words: String) {
        if let Ok(mut place) = self.0.lock() {
            place.get_or_insert(words);
        }
    }
}

/// Judges the host's key and hears of the connection's end.
pub(super) struct Checker {
    address: String,
    port: u16,
    host_keys: HostKeys,
    verdict: Arc<Mutex<Option<Verdict>>>,
    end: End,
}

impl client::Handler for Checker {
    type Error = Error;

    async fn check_server_key(
        &mut self,
        presented: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let verdict = match presented {
            russh::keys::PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.host_keys.judge(&self.address, self.port, key)
            }
            russh::keys::PublicKeyOrCertificate::Certificate(_) => Verdict::Refused(
                "it shows a host certificate, which kubexm does not check yet".to_owned(),
            ),
        };
        let accepted = matches!(verdict, Verdict::Known);
        if let Ok(mut place) = self.verdict.lock() {
            *place = Some(verdict);
        }
        Ok(accepted)
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                self.end.is(format!("the host says: {}", info.message));
                Ok(())
            }
            DisconnectReason::Error(error) => {
                self.end.is(match &error {
                    Error::KeepaliveTimeout => {
                        let seconds = KEEPALIVE.as_secs() * (UNANSWERED as u64 + 1);
                        format!("no answer for {seconds} seconds")
                    }
                    Error::IO(error) => reason_of(error),
                    other => other.to_string(),
                });
                Err(error)
            }
        }
    }
}

/// Connects and checks the host's key.
pub(super) async fn dial(options: &SshOptions) -> Result<Dialed, HostError> {
    tokio::time::timeout(CONNECT_TIMEOUT, open(options))
        .await
        .unwrap_or_else(|_| {
            let words = "no answer within 10 seconds; is it up, and is the address right?";
            Err(unreachable(options, words))
        })
}

async fn open(options: &SshOptions) -> Result<Dialed, HostError> {
    let address = (options.address.as_str(), options.port);
    let stream = TcpStream::connect(address)
        .await
        .and_then(|stream| {
            stream.set_nodelay(true)?;
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
            Ok(stream)
        })
        .map_err(|error| unreachable(options, &reason_of(&error)))?;
    let known = options.host_keys.algorithms(&options.address, options.port);
    let config = client::Config {
        window_size: 32 * 1024 * 1024,
        maximum_packet_size: 64 * 1024,
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: UNANSWERED,
        preferred: preferring(&known),
        ..client::Config::default()
    };
    let (verdict, end) = (Arc::default(), End::default());
    let checker = Checker {
        address: options.address.clone(),
        port: options.port,
        host_keys: options.host_keys.clone(),
        verdict: Arc::clone(&verdict),
        end: end.clone(),
    };
    match client::connect_stream(Arc::new(config), stream, checker).await {
        Ok(handle) => Ok(Dialed { handle, end }),
        Err(error) => {
            let refused = verdict.lock().ok().and_then(|mut place| place.take());
            Err(match (refused, error) {
                (Some(Verdict::Refused(reason)), _) => HostError::HostKey {
                    host: options.name.clone(),
                    reason,
                },
                (_, Error::IO(error)) => unreachable(options, &reason_of(&error)),
                (_, error) => unreachable(options, &end.words(&error.to_string())),
            })
        }
    }
}

/// Asks for the types of keys that are recorded first.
fn preferring(known: &[Algorithm]) -> Preferred {
    let is_known = |algorithm: &Algorithm| {
        known
            .iter()
            .any(|known| known == algorithm || (is_rsa(known) && is_rsa(algorithm)))
    };
    let mut algorithms = Preferred::DEFAULT.key.to_vec();
    algorithms.sort_by_key(|algorithm| !is_known(algorithm));
    Preferred {
        key: algorithms.into(),
        ..Preferred::DEFAULT
    }
}

/// RSA keys are of one type, whatever they are hashed with.
fn is_rsa(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rsa { .. })
}

/// The system's word with what to look at.
fn reason_of(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        // As sshd does before it lets users in who are not root, and when it has too many of them.
        return "the host ended the connection; its journal says why (journalctl -u ssh)"
            .to_owned();
    }
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "; does sshd run there, and is the port right?",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "; is it up, and is the address right?"
        }
        io::ErrorKind::TimedOut => "; is it up?",
        _ => "",
    };
    format!("{error}{hint}")
}

pub(super) fn unreachable(options: &SshOptions, reason: &str) -> HostError {
    HostError::Unreachable {
        host: options.name.clone(),
        address: format!("{}:{}", options.address, options.port),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_types_of_keys_come_first() {
        let rsa = Algorithm::Rsa { hash: None };
        let order = preferring(&[rsa]).key;
        assert!(is_rsa(&order[0]) && is_rsa(&order[2]) && !is_rsa(&order[3]));
        assert_eq!(preferring(&[]).key, Preferred::DEFAULT.key);
    }
}
