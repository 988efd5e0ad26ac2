//! Which hosts need not answer for a removal, and whether those that do not answer are dead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::removal::Context;
use super::text::Purpose;
use crate::upgrade::survey::Survey;
use kubexm_deploy::removal::Leaving;
use kubexm_host::{Facts, Host, HostError};
use kubexm_session::CommandError;
use kubexm_session::begun::joined;
use kubexm_session::failed_workers::FailedWorkers;
use kubexm_session::session::HostErrors;
use kubexm_types::event::Events;
use kubexm_types::{HostName, WarningKind};

/// How long kubexm waits until the node of a dead host is not Ready. The cluster notices it after 50 seconds, and if the dead
/// host led the controller manager, another one must take over before.
const UNTIL_NOT_READY: Patience = Patience {
    at_most: Duration::from_secs(120),
    between: Duration::from_secs(5),
};
/// How long an API server may take to answer meanwhile.
const ANSWER: Duration = Duration::from_secs(10);

/// How long something is asked again.
#[derive(Clone, Copy)]
struct Patience {
    at_most: Duration,
    between: Duration,
}

impl Context<'_> {
    /// Returns the workers that stay and do not answer.
    ///
    /// # Errors
    /// The removal needs one of the hosts.
    pub(super) fn judge_errors(
        &self,
        errors: HostErrors,
        events: &Events,
    ) -> Result<BTreeSet<HostName>, CommandError> {
        let (leaving, others): (HostErrors, HostErrors) = errors
            .into_iter()
            .partition(|(name, _)| self.is_leaving(name));
        for (_, error) in &accepted(leaving, self.purpose, self.options.unreachable)? {
            events.warn(
                WarningKind::WithoutContact,
                format!("removed without contact: {error}"),
            );
        }
        let mut failed = FailedWorkers::new(self.remaining, true);
        match failed.leave_out_hosts(others, events) {
            Ok(()) => Ok(failed.names()),
            Err(CommandError::Hosts(hosts)) => Err(CommandError::HostsNeeded {
                hosts,
                hint: "the hosts that stay change, too: start this one, or remove it with the same command".to_owned(),
            }),
            Err(other) => Err(other),
        }
    }

    /// Waits until the nodes of hosts that do not answer are not Ready: their kubelets have ended. `first` answers questions
    /// about the cluster. A dry run does not wait.
    ///
    /// # Errors
    /// A kubelet goes on, so that its host is not dead.
    pub(super) async fn await_silence(
        &self,
        leaving: &[Leaving],
        facts: &BTreeMap<HostName, Facts>,
        survey: &Survey,
        first: &dyn Host,
        events: &Events,
    ) -> Result<(), CommandError> {
        let names = leaving.iter().map(|host| &host.spec.name);
        let silent: Vec<&HostName> = names.filter(|name| !facts.contains_key(*name)).collect();
        let ready = ready(survey, &silent);
        if ready.is_empty() {
            return Ok(());
        }
        let ready = joined(ready);
        if self.options.dry_run {
            events.note(format!(
                "{ready}: the node is still Ready; the removal waits until it is not, and refuses if the kubelet goes on"
            ));
            return Ok(());
        }
        events.note(format!(
            "{ready}: cannot be reached, and the node is still Ready; waiting until it is not"
        ));
        let ask = async || Survey::read(self.cluster, first, ANSWER).await;
        until_not_ready(&silent, ask, UNTIL_NOT_READY).await
    }
}

/// Returns the errors of hosts that leave without contact.
///
/// # Errors
/// The user does not permit that, or a host answers.
fn accepted(
    errors: HostErrors,
    purpose: Purpose,
    unreachable: bool,
) -> Result<HostErrors, CommandError> {
    let needed = |errors: HostErrors, hint: String| {
        let hosts = errors.into_iter().map(|(_, error)| error).collect();
        Err(CommandError::HostsNeeded { hosts, hint })
    };
    if errors.is_empty() {
        return Ok(errors);
    }
    if purpose == Purpose::Replace {
        let names: Vec<&str> = errors.iter().map(|(name, _)| name.as_str()).collect();
        let hint = format!(
            "start the new host at this address; kubexm node remove {} --unreachable removes it without a new one",
            names.join(" ")
        );
        return needed(errors, hint);
    }
    let (silent, answering): (HostErrors, HostErrors) = errors
        .into_iter()
        .partition(|(_, error)| may_be_dead(error));
    if !answering.is_empty() {
        let hint = "something answers there, so --unreachable does not apply: correct the login, the SSH host key or what \
                    else the error names; or turn the machine off, and pass --unreachable";
        return needed(answering, hint.to_owned());
    }
    if !unreachable {
        let hint = "start the host; or remove it without contact, with --unreachable: nothing is reset there";
        return needed(silent, hint.to_owned());
    }
    Ok(silent)
}

/// Returns whether a host with this error may be dead. One that refuses the login, or has another key, works.
fn may_be_dead(error: &HostError) -> bool {
    matches!(
        error,
        HostError::Unreachable { .. } | HostError::TimedOut { .. }
    )
}

