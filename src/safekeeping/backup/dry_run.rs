//! `backup create --dry-run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::collect::{self, kept_hosts};
use super::create;
use super::directory::NewBackup;
use super::gaps::{INCOMPLETE, gaps};
use super::request::{CreateOptions, Request};
use kubexm_config::Cluster;
use kubexm_etcd::Member;
use kubexm_host::Facts;
use kubexm_session::identity::KnownCluster;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Stop};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Message};

/// Looks at the hosts and at the directory, and emits as a note what a backup does. Takes no snapshot, and writes and removes
/// nothing.
///
/// # Errors
/// As [`super::create`], as far as reading shows it.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn create_dry_run(
    options: &CreateOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(), CommandError> {
    let request = Request::read(options, events)?;
    let (cluster, state) = (&request.cluster, &request.state);
    let hosts = create::connect(options, &request, events, stop).await?;
    let hosts = session::watched(&hosts, events);
    let looking = async {
        let facts = session::gather(cluster, &hosts).await?;
        KnownCluster::read(cluster, state)?.origins(cluster, &facts, events)?;
        let members = Member::on(cluster, &hosts);
        let plan = Plan::look(cluster, (&hosts, &facts), &members, events).await?;
        events.note(plan.text(&Here::look(&plan, options, &request, events)?));
        Ok(())
    };
    unless_stopped(stop, looking).await?;
    events.note("dry run: nothing was touched");
    Ok(())
}

/// What a backup does on hosts.
struct Plan<'a> {
    cluster: &'a Cluster,
    hosts: &'a Hosts,
    /// The members of etcd that can be reached.
    members: &'a [Member<'a>],
    /// Those that can take the snapshot, in the order in which they are asked.
    order: Vec<&'a HostName>,
    /// What the backup does not have, as far as reading shows it. It reads no keys of hosts.
    gaps: Vec<Message>,
}

/// What a backup does on this machine.
struct Here {
    /// The directory of backups, if it does not exist.
    created: Option<PathBuf>,
    /// The backup.
    written: PathBuf,
    /// Old backups.
    removed: Vec<PathBuf>,
    /// What the backup does not have.
    gaps: Vec<Message>,
    /// Whether old backups stay because the new one is not complete.
    keeps_all: bool,
}

impl Here {
    fn look(
        plan: &Plan<'_>,
        options: &CreateOptions,
        request: &Request,
        events: &Events,
    ) -> Result<Self, CommandError> {
        let folder: &Path = &request.folder;
        let new = NewBackup::begin(folder, request.record.identity())?;
        let mut gaps = plan.gaps.clone();
        let (_, of_state) =
            collect::of_controller(&options.cluster, &request.state, folder, events)?;
        gaps.extend(of_state);
        let is_complete = gaps.is_empty();
        let removed = match options.keep {
            Some(keep) if folder.exists() => new.superseded(keep.get(), is_complete)?,
            _ => Vec::new(),
        };
        Ok(Self {
            created: (!folder.exists()).then(|| folder.to_owned()),
            written: new.path(is_complete),
            removed,
            gaps,
            keeps_all: options.keep.is_some() && !is_complete,
        })
    }

    fn lines(&self) -> Vec<String> {
        let created = self.created.iter();
        let created = created.map(|folder| format!("create {}", folder.display()));
        let written = [format!("write {}", self.written.display())];
        let removed = self.removed.iter();
        let removed = removed.map(|path| format!("remove {}", path.display()));
        let gaps = self.gaps.iter();
        let gaps: Vec<String> = gaps
            .map(|gap| gap.clone().within(INCOMPLETE).as_item().to_string())
            .collect();
        let gaps = gaps.iter().flat_map(|gap| gap.lines().map(str::to_owned));
        let all = created.chain(written).chain(removed).chain(gaps);
        let kept = self
            .keeps_all
            .then(|| "the backup is not complete, so no complete one is removed".to_owned());
        all.chain(kept).collect()
    }
}

impl<'a> Plan<'a> {
    async fn look(
        cluster: &'a Cluster,
        (hosts, facts): (&'a Hosts, &BTreeMap<HostName, Facts>),
        members: &'a [Member<'a>],
        events: &Events,
    ) -> Result<Self, CommandError> {
        let survey = create::survey(members, events).await?;
        let control_planes = cluster.roles.control_plane.iter();
        let control_planes = control_planes.filter(|name| hosts.contains_key(*name));
        let control_planes = control_planes.map(|name| (name, Vec::new())).collect();
        let order = survey.order(members).into_iter();
        let reachable = |arch| facts.values().any(|facts| facts.arch() == Some(arch));
        Ok(Self {
            cluster,
            hosts,
            members,
            order: order.map(|member| member.name).collect(),
            gaps: gaps(
                cluster,
                survey.has_quorum(),
                &control_planes,
                facts,
                reachable,
            ),
        })
    }

