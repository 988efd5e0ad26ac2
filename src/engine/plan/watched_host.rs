//! Reports commands that make no progress, outside of plans.

use std::sync::Arc;

use async_trait::async_trait;

use super::notice::Watch;
use kubexm_host::{Command, Host, HostError, Output, TunnelError, TunnelStream};
use kubexm_types::HostName;
use kubexm_types::event::Events;

/// A host whose commands emit [`Event::Waiting`](kubexm_types::event::Event::Waiting) while they make no progress. Steps
/// of a plan are observed as a whole, so plans run on the host itself.
pub struct WatchedHost {
    host: Arc<dyn Host>,
    events: Events,
}

impl WatchedHost {
    /// Observes a host.
    pub fn new(host: Arc<dyn Host>, events: &Events) -> Self {
        Self {
            host,
            events: events.clone(),
        }
    }
}

#[async_trait]
impl Host for WatchedHost {
    fn name(&self) -> &HostName {
        self.host.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let watch = Watch::new(&self.events, self.name(), command.description());
        watch.during(self.host.run(command)).await
    }

    async fn settle(&self) {
        self.host.settle().await;
    }

    async fn open_tunnel(
        &self,
        target: &str,
        port: u16,
    ) -> Result<Box<dyn TunnelStream>, TunnelError> {
        let watch = Watch::new(
            &self.events,
            self.name(),
            format!("connect to {target}:{port}"),
        );
        watch.during(self.host.open_tunnel(target, port)).await
    }
}
