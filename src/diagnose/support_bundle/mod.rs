//! `support-bundle`: an archive of facts, logs and configurations, without secrets.

mod archive;
mod cluster_file;
mod pod_states;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::doctor::{self, DoctorOptions, Examined};
use crate::status::BundlesToCompare;
use archive::Archive;
use kubexm_bundle::format::volumes::VolumeSet;
use kubexm_config::cluster::RuntimeKind;
use kubexm_config::load_balancer;
use kubexm_deploy::expected;
use kubexm_host::{Command, Host, Limit};
use kubexm_lifecycle::plan;
use kubexm_scripts::doctor::{SUPPORT, SUPPORT_API};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{ClusterSource, CommandError, Connection, FileError, Stop};
use kubexm_types::event::Events;
use kubexm_types::{HostName, redacted, untrusted};

/// How long a part of a host may take. Each of its answers has a limit of its own.
const LIMIT: Limit = Limit::new(Duration::from_secs(180), "a part of a support bundle");
/// The number of seconds after which a part asks nothing more. The rest of [`LIMIT`] is for slow hosts: a part that reaches
/// the limit is lost.
const ASKING: u32 = 150;
/// The largest number of answers that are named as missing for one part.
const MOST_NAMED: usize = 10;

/// What to collect, and where to write it.
#[derive(Debug, Clone)]
pub struct SupportOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts.
    pub connection: Connection,
    /// The archive.
    pub output: PathBuf,
    /// The largest number of lines of each unit and container.
    pub lines: u32,
    /// The bundles whose plan to add; `None` to add none.
    pub plan: Option<BundlesToCompare>,
    /// The version of this program, for the archive.
    pub version: String,
}

/// An archive that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SupportBundle {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// The number of files in it.
    pub files: u64,
    /// The hosts from which it has files.
    pub hosts: Vec<HostName>,
    /// What is missing, and why.
    pub missing: Vec<String>,
}

/// What the archive says about itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct About<'a> {
    version: &'a str,
    created: String,
    hosts: &'a [HostName],
    missing: &'a [String],
}

/// Returns the part with configurations, and the files of runtimes and load balancers.
fn configuration() -> Vec<String> {
    let of_runtimes = RuntimeKind::all_properties().flat_map(|own| own.support_files);
    let of_balancers = load_balancer::all_properties().filter_map(|own| own.config);
    let all = of_runtimes.copied().chain(of_balancers);
    std::iter::once("configuration")
        .chain(all)
        .map(str::to_owned)
        .collect()
}

/// Collects facts, state, findings, logs, configurations and objects, and writes them to an archive that only the user can
/// read. Secrets of hosts are removed before anything is written. Memory has at most one part of one host.
///
/// # Errors
/// The cluster file is wrong, a bundle does not exist, the archive exists or cannot be written, or the user stopped the
/// command. What a host does not answer is missing.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn collect(
    options: &SupportOptions,
    events: &Events,
    stop: &Stop,
) -> Result<SupportBundle, CommandError> {
    check_bundles(options.plan.as_ref())?;
    let mut archive = Archive::create(&options.output)?;
    let examining = DoctorOptions {
        cluster: options.cluster.clone(),
        connection: options.connection.clone(),
    };
    let examined = doctor::examine(&examining, events, stop).await?;
    let collecting = async {
        let mut missing = Vec::new();
        own_files(options, &examined, &mut archive, &mut missing, events)?;
        let mut hosts = Vec::new();
        // One host after another, so that memory has one part of one host.
        for spec in &examined.cluster.hosts {
            match examined.hosts.get(&spec.name) {
                Some(host) => {
                    events.note(format!("{}: collecting", spec.name));
                    collect_host(options, &examined, host, &mut archive, &mut missing).await?;
                    hosts.push(spec.name.clone());
                }
                None => missing.push(format!("{}: cannot be reached", spec.name)),
            }
        }
        let about = About {
            version: &options.version,
            created: kubexm_types::UtcTime::now().to_string(),
            hosts: &hosts,
            missing: &missing,
        };
        archive.add_json("about.json", &about)?;
        let (size, files) = archive.finish()?;
        Ok(SupportBundle {
            path: options.output.clone(),
            size,
            files,
            hosts,
            missing,
        })
    };
    unless_stopped(stop, collecting).await
}