    /// Returns the plan for people.
    fn text(&self, here: &Here) -> String {
        let mut lines = vec![format!("backup of the cluster '{}':", self.cluster.name)];
        let hosts = self.cluster.hosts.iter().map(|host| &host.name);
        for name in hosts.filter(|name| self.hosts.contains_key(*name)) {
            let of_host = self.lines_of(name);
            if !of_host.is_empty() {
                lines.push(format!("  {name}"));
                lines.extend(of_host.into_iter().map(|line| format!("    {line}")));
            }
        }
        lines.push("  this machine".to_owned());
        lines.extend(here.lines().into_iter().map(|line| format!("    {line}")));
        lines.join("\n")
    }

    fn lines_of(&self, host: &HostName) -> Vec<String> {
        let mut lines = Vec::new();
        let member = self.members.iter().find(|member| member.name == host);
        if let Some(member) = member {
            let path = member.path();
            lines.push(format!(
                "remove {path}, if a backup that was killed left it"
            ));
            if self.order.first() == Some(&host) {
                lines.push(format!(
                    "save a snapshot of etcd in {path}, copy it to this machine, and remove it{}",
                    self.otherwise()
                ));
            }
        }
        if kept_hosts(self.cluster).contains(&host) {
            lines.push("read configuration, certificates and keys".to_owned());
        }
        lines
    }

    /// Returns which members take the snapshot if the first one fails.
    fn otherwise(&self) -> String {
        let others = self.order.iter().skip(1).map(|name| name.as_str());
        let others: Vec<&str> = others.collect();
        if others.is_empty() {
            String::new()
        } else {
            format!("; if that fails, on {}", others.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use kubexm_host::{Command, Host, HostError, Output};
    use kubexm_session::example::cluster_of_four;
    use kubexm_types::Arch;

    /// A member of etcd that answers a question about its status, and records what runs.
    struct FakeHost {
        name: HostName,
        id: u64,
        ran: Arc<Mutex<Vec<Vec<String>>>>,
    }

    #[async_trait::async_trait]
    impl Host for FakeHost {
        fn name(&self) -> &HostName {
            &self.name
        }

        async fn run(&self, command: Command) -> Result<Output, HostError> {
            self.ran.lock().unwrap().push(command.into_parts().0);
            let id = self.id;
            let status = format!(
                r#"[{{"Status":{{"header":{{"cluster_id":7,"member_id":{id}}},"version":"3.6.8","leader":1}}}}]"#
            );
            Ok(Output {
                status: 0,
                stdout: status.into_bytes(),
                stderr: Vec::new(),
                log: None,
            })
        }
    }

    #[tokio::test]
    async fn hosts_are_asked_for_the_status_of_etcd_only() {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let host = |(at, name): (usize, &str)| {
            let name: HostName = name.parse().unwrap();
            let host = FakeHost {
                name: name.clone(),
                id: at as u64 + 1,
                ran: Arc::clone(&ran),
            };
            (name, Arc::new(host) as Arc<dyn Host>)
        };
        // node3 cannot be reached.
        let hosts: Hosts = ["node1", "node2", "node4"]
            .into_iter()
            .enumerate()
            .map(host)
            .collect();
        let mut cluster = cluster_of_four();
        for host in &mut cluster.hosts {
            host.arch = Some(Arch::Amd64);
        }
        let of_node1 = Facts {
            machine: "x86_64".to_owned(),
            ..Facts::default()
        };
        let facts = [("node1".parse().unwrap(), of_node1)].into();
        let members = Member::on(&cluster, &hosts);
        let events = Events::silent();
        let looking = Plan::look(&cluster, (&hosts, &facts), &members, &events);
        let plan = looking.await.unwrap();
        let ran = ran.lock().unwrap();
        assert_eq!(ran.len(), 2, "{ran:?}");
        let is_question = |words: &Vec<String>| words.iter().any(|word| word == "status");
        assert!(ran.iter().all(is_question), "{ran:?}");
        let here = Here {
            created: Some("/srv/backups".into()),
            written: "/srv/backups/new".into(),
            removed: vec!["/srv/backups/old".into()],
            gaps: Vec::new(),
            keeps_all: false,
        };
        insta::assert_snapshot!(plan.text(&here), @r"
        backup of the cluster 'example':
          node1
            remove /var/lib/etcd/kubexm-snapshot.db, if a backup that was killed left it
            read configuration, certificates and keys
          node2
            remove /var/lib/etcd/kubexm-snapshot.db, if a backup that was killed left it
            save a snapshot of etcd in /var/lib/etcd/kubexm-snapshot.db, copy it to this machine, and remove it; if that fails, on node1
            read configuration, certificates and keys
          this machine
            create /srv/backups
            write /srv/backups/new
            remove /srv/backups/old
        ");
        assert_eq!(plan.gaps, []);
    }

    #[test]
    fn backup_that_is_not_complete_removes_none() {
        let here = Here {
            created: None,
            written: "new".into(),
            removed: Vec::new(),
            gaps: vec![Message::new("etcd has no quorum").hint("start etcd")],
            keeps_all: true,
        };
        let expected = "the backup is not complete, so no complete one is removed";
        let gap = "the backup is not complete: etcd has no quorum";
        let lines = ["write new", gap, "  hint: start etcd", expected];
        assert_eq!(here.lines(), lines);
    }
}
