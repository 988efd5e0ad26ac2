//! The SSH transport: TCP or a tunnel, key exchange, host key check, and the reason for a disconnect.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::client::{self, Handle};
use russh::keys::{Algorithm, PublicKeyOrCertificate};
use russh::{Error, Preferred};
use tokio::net::TcpStream;

use super::TunnelStream;
use super::known_hosts::{HostKeys, Verdict};
use super::server::{Server, ServerError};
use kubexm_types::{Message, Untrusted};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without data after which kubexm sends a keepalive request.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Number of unanswered keepalive requests after which the connection is closed.
const UNANSWERED: usize = 3;
/// Time within which the host must acknowledge sent data. Keepalive requests do not cover this case,
/// because russh sends none while it waits to write.
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);

/// A connection whose host key was verified. The user is not logged in yet.
pub(super) struct Connection {
    pub handle: Handle<Handler>,
    pub disconnect: DisconnectReason,
}

/// The reason why a connection ended. It is empty while the connection is open.
#[derive(Clone, Default)]
pub(super) struct DisconnectReason(Arc<Mutex<Option<Message>>>);

impl DisconnectReason {
    /// Returns the recorded reason, or `default` without one.
    pub fn or(&self, default: &str) -> Message {
        self.unless_known(Message::quoting(default))
    }

    fn unless_known(&self, default: Message) -> Message {
        let known = self.0.lock().ok().and_then(|reason| reason.clone());
        known.unwrap_or(default)
    }

    fn record(&self, reason: Message) {
        if let Ok(mut recorded) = self.0.lock() {
            recorded.get_or_insert(reason);
        }
    }
}

/// Verifies the host's key, and records why the connection ended.
pub(super) struct Handler {
    address: String,
    port: u16,
    host_keys: HostKeys,
    verdict: Arc<Mutex<Option<Verdict>>>,
    disconnect: DisconnectReason,
}

impl client::Handler for Handler {
    type Error = Error;

    async fn check_server_key(
        &mut self,
        presented: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let (address, port) = (&self.address, self.port);
        let verdict = match presented {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.host_keys.judge(address, port, key)
            }
            PublicKeyOrCertificate::Certificate(certificate) => {
                self.host_keys.judge_certificate(address, port, certificate)
            }
        };
        let accepted = matches!(verdict, Verdict::Known);
        if let Ok(mut last) = self.verdict.lock() {
            *last = Some(verdict);
        }
        Ok(accepted)
    }

    async fn disconnected(
        &mut self,
        reason: client::DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        match reason {
            client::DisconnectReason::ReceivedDisconnect(info) => {
                let message = Untrusted::one_line(&info.message, 300);
                let cause = format!("the host closed the connection: {message}");
                self.disconnect.record(Message::quoting(cause));
                Ok(())
            }
            client::DisconnectReason::Error(error) => {
                self.disconnect.record(match &error {
                    Error::KeepaliveTimeout => {
                        let seconds = KEEPALIVE.as_secs() * (UNANSWERED as u64 + 1);
                        Message::quoting(format!("no answer for {seconds} seconds"))
                    }
                    Error::IO(error) => reason_of(error),
                    other => Message::quoting(other.to_string()),
                });
                Err(error)
            }
        }
    }
}

/// Connects to a server and verifies its key.
pub(super) async fn connect(
    server: &Server,
    host_keys: &HostKeys,
) -> Result<Connection, ServerError> {
    let connecting = async {
        let stream = dial(server).await?;
        shake_hands(server, host_keys, stream).await
    };
    in_time(connecting).await
}

/// What a user can do about a server that accepts none of kubexm's algorithms.
const ALGORITHMS: &str = "permit one of the first list in sshd_config of the host, with KexAlgorithms, Ciphers, MACs or HostKeyAlgorithms; or set transport: openssh in the cluster file";

/// Verifies the key of a server at the other end of a tunnel.
pub(super) async fn connect_through(
    tunnel: Box<dyn TunnelStream>,
    server: &Server,
    host_keys: &HostKeys,
) -> Result<Connection, ServerError> {
    in_time(shake_hands(server, host_keys, tunnel)).await
}

async fn in_time(
    connecting: impl Future<Output = Result<Connection, ServerError>>,
) -> Result<Connection, ServerError> {
    tokio::time::timeout(CONNECT_TIMEOUT, connecting)
        .await
        .unwrap_or_else(|_| {
            let cause = format!("no answer within {} seconds", CONNECT_TIMEOUT.as_secs());
            let reason = Message::quoting(cause).hint(CHECK_ADDRESS);
            Err(ServerError::Unreachable(reason))
        })
}

