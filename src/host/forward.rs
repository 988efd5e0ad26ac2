//! TCP connections that a host opens on behalf of kubexm (SSH `direct-tcpip`, RFC 4254 section 7.2).

use std::time::Duration;

use russh::ChannelOpenFailure;
use russh::client::{Handle, Handler};
use tokio::io::{AsyncRead, AsyncWrite};

/// The time within which a host must connect.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A TCP connection from a host to another server, tunnelled to kubexm.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> TunnelStream for T {}

/// The reason why a host did not connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// The target refused the connection, or the host cannot resolve or route to it.
    #[error("the connection was refused, or the host cannot resolve or route to the address")]
    Refused,
    /// The target did not answer in time.
    #[error("no answer within {} seconds", CONNECT_TIMEOUT.as_secs())]
    TimedOut,
    /// The host's sshd does not forward connections, so kubexm cannot check the target.
    #[error("the host's sshd does not forward TCP connections (AllowTcpForwarding)")]
    NotAllowed,
    /// The SSH connection to the host broke.
    #[error("the SSH connection to the host broke")]
    Disconnected,
}

/// Asks the sshd at the other end of `handle` to connect to a target.
pub(super) async fn open<H: Handler>(
    handle: &Handle<H>,
    target: &str,
    port: u16,
) -> Result<Box<dyn TunnelStream>, TunnelError> {
    let opening = handle.channel_open_direct_tcpip(target, u32::from(port), "127.0.0.1", 0);
    match tokio::time::timeout(CONNECT_TIMEOUT, opening).await {
        Ok(Ok(channel)) => Ok(Box::new(channel.into_stream())),
        Ok(Err(russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed))) => {
            Err(TunnelError::Refused)
        }
        Ok(Err(russh::Error::ChannelOpenFailure(_))) => Err(TunnelError::NotAllowed),
        Ok(Err(_)) => Err(TunnelError::Disconnected),
        Err(_) => Err(TunnelError::TimedOut),
    }
}