/// Fails if a bundle or a volume of it does not exist, before work that takes minutes.
fn check_bundles(plan: Option<&BundlesToCompare>) -> Result<(), CommandError> {
    let Some(BundlesToCompare { bundles, access }) = plan else {
        return Ok(());
    };
    for bundle in bundles {
        VolumeSet::find(bundle, &access.volumes)?;
    }
    Ok(())
}

/// Adds what this machine has.
fn own_files(
    options: &SupportOptions,
    examined: &Examined,
    archive: &mut Archive,
    missing: &mut Vec<String>,
    events: &Events,
) -> Result<(), CommandError> {
    archive.add_json("status.json", &examined.status)?;
    archive.add_json("doctor.json", &examined.report)?;
    let text = std::fs::read_to_string(&options.cluster)
        .map_err(|error| FileError::io("read", &options.cluster, &error))?;
    add_cluster_file(&text, archive, missing)?;
    if let Some(BundlesToCompare { bundles, access }) = options.plan.clone() {
        let source = ClusterSource {
            bundles,
            cluster: options.cluster.clone(),
            access,
        };
        // The archive is useful without the plan, too.
        match plan::plan(&source, events).and_then(|planned| planned.document()) {
            Ok(document) => archive.add_json("plan.json", &document)?,
            Err(error) => missing.push(format!("plan.json: {error}")),
        }
    }
    Ok(())
}

fn add_cluster_file(
    text: &str,
    archive: &mut Archive,
    missing: &mut Vec<String>,
) -> Result<(), CommandError> {
    match cluster_file::without_secrets(text) {
        Some(text) => archive.add_text("cluster.yaml", &text),
        None => {
            let cause = "cannot be parsed, so that kubexm cannot find its secrets";
            missing.push(format!("cluster.yaml: {cause}"));
            Ok(())
        }
    }
}

async fn collect_host(
    options: &SupportOptions,
    examined: &Examined,
    host: &Arc<dyn Host>,
    archive: &mut Archive,
    missing: &mut Vec<String>,
) -> Result<(), CommandError> {
    let name = host.name();
    let mut parts: Vec<Vec<String>> = vec![
        vec!["host".to_owned()],
        configuration(),
        vec!["pods".to_owned(), options.lines.to_string()],
    ];
    if let Some(spec) = examined.cluster.host(name) {
        let units = expected::units(&examined.cluster, spec).into_iter();
        let journal = |unit: String| vec!["journal".to_owned(), unit, options.lines.to_string()];
        parts.extend(units.map(journal));
        if examined.server.as_ref() == Some(name) {
            let server = expected::api_server(&examined.cluster, spec);
            parts.push(vec!["api".to_owned(), server]);
        }
    }
    for part in parts {
        let what = format!("collect {}", part[..part.len().min(2)].join(" "));
        let (script, arguments) = match &part[..] {
            [name, server] if name == "api" => (SUPPORT_API, vec![server.clone()]),
            _ => (SUPPORT, part),
        };
        let arguments = std::iter::once(ASKING.to_string()).chain(arguments);
        // The log file of the host must not get what is not redacted.
        let command = Command::from_script(script, arguments).secret_output();
        let text = match host.run(command.describe(what.clone()).limit(LIMIT)).await {
            Ok(output) if output.success() => output.text(),
            Ok(output) => {
                let complaint = redacted::without_in(output.complaint().as_str());
                missing.push(format!("{name}: {what}: {complaint}"));
                continue;
            }
            Err(error) => {
                missing.push(error.to_string());
                continue;
            }
        };
        if !text.ends_with("end=\n") {
            missing.push(format!("{name}: {what}: the end is missing"));
        }
        if let Some(left_out) = left_out(&text) {
            missing.push(format!("{name}: {what}: {left_out}"));
        }
        for (file, content) in files(&text) {
            let content = match &*file {
                pod_states::FILE => pod_states::without_messages(&content),
                _ => content,
            };
            archive.add_text(&format!("hosts/{name}/{file}"), &content)?;
        }
    }
    Ok(())
}

