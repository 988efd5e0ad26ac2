//! The program etcdutl in a backup. `backup verify` runs it in a sandbox; hosts run only that of a bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::collect::Collected;
use super::manifest::program;
use kubexm_etcd::{Failure, Member, Source};
use kubexm_host::Facts;
use kubexm_session::{CommandError, FileError};
use kubexm_types::event::Events;
use kubexm_types::{Arch, HostName, WarningKind};

/// Returns the program etcdutl of the members, for each architecture. Reports architectures for which no member provides it.
///
/// # Errors
/// No member provides the program.
pub async fn of_members(
    facts: &BTreeMap<HostName, Facts>,
    members: &[Member<'_>],
    path: &Path,
    events: &Events,
) -> Result<Vec<Collected>, CommandError> {
    let arch = |member: &Member<'_>| facts.get(member.name).and_then(Facts::arch);
    let arches: BTreeSet<Arch> = members.iter().filter_map(arch).collect();
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for wanted in arches {
        let of_arch = members.iter().filter(|member| arch(member) == Some(wanted));
        match of_first(of_arch, path).await? {
            Ok(content) => files.push(Collected {
                path: program(wanted),
                content,
            }),
            Err(causes) => failures.extend(causes),
        }
    }
    if files.is_empty() {
        return Err(CommandError::step(format!(
            "cannot copy the program etcdutl of the members, without which a backup cannot be verified:\n{}",
            failures.join("\n")
        )));
    }
    for failure in failures {
        events.warn(
            WarningKind::BackupContent,
            format!("cannot copy the program etcdutl: {failure}"),
        );
    }
    Ok(files)
}

/// Returns the program of the first member that provides it, or why none does.
async fn of_first<'a>(
    members: impl Iterator<Item = &'a Member<'a>>,
    path: &Path,
) -> Result<Result<Vec<u8>, Vec<String>>, CommandError> {
    let mut causes = Vec::new();
    for member in members {
        match read(member).await {
            Ok(content) => return Ok(Ok(content)),
            Err(Failure::Here(error)) => return Err(FileError::io("write", path, &error).into()),
            Err(Failure::Member(cause)) => causes.push(format!("{}: {cause}", member.name)),
        }
    }
    Ok(Err(causes))
}

async fn read(member: &Member<'_>) -> Result<Vec<u8>, Failure> {
    let found = member.program().await?;
    let content = Vec::new();
    member.copy(Source::Program, &found, content).await
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use kubexm_host::{Command, Host, HostError, Output};
    use kubexm_session::example::cluster_of_four;
    use kubexm_session::session::Hosts;
    use kubexm_types::Digest;
    use kubexm_types::event::{Event, Listener};

    /// A member of etcd, of which etcdutl has this content.
    struct FakeHost {
        name: HostName,
        etcdutl: Option<&'static str>,
    }

    #[async_trait::async_trait]
    impl Host for FakeHost {
        fn name(&self) -> &HostName {
            &self.name
        }

        async fn run(&self, command: Command) -> Result<Output, HostError> {
            let is_read = command
                .into_parts()
                .0
                .iter()
                .any(|word| word == "read-program");
            let answer = self.etcdutl.map(|content| {
                if is_read {
                    content.to_owned()
                } else {
                    let (size, digest) = (content.len(), Digest::of(content.as_bytes()).hex());
                    format!("/usr/local/bin/etcdutl {size} {digest}\n")
                }
            });
            Ok(Output {
                status: i32::from(answer.is_none()),
                stdout: answer.unwrap_or_default().into_bytes(),
                stderr: b"the container of etcd does not run".to_vec(),
                log: None,
            })
        }
    }

    #[derive(Default)]
    struct Warnings(Mutex<String>);

    impl Listener for Warnings {
        fn on(&self, event: &Event) {
            self.0.lock().unwrap().push_str(&format!("{event:?}"));
        }
    }

    /// Returns the files of members with etcdutl of these contents, and the warnings.
    async fn of(etcdutl: [Option<&'static str>; 3]) -> (Result<Vec<String>, String>, String) {
        let names = ["node1", "node2", "node3"].map(|name| name.parse::<HostName>().unwrap());
        let hosts = names.clone().into_iter().zip(etcdutl);
        let hosts: Hosts = hosts
            .map(|(name, etcdutl)| {
                let host = FakeHost {
                    name: name.clone(),
                    etcdutl,
                };
                (name, Arc::new(host) as Arc<dyn Host>)
            })
            .collect();
        let facts = names.into_iter().zip(["x86_64", "x86_64", "aarch64"]);
        let facts = facts.map(|(name, machine)| {
            let machine = machine.to_owned();
            let facts = Facts {
                machine,
                ..Facts::default()
            };
            (name, facts)
        });
        let (cluster, facts) = (cluster_of_four(), facts.collect());
        let members = Member::on(&cluster, &hosts);
        let warnings = Arc::new(Warnings::default());
        let events = Events::new(Arc::<Warnings>::clone(&warnings));
        let found = of_members(&facts, &members, Path::new("/srv"), &events).await;
        let found = found.map(|files| files.into_iter().map(|file| file.path).collect());
        let warned = warnings.0.lock().unwrap().clone();
        (found.map_err(|error| error.to_string()), warned)
    }

    #[tokio::test]
    async fn architecture_without_etcdutl_is_reported() {
        let (amd64, arm64) = ("programs/etcdutl-amd64", "programs/etcdutl-arm64");
        let (found, warned) = of([None, Some("a"), Some("b")]).await;
        assert_eq!(found.unwrap(), [amd64, arm64]);
        assert_eq!(warned, "");
        let (found, warned) = of([Some("a"), None, None]).await;
        assert_eq!(found.unwrap(), [amd64]);
        let expected = "node3: the container of etcd does not run";
        assert!(warned.contains(expected), "{warned}");
        let (found, _) = of([None, None, None]).await;
        let error = found.unwrap_err();
        assert!(error.contains("\nnode1: "), "{error}");
    }
}
