//! TCP connections that a host makes for us.

use std::time::Duration;

use russh::ChannelOpenFailure;
use russh::client::{Handle, Handler};
use tokio::io::{AsyncRead, AsyncWrite};

/// How long a host may take to connect.
pub const LIMIT: Duration = Duration::from_secs(10);

/// A connection: bytes to and fro.
pub trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

/// Why a host made no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The other side refuses, or its name is unknown to the host.
    #[error("it refuses connections, or its name or network is not known there")]
    Refused,
    /// No answer.
    #[error("no answer within {} seconds", LIMIT.as_secs())]
    Silent,
    /// The host's sshd makes no connections for others: whether there is a way cannot be told.
    #[error("its sshd does not forward (AllowTcpForwarding)")]
    NotAllowed,
    /// The connection to the host itself broke.
    #[error("the connection to the host broke")]
    Broken,
}

/// Lets the sshd at the other end of `handle` connect.
pub(super) async fn through<H: Handler>(
    handle: &Handle<H>,
    target: &str,
    port: u16,
) -> Result<Box<dyn Line>, DialError> {
    let opening = handle.channel_open_direct_tcpip(target, u32::from(port), "127.0.0.1", 0);
    match tokio::time::timeout(LIMIT, opening).await {
        Ok(Ok(channel)) => Ok(Box::new(channel.into_stream())),
        Ok(Err(russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed))) => {
            Err(DialError::Refused)
        }
        Ok(Err(russh::Error::ChannelOpenFailure(_))) => Err(DialError::NotAllowed),
        Ok(Err(_)) => Err(DialError::Broken),
        Err(_) => Err(DialError::Silent),
    }
}