/// Returns what the script left out, and why; `None` if nothing.
fn left_out(text: &str) -> Option<String> {
    let all = text
        .lines()
        .filter_map(|line| line.strip_prefix("left_out="));
    let all: Vec<String> = all.map(untrusted::message).collect();
    let named = all[..all.len().min(MOST_NAMED)].join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 if all.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named}, and {more} more")),
    }
}

/// Splits what the script printed into files. A name that is not a plain relative path gets a harmless one.
fn files(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("= ") {
            all.push((harmless(name), String::new()));
        } else if let (Some(line), Some((_, content))) = (line.strip_prefix('|'), all.last_mut()) {
            content.push_str(&untrusted::printable(line));
            content.push('\n');
        }
    }
    all
}

/// Returns a relative path without `..`, of at most 200 characters.
fn harmless(name: &str) -> String {
    let parts = name
        .split('/')
        .filter(|part| !matches!(*part, "" | "." | ".."));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@:+".contains(c);
    let parts = parts.map(|part| part.replace(|c| !is_plain(c), "_"));
    let path = parts.collect::<Vec<_>>().join("/");
    if path.is_empty() {
        "unnamed".to_owned()
    } else {
        path.chars().take(200).collect()
    }
}

/// Returns the name of an archive for a cluster file, with the current time.
pub fn default_name(cluster: &Path) -> PathBuf {
    let name = cluster.file_stem().map(|stem| stem.to_string_lossy());
    let time = kubexm_types::UtcTime::now().whole_seconds().to_string();
    let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
    PathBuf::from(format!(
        "support-{}-{time}.tar.zst",
        name.as_deref().unwrap_or("cluster")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_bundle::format::volumes::volume_path;

    #[test]
    fn host_cannot_name_a_file_outside_of_its_directory() {
        let text = "= ../../etc/passwd\n|x\n= files/etc/hosts\n|a\u{1b}[31m\nnot content\n|b\n= \n|c\nend=\n";
        let expected = [
            ("etc/passwd", "x\n"),
            ("files/etc/hosts", "a\nb\n"),
            ("unnamed", "c\n"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(files(text), expected);
    }

    #[test]
    fn bundle_that_does_not_exist_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str| {
            let plan = BundlesToCompare {
                bundles: vec![folder.path().join(name)],
                access: kubexm_session::BundleAccess::default(),
            };
            check_bundles(Some(&plan))
        };
        let refused = check("absent.tar.zst").unwrap_err().to_string();
        assert!(refused.contains("absent.tar.zst"), "{refused}");
        let split = folder.path().join("split.tar.zst");
        std::fs::write(volume_path(&split, 1), "x").unwrap();
        check("split.tar.zst").unwrap();
        check_bundles(None).unwrap();
    }

    #[test]
    fn left_out_answers_are_named() {
        assert_eq!(left_out("= a\n|left_out=b\nend=\n"), None);
        let one = "= a\n|x\nleft_out=disks.txt: no time\u{1b}[31m\nend=\n";
        assert_eq!(left_out(one).as_deref(), Some("disks.txt: no time"));
        let many = "left_out=a: no time\n".repeat(MOST_NAMED + 2);
        let found = left_out(&many).unwrap();
        assert!(found.ends_with("a: no time, and 2 more"), "{found}");
        assert_eq!(found.matches("no time").count(), MOST_NAMED);
    }

    #[test]
    fn cluster_file_that_cannot_be_parsed_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::create(&folder.path().join("a")).unwrap();
        let mut missing = Vec::new();
        add_cluster_file("a: {password: x}", &mut archive, &mut missing).unwrap();
        assert!(missing.is_empty(), "{missing:?}");
        add_cluster_file("a: {password: x", &mut archive, &mut missing).unwrap();
        assert!(missing[0].starts_with("cluster.yaml: cannot be parsed"));
        // about.json is not there yet.
        assert_eq!(archive.finish().unwrap().1, 1);
    }
}
