//! containerd on the nodes: its versions before an upgrade, and what a run that was killed has left stopped.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;

use super::ask::ask;
use kubexm_bundle::lock::Lock;
use kubexm_config::Cluster;
use kubexm_config::cluster::RuntimeKind;
use kubexm_deploy::resume_pods;
use kubexm_host::Facts;
use kubexm_scripts::runtime::CONTAINERD_SURVEY;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::event::Events;
use kubexm_types::{HostName, Untrusted, Version};

/// The largest number of warnings of a host.
const MOST: usize = 50;

/// A feature in use that a later containerd does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Deprecation {
    name: String,
    text: String,
}

/// The containerd of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Containerd {
    /// `None` if it reports none.
    version: Option<String>,
    deprecations: Vec<Deprecation>,
}

/// What the plan says about the runtime of each node.
#[derive(Debug, Clone, Default)]
pub(super) struct Runtimes {
    lines: BTreeMap<HostName, Vec<String>>,
    /// The nodes whose containerd has not the version of the bundle, or reports none.
    others: BTreeSet<HostName>,
}

impl Runtimes {
    /// Asks the containerd of every node.
    ///
    /// # Errors
    /// A host was lost, or its answer has another form.
    pub(super) async fn read(
        cluster: &Cluster,
        hosts: &Hosts,
        lock: &Lock,
        facts: &BTreeMap<HostName, Facts>,
    ) -> Result<Self, CommandError> {
        if cluster.runtime.kind != RuntimeKind::Containerd {
            return Ok(Self::default());
        }
        let reads = hosts.iter().filter(|(name, _)| cluster.is_node(name));
        let reads = reads.map(async |(name, host)| {
            let what = "ask containerd about its version";
            let found = ask(
                host.as_ref(),
                what,
                CONTAINERD_SURVEY,
                [],
                Containerd::parse,
            )
            .await?;
            let arch = facts.get(name).and_then(Facts::arch);
            let file = arch.and_then(|arch| lock.file("containerd", arch));
            Ok::<_, CommandError>((name.clone(), found, file.map(|file| &file.version)))
        });
        let mut runtimes = Self::default();
        for (name, found, to) in try_join_all(reads).await? {
            let Some(to) = to else { continue };
            runtimes.lines.insert(name.clone(), found.lines(to));
            if found.version != Some(to.to_string()) {
                runtimes.others.insert(name);
            }
        }
        Ok(runtimes)
    }

    /// Returns the nodes whose containerd has not the version of the bundle, or reports none.
    pub(super) fn others(&self) -> &BTreeSet<HostName> {
        &self.others
    }

    /// Returns what the plan says about the containerd of a host. It says so once: later versions find the new one.
    pub(super) fn take(&mut self, host: &HostName) -> Vec<String> {
        self.lines.remove(host).unwrap_or_default()
    }
}

/// Starts what an interrupted run has left stopped on any node, before the API servers are asked.
///
/// # Errors
/// A host was lost.
pub(super) async fn resume(
    cluster: &Cluster,
    hosts: &Hosts,
    events: &Events,
) -> Result<(), CommandError> {
    if cluster.runtime.kind != RuntimeKind::Containerd {
        return Ok(());
    }
    let nodes = hosts.iter().filter(|(name, _)| cluster.is_node(name));
    let starts = nodes.map(async |(name, host)| {
        if resume_pods(host.as_ref()).await? {
            events.note(format!(
                "{name}: its kubelet runs again, which an interrupted run has stopped"
            ));
        }
        Ok::<_, CommandError>(())
    });
    try_join_all(starts).await.map(drop)
}

impl Containerd {
    /// Parses the output of the script. The error is the line that has another form.
    fn parse(text: &str) -> Result<Self, String> {
        let (mut found, mut is_complete) = (Self::default(), false);
        for line in text.lines() {
            let parts: Vec<&str> = line.splitn(3, '\t').collect();
            match parts[..] {
                ["version", version] if found.version.is_none() => {
                    found.version = Some(version.to_owned());
                }
                ["deprecated", name, text] if found.deprecations.len() < MOST => {
                    found.deprecations.push(Deprecation {
                        name: name.to_owned(),
                        text: text.to_owned(),
                    });
                }
                ["end"] => is_complete = true,
                _ => return Err(line.to_owned()),
            }
        }
        if is_complete {
            Ok(found)
        } else {
            Err(text.lines().last().unwrap_or_default().to_owned())
        }
    }

    /// Returns what the plan says about the change to a version.
    fn lines(&self, to: &Version) -> Vec<String> {
        let Some(from) = self
            .version
            .as_deref()
            .filter(|from| *from != to.to_string())
        else {
            return Vec::new();
        };
        let shown = Untrusted::one_line(from, 40);
        let minor = Version::major_minor;
        let is_same = from
            .parse()
            .is_ok_and(|from: Version| minor(&from) == minor(to));
        if is_same {
            return vec![format!("containerd {shown} -> {to}: pods keep running")];
        }
        let mut lines = vec![format!(
            "containerd {shown} -> {to}: all pods of the host end before, also static pods and those of DaemonSets"
        )];
        for deprecation in &self.deprecations {
            lines.push(format!(
                "containerd {shown} warns of {}: {}",
                Untrusted::one_line(&deprecation.name, 100),
                Untrusted::one_line(&deprecation.text, 300)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version\t2.2.9\ndeprecated\tio.containerd.deprecation/cri-registry-mirrors\tThe property is deprecated.\nend\n";

    fn lines(text: &str, to: &str) -> Vec<String> {
        Containerd::parse(text).unwrap().lines(&to.parse().unwrap())
    }

    #[test]
    fn plan_says_that_pods_end_for_another_minor_version() {
        assert_eq!(
            lines(TEXT, "2.3.7"),
            [
                "containerd 2.2.9 -> 2.3.7: all pods of the host end before, also static pods and those of DaemonSets",
                "containerd 2.2.9 warns of io.containerd.deprecation/cri-registry-mirrors: The property is deprecated.",
            ]
        );
        assert!(lines("version\t1.7.28\nend\n", "2.3.7")[0].contains("all pods of the host end"));
        // A fork may have a version of another form.
        assert!(lines("version\tmain\nend\n", "2.3.7")[0].contains("all pods of the host end"));
    }

    #[test]
    fn pods_go_on_to_run_for_a_patch() {
        assert_eq!(
            lines(TEXT, "2.2.10"),
            ["containerd 2.2.9 -> 2.2.10: pods keep running"]
        );
        assert!(lines(TEXT, "2.2.9").is_empty());
        assert!(lines("end\n", "2.2.9").is_empty());
    }

    #[test]
    fn answer_of_another_form_is_refused() {
        let many = "deprecated\ta\tb\n".repeat(MOST + 1) + "end\n";
        for wrong in [
            "version\t2.2.9\n",
            "version\t2.2.9\nversion\t2.2.9\nend\n",
            "deprecated\ta\nend\n",
            "surprise\nend\n",
            &many,
        ] {
            assert!(Containerd::parse(wrong).is_err(), "{wrong}");
        }
    }
}
