//! Why a condition does not come true.

use std::path::Path;

use kubexm_diagnose::doctor::{self, DoctorOptions, Finding};
use kubexm_session::error::Explained;
use kubexm_session::{CommandError, Connection, Stop};
use kubexm_types::Message;
use kubexm_types::event::Events;

/// Examines the cluster if the result is that of a condition which did not hold in time. The error then begins with the cause
/// that the doctor found. Returns any other result as it is.
pub async fn cause<T>(
    result: Result<T, CommandError>,
    cluster: &Path,
    connection: &Connection,
    events: &Events,
    stop: &Stop,
) -> Result<T, CommandError> {
    let failures = match result {
        Err(CommandError::Steps(failures)) if failures.unmet().is_some() => failures,
        other => return other,
    };
    events.note("a condition does not hold: the doctor looks for the cause");
    let options = DoctorOptions {
        cluster: cluster.to_owned(),
        connection: connection.clone(),
    };
    let examined = Box::pin(doctor::doctor(&options, &Events::silent(), stop)).await;
    // An examination that fails must not hide what failed before.
    let found = examined.ok();
    Err(
        match found.as_ref().and_then(|report| report.main_cause()) {
            Some(found) => CommandError::Explained(Box::new(Explained {
                cause: message(found),
                commands: found.commands.clone(),
                failures,
            })),
            None => CommandError::Steps(failures),
        },
    )
}

fn message(found: &Finding) -> Message {
    let hosts: Vec<&str> = found.hosts.iter().map(|host| host.as_str()).collect();
    let mut text = found.what.clone();
    if !hosts.is_empty() {
        text = format!("{}: {text}", hosts.join(", "));
    }
    if !found.cause.is_empty() {
        text = format!("{text}: {}", found.cause);
    }
    let message = Message::new(text);
    if found.fix.is_empty() {
        message
    } else {
        message.hint(found.fix.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::example;
    use doctor::Certainty;

    #[test]
    fn the_cause_of_most_findings_is_the_error() {
        let mut report = example::report();
        let unrelated = Finding {
            check: "commands",
            area: doctor::Area::Hosts,
            what: "an upgrade was interrupted".to_owned(),
            ..report.findings[0].clone()
        };
        report.findings.insert(0, unrelated);
        let shown = message(report.main_cause().unwrap());
        assert_eq!(
            shown.text,
            "node2: swap is on: /swapfile: a kubelet does not start with swap, unless failSwapOn of its configuration is false"
        );
        let fix = "turn swap off, also for the next boot";
        assert_eq!(shown.hint.as_deref(), Some(fix));
        // Without a consequence, nothing says that it is about what the command waited for.
        report.findings.pop();
        assert_eq!(report.main_cause(), None);
        let network = &mut report.findings[1];
        network.area = doctor::Area::Network;
        assert!(report.main_cause().is_some());
        report.findings[1].is_warning = true;
        assert_eq!(report.main_cause(), None);
        report.findings[1].is_warning = false;
        report.findings[1].certainty = Certainty::Possible;
        assert_eq!(report.main_cause(), None);
    }
}
