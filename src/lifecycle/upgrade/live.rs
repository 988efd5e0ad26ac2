//! The settings with which programs run on the hosts, and whether the programs of a new version accept them. Administrators
//! change files on hosts, such as `/etc/default/kubelet`, that neither the cluster file nor an upgrade knows.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;

use super::ask::ask;
use super::live_configs::{HostConfig, LiveConfigs, StoredConfig};
use kubexm_config::Cluster;
use kubexm_config::cluster::KubernetesKind;
use kubexm_deploy::upgrade_path::Hop;
use kubexm_host::Host;
use kubexm_preflight::Finding;
use kubexm_scripts::Script;
use kubexm_scripts::kubernetes::LIVE_SETTINGS;
use kubexm_session::CommandError;
use kubexm_session::program_settings::{Programs, live::LiveSettings};
use kubexm_session::session::Hosts;
use kubexm_types::{FindingKind, HostName, Untrusted};

/// The largest number of flags of a host.
const MOST: usize = 2000;
/// The largest number of configurations of a host.
const MOST_CONFIGS: usize = 20;
/// Prints a part of a ConfigMap in the namespace kube-system.
const CONFIG_MAP: &str = "/usr/local/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf --cache-dir /run/kubexm/kubectl \
    --request-timeout=30s -n kube-system get configmap \"$1\" --ignore-not-found -o \"$2\" || exit 75";
/// Decodes a configuration in the cluster, and does not run on hosts.
const KUBEADM: &str = "kubeadm";
/// Programs whose flags are compared, in the order of findings.
const PROGRAMS: [&str; 6] = [
    "kubelet",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "etcd",
];

/// Where a flag is set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// A file that the upgrade writes again, without what the cluster file does not have.
    Rendered,
    /// A file of an administrator.
    File(String),
    /// Only the process has it.
    Unknown,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "rendered" => Some(Self::Rendered),
            "unknown" => Some(Self::Unknown),
            path if path.starts_with('/') => Some(Self::File(path.to_owned())),
            _ => None,
        }
    }
}

/// A flag of a program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flag {
    program: &'static str,
    origin: Origin,
    /// As in `--name=value`.
    text: String,
}

impl Flag {
    fn name(&self) -> &str {
        self.text.split('=').next().unwrap_or_default()
    }
}

/// What programs on the hosts have.
pub(super) struct Live {
    flags: BTreeMap<HostName, Vec<Flag>>,
    configs: LiveConfigs,
    /// The control plane that was asked.
    asked: HostName,
}

impl Live {
    /// Reads the command lines on all hosts, and the configuration in the cluster.
    ///
    /// # Errors
    /// A host was lost, or its answer has another form.
    pub(super) async fn read(
        cluster: &Cluster,
        hosts: &Hosts,
        (first, host): (&HostName, &dyn Host),
    ) -> Result<Self, CommandError> {
        let known = |name: &&HostName| cluster.is_node(name) || cluster.roles.etcd.contains(*name);
        let reads = hosts.iter().filter(|(name, _)| known(name));
        let reads = reads.map(async |(name, host)| {
            let text = answer(host.as_ref(), LIVE_SETTINGS, []).await?;
            let found = parse(&text).map_err(|line| {
                let line = Untrusted::one_line(&line, 100);
                CommandError::step(format!(
                    "{name}: read the flags of programs: unexpected line '{line}'"
                ))
            })?;
            Ok::<_, CommandError>((name.clone(), found))
        });
        let (mut flags, mut configs) = (BTreeMap::new(), LiveConfigs::default());
        for (name, found) in try_join_all(reads).await? {
            flags.insert(name.clone(), found.flags);
            configs.on_hosts.insert(name, found.configs);
        }
        if cluster.kubernetes.kind == KubernetesKind::Kubeadm {
            for mut stored in StoredConfig::all() {
                stored.text = answer(host, CONFIG_MAP.into(), stored.arguments()).await?;
                configs.stored.push(stored);
            }
        }
        Ok(Self {
            flags,
            configs,
            asked: first.clone(),
        })
    }

    /// Returns what the programs of a version refuse. `cluster` has the version of the hop. An upgrade replaces the files from
    /// which most programs read their flags: only what it does not replace prevents it.
    ///
    /// # Errors
    /// A program of the bundle cannot be read or run.
    pub(super) async fn findings(
        &self,
        programs: &Programs<'_>,
        cluster: &Cluster,
        hop: &Hop,
    ) -> Result<Vec<Finding>, CommandError> {
        let version = &cluster.kubernetes.version;
        let mut findings = Vec::new();
        for program in PROGRAMS.into_iter().chain([KUBEADM]) {
            let changes = |host: &HostName| match program {
                "kubelet" => cluster.is_control_plane(host) || hop.workers.contains(host),
                _ => true,
            };
            let of_program =
                |flag: &&Flag| flag.program == program && flag.origin != Origin::Rendered;
            let texts: BTreeSet<&str> = self
                .flags
                .iter()
                .filter(|(host, _)| changes(host))
                .flat_map(|(_, flags)| flags.iter().filter(of_program))
                .map(|flag| flag.text.as_str())
                .collect();
            let mut given = LiveSettings::new(program);
            given.flags = texts.into_iter().map(str::to_owned).collect();
            given.configs = self.configs.texts(program, changes);
            let Some(refused) = programs.refused_live(cluster, &given).await? else {
                continue;
            };
            for (host, flags) in self.flags.iter().filter(|(host, _)| changes(host)) {
                let mut seen = BTreeSet::new();
                for flag in flags.iter().filter(of_program) {
                    let Some(reason) = refused.flags.get(&flag.text) else {
                        continue;
                    };
                    if seen.insert(&flag.text) {
                        findings.push(finding(host, flag, &version.to_string(), reason));
                    }
                }
            }
            findings.extend(self.configs.findings(
                program,
                &version.to_string(),
                &refused.configs,
                &self.asked,
                changes,
            ));
        }
        Ok(findings)
    }
}

