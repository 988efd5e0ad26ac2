//! What the cluster offers at the end of an install.

use super::prepare::Context;
use kubexm_deploy::objects::Server;
use kubexm_deploy::offers;
use kubexm_engine::Limit;
use kubexm_safekeeping::timer::{self, Job};
use kubexm_session::session::{Hosts, first_control_plane};
use kubexm_types::event::Offers;

/// Asks the first control plane that answers. An install has succeeded also without an answer, which is `None` then.
pub(super) async fn of(context: &Context<'_>, hosts: &Hosts) -> Option<Offers> {
    let (_, host) = first_control_plane(context.cluster, hosts)?;
    let server = Server::of(host.as_ref()).limit(Limit::DEFAULT);
    let asked = offers::ask(server).await;
    let asked = asked
        .inspect_err(|error| tracing::warn!(%error, "the cluster does not say what it offers"))
        .ok()?;
    let (timers, _) = timer::states(context.state);
    let has_timer = |job| timers.iter().any(|timer| timer.job == job);
    Some(Offers {
        backup_timer: has_timer(Job::Backup),
        certificate_timer: has_timer(Job::Certificates),
        not_applied: offers::not_applied(context.cluster, context.bundle.lock()),
        ..asked
    })
}
