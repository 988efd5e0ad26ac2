//! Runs a script of the user.

use std::time::Duration;

use async_trait::async_trait;

use super::input::after_input;
use super::{Undo, run_check, run_command};
use crate::plan::step::output_in;
use crate::plan::{Action, Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_host::{Command, Host, HostError, Input, Limit};
use kubexm_scripts::Parameters;
use kubexm_scripts::os::{HOOK, Hook};
use kubexm_scripts::undo::HOOK_END;
use kubexm_types::{Digest, HookName, Message, Secret};

/// How long a hook waits for one that an earlier run left running.
const EARLIER_RUN: Limit = Limit::new(Duration::from_secs(3660), "a hook of an earlier run");

/// A script of the user that must have succeeded on the host with its present content.
///
/// A script that was interrupted runs again. What it changes has no undo record.
pub struct RunHook {
    pub name: HookName,
    /// What runs, for the user.
    pub title: String,
    /// The script. It may contain secrets, so it is not an argument.
    pub script: Secret,
    /// The value of `KUBEXM_CLUSTER` in its environment.
    pub cluster: String,
    /// How long the script may run.
    pub limit: Limit,
}

/// Removes what hooks leave in memory on a host.
///
/// # Errors
/// The command fails, or the connection to the host breaks.
pub async fn remove_hook_files(host: &dyn Host) -> Result<(), StepError> {
    let remove = Command::from_script(HOOK_END.script, [""; 0]);
    let removed = run_command(host, "remove the files of hooks", remove).await;
    removed.map(|_| ())
}

/// A script of the user that runs each time.
pub struct RunHookAlways(pub RunHook);

impl RunHook {
    /// Runs the script, whether it has run before or not.
    ///
    /// # Errors
    /// The script failed or exceeded its time limit. The message names the host and the hook, and has the last lines of the
    /// output.
    pub async fn run_once(&self, host: &dyn Host) -> Result<(), StepError> {
        self.run(host, "always").await
    }

    /// Runs the script. With `changed`, the host records that it succeeded.
    async fn run(&self, host: &dyn Host, record: &'static str) -> Result<(), StepError> {
        let wait = Command::from_script(HOOK.verb("wait"), [""; 0]).limit(EARLIER_RUN);
        run_command(host, "wait for a hook of an earlier run", wait).await?;
        let parameters = Hook {
            name: self.name.to_string(),
            record: record.to_owned(),
            cluster: self.cluster.clone(),
            host: host.name().to_string(),
        };
        let arguments = parameters.and(interpreter(&self.script.0));
        let command = after_input(
            HOOK.verb("run"),
            arguments,
            self.script.0.clone().into_bytes(),
        );
        let command = command.describe(self.title.clone()).limit(self.limit);
        match host.run(command).await {
            Ok(output) if output.success() => Ok(()),
            Ok(output) => {
                let how = format!("failed with exit status {}", output.status);
                let printed = output.complaint().to_string();
                let log = output_in(output.log.as_deref());
                let advice =
                    "correct the hook in spec.system.hooks of the cluster file or on the host";
                Err(self.failed(host, &how, &printed, &log, advice))
            }
            Err(HostError::TimedOut { limit, output, .. }) => {
                let how = format!(
                    "was ended after its time limit of {} seconds",
                    limit.seconds()
                );
                let advice =
                    "set timeoutSeconds of the hook in spec.system.hooks, or let it do less";
                Err(self.failed(host, &how, &output, "", advice))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn failed(
        &self,
        host: &dyn Host,
        how: &str,
        printed: &str,
        log: &str,
        advice: &str,
    ) -> StepError {
        let printed = match printed.trim() {
            "" => "; it printed nothing".to_owned(),
            lines => format!("; it printed last:\n{lines}"),
        };
        let text = format!(
            "the hook '{}' on {} {how}{printed}{log}",
            self.name,
            host.name()
        );
        let hint = format!("{advice}, then run the same command again");
        StepError::Other(Message::new(text).hint(hint))
    }
}

/// Returns the program that runs a script, with its argument: those of its first line, as the kernel reads them
/// (execve(2)), or `sh`. The host may not permit programs in the directory of the script.
fn interpreter(script: &str) -> Vec<&str> {
    let first = script.lines().next().unwrap_or_default();
    let words = first.strip_prefix("#!").unwrap_or_default().trim();
    match words.split_once([' ', '\t']) {
        _ if words.is_empty() => vec!["sh"],
        Some((program, argument)) => vec![program, argument.trim()],
        None => vec![words],
    }
}

impl Describe for RunHook {
    fn id(&self) -> String {
        format!("hook {}", self.name)
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl From<RunHook> for Step {
    fn from(step: RunHook) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RunHook {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        // The digest of a secret is secret, too.
        let digest = Digest::of(self.script.0.as_bytes()).hex();
        let parameters = Hook {
            name: self.name.to_string(),
            ..Hook::default()
        };
        let command = Command::from_script(HOOK.verb("check"), parameters);
        let command = command.input(Input::Bytes(format!("{digest}\n").into_bytes()));
        run_check(host, format!("check: {}", self.title), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let end = Undo::run(HOOK_END, [""; 0]);
        let id = Describe::id(self);
        context.undo.record(&id, end.to_value()?).await?;
        self.run(context.host, "changed").await
    }
}

impl Describe for RunHookAlways {
    fn id(&self) -> String {
        self.0.id()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl From<RunHookAlways> for Step {
    fn from(step: RunHookAlways) -> Self {
        Self::Action(Box::new(step))
    }
}

#[async_trait]
impl Action for RunHookAlways {
    async fn run(&self, host: &dyn Host) -> Result<(), StepError> {
        self.0.run_once(host).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_names_the_program() {
        for (script, expected) in [
            ("echo\n", &["sh"][..]),
            ("", &["sh"]),
            ("#!\necho\n", &["sh"]),
            ("#!/bin/bash\necho\n", &["/bin/bash"]),
            ("#! /bin/sh -eu\r\necho\n", &["/bin/sh", "-eu"]),
            (
                "#!/usr/bin/env -S python3 -u",
                &["/usr/bin/env", "-S python3 -u"],
            ),
        ] {
            assert_eq!(interpreter(script), expected, "{script:?}");
        }
    }
}