fn finding(host: &HostName, flag: &Flag, version: &str, reason: &str) -> Finding {
    let program = flag.program;
    let (name, reason) = (
        Untrusted::one_line(flag.name(), 100).to_string(),
        Untrusted::one_line(reason, 200).to_string(),
    );
    let (place, hint) = match &flag.origin {
        Origin::File(path) => {
            let path = Untrusted::one_line(path, 200).to_string();
            (
                format!(" in {path}"),
                format!("remove it from {path} on {host}, then run kubexm upgrade again"),
            )
        }
        _ => (
            String::new(),
            format!(
                "find out what starts {program} with it on {host}, remove it there, then run kubexm upgrade again"
            ),
        ),
    };
    Finding::new(
        FindingKind::Settings,
        host,
        true,
        format!("{program} runs with {name}{place}, and {program} {version} refuses it: {reason}"),
        &hint,
    )
}

/// Returns what a script prints on a host.
async fn answer(
    host: &dyn Host,
    script: Script,
    arguments: impl IntoIterator<Item = String>,
) -> Result<String, CommandError> {
    let what = "read the settings of programs that run";
    ask(host, what, script, arguments, |text| Ok(text.to_owned())).await
}

/// What a host reports.
#[derive(Debug, Default)]
struct Found {
    flags: Vec<Flag>,
    configs: Vec<HostConfig>,
}

/// Parses the output of the script. The error is the line that has another form.
fn parse(text: &str) -> Result<Found, String> {
    let (mut found, mut is_complete) = (Found::default(), false);
    for line in text.lines() {
        let refused = || line.to_owned();
        let parts: Vec<&str> = line.splitn(5, '\t').collect();
        match parts[..] {
            ["flag", program, origin, text]
                if text.starts_with('-') && found.flags.len() < MOST =>
            {
                found.flags.push(Flag {
                    program: known(program).ok_or_else(refused)?,
                    origin: Origin::parse(origin).ok_or_else(refused)?,
                    text: text.to_owned(),
                });
            }
            ["config", program, origin, path, base64] if found.configs.len() < MOST_CONFIGS => {
                let program = known(program).ok_or_else(refused)?;
                let origin = Origin::parse(origin).ok_or_else(refused)?;
                let config = HostConfig::parse(program, origin, path, base64);
                found.configs.push(config.ok_or_else(refused)?);
            }
            ["end"] => is_complete = true,
            _ => return Err(refused()),
        }
    }
    if is_complete {
        Ok(found)
    } else {
        Err(text.lines().last().unwrap_or_default().to_owned())
    }
}

fn known(program: &str) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|known| *known == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_parsed_with_their_files() {
        let text = "flag\tkubelet\t/etc/default/kubelet\t--old-flag=a b\nflag\tetcd\trendered\t--name=x\n\
                    config\tkubelet\trendered\t/var/lib/kubelet/config.yaml\ta2luZDogeAo=\nend\n";
        let found = parse(text).unwrap();
        assert_eq!(found.configs[0].text, "kind: x\n");
        let flags = found.flags;
        assert_eq!(
            flags[0].origin,
            Origin::File("/etc/default/kubelet".to_owned())
        );
        assert_eq!((flags[0].name(), flags[1].program), ("--old-flag", "etcd"));
        for wrong in [
            "flag\tkubelet\trendered\t--a\n",
            "flag\tother\trendered\t--a\nend\n",
            "flag\tkubelet\tfile\t--a\nend\n",
            "flag\tkubelet\trendered\tvalue\nend\n",
            "flag\tkubelet\trendered\t--a\tb\nend\n",
            "config\tkubelet\trendered\t/a\t%\nend\n",
            "config\tother\trendered\t/a\t\nend\n",
            "surprise\nend\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// A value can be a secret.
    #[test]
    fn finding_names_host_program_flag_file_and_version() {
        let flag = Flag {
            program: "kubelet",
            origin: Origin::File("/etc/default/kubelet".to_owned()),
            text: "--old-flag=value".to_owned(),
        };
        let found = finding(
            &"node4".parse().unwrap(),
            &flag,
            "1.36.3",
            "unknown flag: --old-flag",
        );
        assert!(found.fatal);
        assert_eq!(
            found.what,
            "kubelet runs with --old-flag in /etc/default/kubelet, and kubelet 1.36.3 refuses it: unknown flag: --old-flag"
        );
        assert!(
            found.hint.contains("from /etc/default/kubelet on node4"),
            "{}",
            found.hint
        );
    }
}
