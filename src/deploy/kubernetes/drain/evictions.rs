//! Evictions of the pods of a node, and why they do not leave it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::kubectl::Kubectl;
use super::options::Drain;
use crate::objects::Budget;
use kubexm_engine::plan::StepError;
use kubexm_engine::{Command, Limit};
use kubexm_scripts::kubernetes::DRAIN;

/// How much longer than its evictions a drain may take.
const AROUND_EVICTIONS: Duration = Duration::from_secs(60);
/// The most other lines of kubectl that an error quotes.
const LINES: usize = 8;

impl Kubectl<'_> {
    pub(super) async fn evict(&self, drain: Drain, more: Option<&str>) -> Result<(), StepError> {
        let seconds = drain.timeout.as_secs();
        let timeout = format!("--timeout={seconds}s");
        let options = drain.options();
        let options = options.iter().map(String::as_str).chain(more);
        let words = [self.node, &timeout].into_iter().chain(options);
        let limit = Limit::new(drain.timeout + AROUND_EVICTIONS, "the evictions of a node");
        let command = Command::from_script(DRAIN.verb("evict"), words);
        let command = command.describe(self.action).limit(limit);
        let output = self.host.run(command).await?;
        if output.success() {
            return Ok(());
        }
        let said = output.text();
        let words = ["poddisruptionbudgets", "-A"];
        let budgets: Vec<Budget> = self.list(&words).await.unwrap_or_default();
        let mut lines = vec![format!(
            "the pods of {} did not leave it within {seconds} seconds",
            self.node
        )];
        lines.extend(explain(&said, &budgets));
        let hint = if said.contains("use --force to override") {
            "nothing creates the pods without a controller again: delete them, or permit it with --drain-force"
        } else {
            "add replicas or change the budget, then run the same command again; --drain-disable-eviction deletes the pods \
             without regard to budgets"
        };
        Err(self.give_up(lines.join("\n"), hint.to_owned()).await)
    }
}

/// Returns the pods that are left with the reason, other words of kubectl, and the budgets that permit no eviction.
/// `said` is what `kubectl drain` printed.
fn explain(said: &str, budgets: &[Budget]) -> Vec<String> {
    let gone: BTreeSet<&str> = said.lines().filter_map(gone).collect();
    let mut reasons: BTreeMap<&str, String> = said.lines().filter_map(refusal).collect();
    reasons.retain(|pod, _| !gone.contains(pod));
    let mut lines: Vec<String> = reasons.into_values().collect();
    lines.sort_unstable();
    let others: Vec<&str> = said.lines().filter(|line| !is_of_a_pod(line)).collect();
    let last = others.len().saturating_sub(LINES);
    lines.extend(others[last..].iter().map(|line| (*line).to_owned()));
    lines.extend(budgets.iter().filter_map(full));
    lines
}

/// Returns the pod of a line that states that it has left.
fn gone(line: &str) -> Option<&str> {
    let (pod, end) = line.strip_prefix("pod/")?.rsplit_once(' ')?;
    ["evicted", "deleted"].contains(&end).then_some(pod)
}

/// Returns the pod that a line is about, and why it stays. The limit of the time is the same reason for all of them.
fn refusal(line: &str) -> Option<(&str, String)> {
    let begins = ["error when evicting pods/\"", "error when deleting pods/\""];
    let (_, rest) = begins.iter().find_map(|begins| line.split_once(begins))?;
    let (pod, rest) = rest.split_once("\" -n \"")?;
    let (namespace, rest) = rest.split_once('"')?;
    if line.contains("global timeout reached") {
        return None;
    }
    let (_, reason) = rest.split_once("): ").or_else(|| rest.split_once(": "))?;
    Some((pod, format!("{namespace}/{pod}: {reason}")))
}

fn is_of_a_pod(line: &str) -> bool {
    let begins = [
        "evicting pod",
        "Warning: ignoring",
        "pod/",
        "node/",
        "There are pending ",
        " ",
    ];
    line.contains("error when evicting") || begins.iter().any(|begin| line.starts_with(begin))
}

fn full(budget: &Budget) -> Option<String> {
    let status = budget.status.as_ref()?;
    let names = &budget.metadata;
    (status.disruptions_allowed == 0).then(|| {
        format!(
            "the PodDisruptionBudget {}/{} permits no eviction: {} pods are healthy, and it requires {}",
            names.namespace, names.name, status.current_healthy, status.desired_healthy
        )
    })
}
