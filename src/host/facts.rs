//! Facts about a host, which one script collects.

mod applied;
mod parse;
mod place;
mod printed;
mod system;
#[cfg(test)]
mod tests;
mod values;

use std::time::{SystemTime, UNIX_EPOCH};

use kubexm_kinds::{PluginKind, RuntimeKind, load_balancer};
use kubexm_scripts::Parameters;
use kubexm_scripts::host as scripts;

use super::{Command, Host, HostError, Limit};

pub use values::{Cgroup, Disk, Facts, Inodes, Membership, Module, Os, Selinux, Setting, Tool};

impl Facts {
    /// Collects the facts of a host, and the state of its file systems at `paths`.
    ///
    /// # Errors
    /// The script fails, or prints an unknown line.
    pub async fn gather(host: &dyn Host, paths: &[String]) -> Result<Self, HostError> {
        const ACTION: &str = "gather facts";
        let failed = |reason: String| HostError::Command {
            host: host.name().clone(),
            command: ACTION.to_owned(),
            reason: reason.into(),
        };
        let before = now();
        let command = Command::from_script(scripts::FACTS, questions().and(paths.iter().cloned()))
            .describe(ACTION)
            .limit(Limit::DEFAULT);
        let output = host.run(command).await?;
        let after = now();
        if !output.success() {
            return Err(failed(output.complaint().to_string()));
        }
        let (mut facts, clock) =
            parse::facts(&output.text()).map_err(|error| failed(error.to_string()))?;
        // The script reads its clock at its end, so the whole round trip is uncertain.
        facts.clock_ahead = clock - clock.clamp(before, after);
        Ok(facts)
    }
}

/// Returns what the script looks for.
fn questions() -> scripts::Facts {
    fn joined(all: impl IntoIterator<Item = &'static str>) -> String {
        all.into_iter().collect::<Vec<_>>().join(" ")
    }
    let plugins = || PluginKind::all_properties();
    let lines: Vec<&str> = plugins().map(|own| own.transport_lines).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|one| !one.is_empty()).collect();
    let of_balancers = load_balancer::all_properties().flat_map(|own| {
        let of_pod = own
            .pod
            .into_iter()
            .flat_map(|pod| [pod.on_node, pod.before]);
        own.found_by.into_iter().chain(of_pod)
    });
    scripts::Facts {
        tools: joined(Tool::ALL.iter().map(|tool| tool.name())),
        modules: joined(Module::ALL.iter().map(|module| module.name())),
        sockets: joined(RuntimeKind::all_properties().map(|own| own.found_by)),
        plugins: joined(plugins().filter_map(|own| own.found_by)),
        lines: lines.join("|"),
        files: joined(of_balancers),
    }
}

/// Parses what the script prints; see [`parse::facts`].
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parsed(text: &str) -> Result<(Facts, f64), String> {
    parse::facts(text).map_err(|error| error.to_string())
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
