//! Which differences `status --fix` removes, and which it leaves to the operator.

use std::collections::BTreeSet;
use std::fmt::Write;

use kubexm_engine::plan::restrict::Steps;
use kubexm_lifecycle::plan::{Difference, HostDiff, PlanDiff, Reason};
use kubexm_types::{HostName, Message};

/// The start of the id of a command that runs once, as `kubeadm join`.
const ONCE: &str = "once ";

/// The differences, sorted.
pub(super) struct Choice<'a> {
    hosts: Vec<&'a HostDiff>,
    /// Hosts on which a command that runs once is not complete. An install continues it.
    incomplete: BTreeSet<&'a HostName>,
    /// The steps that are applied.
    pub(super) steps: Steps,
    /// The steps that must not run.
    pub(super) excluded: Steps,
}

impl<'a> Choice<'a> {
    pub(super) fn of(found: &'a PlanDiff) -> Self {
        let hosts: Vec<&HostDiff> = found.hosts.iter().collect();
        let is_once =
            |one: &Difference| one.id.starts_with(ONCE) && matches!(one.reason, Reason::Needed(_));
        let incomplete = hosts
            .iter()
            .filter(|host| host.differences.iter().any(is_once));
        let mut choice = Self {
            incomplete: incomplete.map(|host| &host.host).collect(),
            hosts,
            steps: Steps::new(),
            excluded: Steps::new(),
        };
        for host in &choice.hosts {
            for one in &host.differences {
                let step = (one.task.clone(), one.id.clone());
                match one.reason {
                    Reason::Needed(_) if !choice.incomplete.contains(&host.host) => {
                        choice.steps.insert(step);
                    }
                    _ => {
                        choice.excluded.insert(step);
                    }
                }
            }
        }
        // A step with a value that another task provides can run if the value is there.
        let tasks: BTreeSet<_> = choice.steps.iter().map(|(task, _)| task.clone()).collect();
        let differences = choice.hosts.iter().flat_map(|host| &host.differences);
        for one in differences.filter(|one| matches!(one.reason, Reason::DependsOn(_))) {
            if tasks.contains(&one.task) {
                choice.excluded.remove(&(one.task.clone(), one.id.clone()));
            }
        }
        choice
    }

    /// Returns whether there is nothing to apply.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the plan for people: the steps of each host, and what stays as it is. `whole` shows the differences of files.
    pub(super) fn text(&self, cluster: &str, whole: bool) -> String {
        let mut text = if self.is_empty() {
            format!("no host of the cluster '{cluster}' differs in a step that can be applied\n")
        } else {
            format!(
                "steps of an install that the cluster '{cluster}' needs, one host after another where an install does so:\n"
            )
        };
        for host in &self.hosts {
            self.applied(&mut text, host, whole);
        }
        let left = self.hosts.iter().flat_map(|host| self.left(host));
        let left: Vec<String> = left.collect();
        if !left.is_empty() {
            let _ = writeln!(text, "not applied:");
            for line in left {
                let _ = writeln!(text, "  {}", line.replace('\n', "\n    "));
            }
        }
        if !self.is_empty() {
            let _ = writeln!(
                text,
                "units that read a changed file restart; every change is recorded, so that a reset reverts it"
            );
        }
        text.trim_end().to_owned()
    }

    fn applied(&self, text: &mut String, host: &HostDiff, whole: bool) {
        let is_applied =
            |one: &&Difference| self.steps.contains(&(one.task.clone(), one.id.clone()));
        let mut steps = host.differences.iter().filter(is_applied).peekable();
        if steps.peek().is_some() {
            let _ = writeln!(text, "  {}", host.host);
        }
        for one in steps {
            let _ = writeln!(text, "    {}: {}", one.step, reason(one, whole));
        }
    }

    fn is_excluded(&self, one: &Difference) -> bool {
        self.excluded.contains(&(one.task.clone(), one.id.clone()))
    }

    /// Returns what the operator decides about a host.
    fn left(&self, host: &HostDiff) -> Vec<String> {
        let name = &host.host;
        if self.incomplete.contains(name) {
            return vec![
                Message::new(format!("{name} is not complete"))
                    .hint("`kubexm install` continues it")
                    .to_string(),
            ];
        }
        let left = host.differences.iter().filter_map(|one| {
            let reason = match &one.reason {
                Reason::Reported(message) => message.to_string(),
                Reason::Failed(_) | Reason::Unread(_) => one.reason.to_string(),
                Reason::DependsOn(_) if self.is_excluded(one) => {
                    format!("not compared: {}", one.reason)
                }
                // A step that only waits for a value of a chosen task runs.
                Reason::Needed(_) | Reason::DependsOn(_) => return None,
            };
            Some(format!("{name}: {}: {reason}", one.step))
        });
        left.collect()
    }
}

