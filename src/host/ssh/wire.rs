//! The connection of a host: that of russh, or that of the system's `ssh`.

use russh::Disconnect;

use super::options::SshOptions;
use crate::authenticate::log_in;
use crate::channel::{NoChannel, Reader, Writer};
use crate::openssh::Master;
use crate::server::{Server, ServerError};
use crate::transport::Connection;
use crate::{TunnelError, TunnelStream, forward};
use kubexm_types::Message;

pub(super) enum Wire {
    Russh(Connection),
    OpenSsh(Master),
}

impl Wire {
    /// Connects, verifies the host's key and logs in. Returns also the server, as the user's configuration of `ssh` means it.
    pub(super) async fn connect(options: &SshOptions) -> Result<(Self, Server), ServerError> {
        let (server, host_keys) = (&options.server, &options.host_keys);
        let Some(openssh) = &options.openssh else {
            let connecting = options.jump_hosts.connect(&options.way, server, host_keys);
            let connection = log_in(server, connecting.await?).await?;
            return Ok((Self::Russh(connection), server.clone()));
        };
        let (server, (name, port)) = openssh.resolve(server).await?;
        let host_keys = host_keys
            .for_openssh(&name, port)
            .map_err(|error| ServerError::HostKey(Message::quoting(error)))?;
        let given = (&options.server, server.user.as_str());
        let master = Master::start(openssh, given, &host_keys).await?;
        if host_keys.accept_new.is_some() {
            host_keys.report_new(&name, port);
        }
        Ok((Self::OpenSsh(master), server))
    }

    /// Starts a command line as the user.
    pub(super) async fn start(&self, line: &str) -> Result<(Reader, Writer), NoChannel> {
        match self {
            Self::OpenSsh(master) => master.start_command(line).await,
            Self::Russh(Connection { handle, disconnect }) => {
                let broken =
                    |error: russh::Error| NoChannel::Broken(disconnect.or(&error.to_string()));
                let channel = match handle.channel_open_session().await {
                    Ok(channel) => channel,
                    Err(russh::Error::ChannelOpenFailure(_)) => return Err(NoChannel::Refused),
                    Err(error) => return Err(broken(error)),
                };
                channel.exec(true, line).await.map_err(broken)?;
                let (read, write) = channel.split();
                Ok((Reader::Russh(read), Writer::Russh(write)))
            }
        }
    }

    /// Returns why a channel ended without a status.
    pub(super) async fn disconnected(&self) -> Message {
        match self {
            Self::Russh(connection) => connection.disconnect.or("the host disappeared"),
            Self::OpenSsh(master) => master.broken().await,
        }
    }

    pub(super) async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        match self {
            Self::Russh(connection) => forward::open(&connection.handle, target, port).await,
            Self::OpenSsh(master) => master.open_tunnel(target, port).await,
        }
    }

    pub(super) async fn end(&self) {
        match self {
            Self::Russh(Connection { handle, .. }) => {
                let _ = handle
                    .disconnect(Disconnect::ByApplication, "done", "en")
                    .await;
            }
            Self::OpenSsh(master) => master.end().await,
        }
    }
}
