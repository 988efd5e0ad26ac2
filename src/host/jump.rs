//! Connections through jump hosts (SSH `direct-tcpip`, as `ProxyJump` of OpenSSH does).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use russh::client::Handle;
use tokio::sync::OnceCell;

use super::authenticate::log_in;
use super::known_hosts::HostKeys;
use super::server::{Server, ServerError};
use super::transport::{self, Connection, Handler};
use super::{TunnelError, TunnelStream, forward};
use kubexm_types::Message;

/// The connections to jump hosts of one run. Clones share them: hosts behind the same jump host use one connection,
/// because sshd limits the number of logins at a time (`MaxStartups`), and not the number of tunnels.
#[derive(Clone, Default)]
pub struct JumpHosts(Arc<Mutex<Vec<Known>>>);

impl fmt::Debug for JumpHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JumpHosts")
    }
}

/// A way over jump hosts, and the connection to its last one. A failure is kept as well, so that it costs each host
/// the time of one attempt only.
struct Known {
    way: Vec<Server>,
    connected: Connected,
}

type Connected = Arc<OnceCell<Result<Handle<Handler>, ServerError>>>;

impl JumpHosts {
    /// Connects to a server over `way`: the jump hosts, the nearest one first. Verifies the key of each server.
    pub(super) async fn connect(
        &self,
        way: &[Server],
        server: &Server,
        host_keys: &HostKeys,
    ) -> Result<Connection, ServerError> {
        match way.split_last() {
            None => transport::connect(server, host_keys).await,
            Some((last, before)) => {
                let tunnel = self.tunnel(last, before, server, host_keys).await?;
                transport::connect_through(tunnel, server, host_keys).await
            }
        }
    }

    /// Opens a TCP connection from a jump host to a server.
    async fn tunnel(
        &self,
        jump: &Server,
        before: &[Server],
        server: &Server,
        host_keys: &HostKeys,
    ) -> Result<Box<dyn TunnelStream>, ServerError> {
        let connected = self.connected(jump, before);
        let logging_in = connected.get_or_init(|| async {
            // A way over several jump hosts is a recursive future.
            let connecting = Box::pin(self.connect(before, jump, host_keys));
            let connection = log_in(jump, connecting.await?).await?;
            Ok(connection.handle)
        });
        let handle = logging_in.await.as_ref().map_err(|error| {
            let context = format!("the connection to the jump host {jump} failed");
            error.clone().within(&context)
        })?;
        let opened = forward::open(handle, &server.address, server.port).await;
        opened.map_err(|error| ServerError::Unreachable(refused(&error, jump)))
    }

    fn connected(&self, jump: &Server, before: &[Server]) -> Connected {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let way = || before.iter().chain([jump]);
        match known.iter().find(|known| known.way.iter().eq(way())) {
            Some(known) => Arc::clone(&known.connected),
            None => {
                let connected = Connected::default();
                known.push(Known {
                    way: way().cloned().collect(),
                    connected: Arc::clone(&connected),
                });
                connected
            }
        }
    }
}

fn refused(error: &TunnelError, jump: &Server) -> Message {
    let reason = Message::quoting(error.to_string());
    match error {
        TunnelError::NotAllowed => {
            reason.hint(format!("set AllowTcpForwarding yes in the sshd_config of {jump}"))
        }
        TunnelError::Refused | TunnelError::TimedOut => reason.hint(format!(
            "check that the host runs, and that {jump} can reach the address and port of the cluster file"
        )),
        TunnelError::Disconnected => {
            reason.hint(format!("check that {jump} runs, then run kubexm again"))
        }
    }
}