/// Returns the reason of a difference, or its first line.
fn reason(one: &Difference, whole: bool) -> String {
    let reason = one.reason.to_string();
    let reason = reason.trim();
    if whole {
        reason.replace('\n', "\n      ")
    } else {
        reason.lines().next().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_lifecycle::plan::TaskId;
    use kubexm_types::Message;

    fn difference(task: &str, id: &str, reason: Reason) -> Difference {
        Difference {
            task: TaskId(task.to_owned()),
            id: id.to_owned(),
            step: format!("Do {id}"),
            reason,
        }
    }

    fn host(name: &str, differences: Vec<Difference>) -> HostDiff {
        HostDiff {
            host: name.parse().unwrap(),
            unchanged: 1,
            differences,
            actions: 0,
            unreachable: None,
        }
    }

    fn needed(text: &str) -> Reason {
        Reason::Needed(text.to_owned())
    }

    #[test]
    fn what_an_install_does_not_change_is_left_to_the_operator() {
        let depends = || Reason::DependsOn(vec![TaskId("m/mint@node1".to_owned())]);
        let found = PlanDiff {
            hosts: vec![
                host(
                    "node1",
                    vec![
                        difference(
                            "m/a@node1",
                            "file /etc/a",
                            needed("differs\n@@ -1 +1 @@\n-x\n+y"),
                        ),
                        difference("m/a@node1", "token", depends()),
                        difference("m/b@node1", "other token", depends()),
                        difference(
                            "m/b@node1",
                            "etcd settings",
                            Reason::Reported(Message::new("flags").hint("x")),
                        ),
                        difference("m/c@node1", "api", Reason::Failed("no answer".into())),
                    ],
                ),
                host("node2", Vec::new()),
                host(
                    "node3",
                    vec![
                        difference("m/join@node3", "once join", needed("has not run")),
                        difference("m/a@node3", "file /etc/a", needed("does not exist")),
                    ],
                ),
            ],
        };
        let choice = Choice::of(&found);
        let shown = |steps: &Steps| {
            let names = steps.iter().map(|(task, id)| format!("{task} {id}"));
            names.collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(shown(&choice.steps), @"m/a@node1 file /etc/a");
        insta::assert_snapshot!(shown(&choice.excluded), @"
        m/a@node3 file /etc/a
        m/b@node1 etcd settings
        m/b@node1 other token
        m/c@node1 api
        m/join@node3 once join
        ");
        insta::assert_snapshot!(choice.text("example", false), @"
        steps of an install that the cluster 'example' needs, one host after another where an install does so:
          node1
            Do file /etc/a: differs
        not applied:
          node1: Do other token: not compared: depends on task m/mint@node1
          node1: Do etcd settings: flags
            hint: x
          node1: Do api: cannot be checked: no answer
          node3 is not complete
            hint: `kubexm install` continues it
        units that read a changed file restart; every change is recorded, so that a reset reverts it
        ");
        assert!(choice.text("example", true).contains("\n      +y\n"));
    }

    #[test]
    fn steps_that_were_not_compared_are_named() {
        let depends = Reason::DependsOn(vec![TaskId("m/read@node1".to_owned())]);
        let differences = vec![difference("m/a@node1", "file /etc/a", depends)];
        let found = PlanDiff {
            hosts: vec![host("node1", differences)],
        };
        let choice = Choice::of(&found);
        assert!(choice.is_empty());
        insta::assert_snapshot!(choice.text("example", false), @"
        no host of the cluster 'example' differs in a step that can be applied
        not applied:
          node1: Do file /etc/a: not compared: depends on task m/read@node1
        ");
    }

    #[test]
    fn cluster_without_differences_has_no_steps() {
        let found = PlanDiff {
            hosts: vec![host("node1", Vec::new())],
        };
        let choice = Choice::of(&found);
        assert!(choice.is_empty() && choice.excluded.is_empty());
        insta::assert_snapshot!(choice.text("example", true), @"no host of the cluster 'example' differs in a step that can be applied");
    }
}