/// Returns those of the hosts whose nodes are Ready.
fn ready<'a>(survey: &Survey, names: &[&'a HostName]) -> Vec<&'a HostName> {
    let is_ready = |name: &HostName| survey.nodes.get(name).is_some_and(|node| node.is_ready);
    let ready = names.iter().copied().filter(|name| is_ready(name));
    ready.collect()
}

/// Asks the cluster again and again until none of the nodes is Ready. An API server may not answer in between, because it
/// was on a host that is dead.
///
/// # Errors
/// A node stays Ready, or the last question has no answer.
async fn until_not_ready(
    silent: &[&HostName],
    ask: impl AsyncFn() -> Result<Survey, CommandError>,
    patience: Patience,
) -> Result<(), CommandError> {
    let began = Instant::now();
    loop {
        tokio::time::sleep(patience.between).await;
        let is_over = began.elapsed() >= patience.at_most;
        match ask().await.map(|survey| ready(&survey, silent)) {
            Ok(ready) if ready.is_empty() => return Ok(()),
            Ok(ready) if is_over => return Err(still_ready(&joined(ready), patience)),
            Err(error) if is_over => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

fn still_ready(names: &str, patience: Patience) -> CommandError {
    CommandError::refused(format!(
        "cannot remove {names} without contact: SSH does not get there, but the kubelet works: \
         the node was Ready for {} more seconds",
        patience.at_most.as_secs()
    ))
    .hint(
        "correct the address or the SSH server, and remove it without --unreachable; or turn the \
         machine off, and run the same command again",
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::upgrade::survey::Node;
    use kubexm_host::Limit;

    fn name() -> HostName {
        "node5".parse().unwrap()
    }

    fn unreachable() -> HostError {
        HostError::Unreachable {
            host: name(),
            address: "192.0.2.15:22".to_owned(),
            reason: "no route to host".into(),
        }
    }

    fn judged(error: HostError, purpose: Purpose, unreachable: bool) -> String {
        match accepted(vec![(name(), error)], purpose, unreachable) {
            Ok(errors) => format!("accepted: {}", errors.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn host_that_may_be_dead_leaves_without_contact_if_the_user_says_so() {
        let timed_out = HostError::TimedOut {
            host: name(),
            command: "gather facts".to_owned(),
            limit: Limit::DEFAULT,
            output: String::new(),
        };
        for error in [unreachable(), timed_out] {
            assert_eq!(judged(error, Purpose::Remove, true), "accepted: 1");
        }
        let text = judged(unreachable(), Purpose::Remove, false);
        assert!(text.contains("\nhint: start the host; or"), "{text}");
        let text = judged(unreachable(), Purpose::Replace, true);
        assert!(
            text.contains("start the new host at this address"),
            "{text}"
        );
    }

    /// Before, a wrong login or key was enough to delete the node and the pods of a host that works.
    #[test]
    fn host_that_answers_does_not_leave_without_contact() {
        let denied = || HostError::Denied {
            host: name(),
            user: "root".to_owned(),
            reason: "publickey".into(),
        };
        let key = || HostError::HostKey {
            host: name(),
            reason: "the key differs".into(),
        };
        for error in [denied(), key()] {
            let text = judged(error, Purpose::Remove, true);
            assert!(text.contains("\nhint: something answers there"), "{text}");
        }
        let text = judged(denied(), Purpose::Remove, false);
        assert!(!text.contains("start the host; or"), "{text}");
    }

    const SHORT: Patience = Patience {
        at_most: Duration::from_millis(30),
        between: Duration::from_millis(5),
    };

    fn survey(is_ready: bool) -> Survey {
        let kubelet = "1.36.3".parse().unwrap();
        let mut survey = Survey::default();
        survey.nodes.insert(name(), Node { kubelet, is_ready });
        survey
    }

    #[tokio::test]
    async fn kubelet_that_goes_on_prevents_a_removal_without_contact() {
        let silent = [&name()];
        assert_eq!(ready(&survey(true), &silent).len(), 1);
        assert!(ready(&survey(false), &silent).is_empty());
        assert!(ready(&Survey::default(), &silent).is_empty());
        let ask = async || Ok(survey(true));
        let refused = until_not_ready(&silent, ask, SHORT).await.unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.starts_with("cannot remove node5 without contact"),
            "{refused}"
        );
        assert!(refused.contains("\nhint: "), "{refused}");
    }

    #[tokio::test]
    async fn dead_host_leaves_when_its_node_is_not_ready_any_more() {
        let (name, asked) = (name(), Cell::new(0));
        // An API server that was on a dead host does not answer at first.
        let ask = async || {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Ok(survey(true)),
                2 => Err(CommandError::host("no answer")),
                _ => Ok(survey(false)),
            }
        };
        let patience = Patience {
            at_most: Duration::from_secs(60),
            ..SHORT
        };
        until_not_ready(&[&name], ask, patience).await.unwrap();
        assert_eq!(asked.get(), 3);
        let silence = async || Err(CommandError::host("no answer"));
        let error = until_not_ready(&[&name], silence, SHORT).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer");
    }
}