async fn dial(server: &Server) -> Result<TcpStream, ServerError> {
    let address = (server.address.as_str(), server.port);
    let resolved = tokio::net::lookup_host(address).await.map_err(|error| {
        let reason = Message::quoting(format!("cannot resolve the name: {error}"));
        let hint = "correct address in the cluster file, or add the name to DNS or /etc/hosts";
        ServerError::Unreachable(reason.hint(hint))
    })?;
    let resolved: Vec<SocketAddr> = resolved.collect();
    TcpStream::connect(&resolved[..])
        .await
        .and_then(|stream| {
            stream.set_nodelay(true)?;
            socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
            Ok(stream)
        })
        .map_err(|error| ServerError::Unreachable(reason_of(&error)))
}

async fn shake_hands(
    server: &Server,
    host_keys: &HostKeys,
    stream: impl TunnelStream + 'static,
) -> Result<Connection, ServerError> {
    let (address, port) = (&server.address, server.port);
    let config = client::Config {
        window_size: 32 * 1024 * 1024,
        maximum_packet_size: 64 * 1024,
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: UNANSWERED,
        preferred: preferring(
            &host_keys.algorithms(address, port),
            host_keys.has_authority(address, port),
        ),
        ..client::Config::default()
    };
    let (verdict, disconnect) = (Arc::default(), DisconnectReason::default());
    let handler = Handler {
        address: address.clone(),
        port,
        host_keys: host_keys.clone(),
        verdict: Arc::clone(&verdict),
        disconnect: disconnect.clone(),
    };
    match client::connect_stream(Arc::new(config), stream, handler).await {
        Ok(handle) => Ok(Connection { handle, disconnect }),
        Err(error) => {
            let refused = verdict.lock().ok().and_then(|mut last| last.take());
            Err(match (refused, error) {
                (Some(Verdict::Refused(reason)), _) => ServerError::HostKey(reason),
                (_, Error::IO(error)) => ServerError::Unreachable(reason_of(&error)),
                (_, Error::Disconnect) => {
                    ServerError::Unreachable(disconnect.unless_known(closed()))
                }
                (_, error) => {
                    let is_about_algorithms = matches!(error, russh::Error::NoCommonAlgo { .. });
                    let hint = is_about_algorithms.then_some(ALGORITHMS);
                    let reason = disconnect.or(&error.to_string());
                    ServerError::Unreachable(reason.or_hint(hint))
                }
            })
        }
    }
}

/// Returns the default algorithms with the types of the recorded keys first. Certificates are requested only from a
/// host that has a recorded authority, because others could not be verified.
fn preferring(known: &[Algorithm], has_authority: bool) -> Preferred {
    let is_known = |algorithm: &Algorithm| {
        known
            .iter()
            .any(|known| known == algorithm || (is_rsa(known) && is_rsa(algorithm)))
    };
    let mut algorithms = Preferred::DEFAULT.key.to_vec();
    algorithms.sort_by_key(|algorithm| !is_known(algorithm));
    let certificates = if has_authority {
        algorithms.clone()
    } else {
        Vec::new()
    };
    Preferred {
        key: algorithms.into(),
        host_key_certificates: certificates.into(),
        ..Preferred::DEFAULT
    }
}

/// Returns whether a key is an RSA key. The hash does not matter: the key is the same.
fn is_rsa(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rsa { .. })
}

/// The hint for a host that does not answer.
const CHECK_ADDRESS: &str =
    "check that the host runs and that address and port in the cluster file are correct";

/// Returns the reason for a connection that the host closed. sshd does so while the host boots, and when it
/// has too many sessions (MaxStartups).
fn closed() -> Message {
    Message::quoting("the host closed the connection")
        .hint("its journal states the reason: journalctl -u ssh")
}

/// Returns the cause of a failed connection, with a hint.
fn reason_of(error: &io::Error) -> Message {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return closed();
    }
    let reason = Message::quoting(error.to_string());
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            reason.hint("check that sshd runs on the host and that the port is correct")
        }
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::TimedOut => reason.hint(CHECK_ADDRESS),
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_types_of_keys_come_first() {
        let rsa = Algorithm::Rsa { hash: None };
        let order = preferring(&[rsa], false).key;
        assert!(is_rsa(&order[0]) && is_rsa(&order[2]) && !is_rsa(&order[3]));
        assert_eq!(preferring(&[], false).key, Preferred::DEFAULT.key);
        assert!(preferring(&[], false).host_key_certificates.is_empty());
    }
}
