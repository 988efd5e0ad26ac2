//! `conformance`: runs the conformance tests of the bundle's Kubernetes against a cluster.

mod junit;
mod run;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use self::junit::FailedTest;
use self::junit::Tests;
use self::run::{Pass, TestHost};
use kubexm_bundle::lock::LockedFile;
use kubexm_bundle::{Blobs, BundleSet};
use kubexm_config::Cluster;
use kubexm_engine::plan::{Receipt, UndoLog};
use kubexm_engine::steps::Undo;
use kubexm_host::{Facts, Host};
use kubexm_scripts::undo::CONFORMANCE_CLEAR;
use kubexm_session::begun::Operation;
use kubexm_session::change::Change;
use kubexm_session::change::Session;
use kubexm_session::session::{self, Hosts};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{ClusterSource, CommandError, Connection, FileError, Stop, private_directory};
use kubexm_types::event::Events;
use kubexm_types::{HostName, Version, WarningKind, write_atomic};

/// The component of a bundle with the tests.
const COMPONENT: &str = "kubernetes-test";
/// The tests carry labels since this version.
const FIRST_MINOR: u64 = 29;
/// The file with all results in the directory of a run, whose name the certification of clusters expects.
const JUNIT: &str = "junit_01.xml";
/// The largest report in bytes.
const LARGEST: u64 = 256 << 20;

/// Which tests to run, and against which cluster.
#[derive(Debug, Clone)]
pub struct ConformanceOptions {
    /// The bundle with the tests, and the cluster file.
    pub source: ClusterSource,
    /// How to reach the hosts.
    pub connection: Connection,
    /// Whether to run programs of a bundle whose signature is not verified.
    pub unsigned: bool,
    /// Whether to accept a bundle that is older than the one of its name that the cluster was installed from.
    pub allow_older: bool,
    /// Run only conformance tests whose names match this expression of Go.
    pub focus: Option<String>,
    /// Leave out tests whose names match this expression of Go.
    pub skip: Option<String>,
    /// How many tests run at the same time.
    pub parallel: u16,
    /// How long each of the two parts may take.
    pub limit: Duration,
    /// The directory for reports; `None` for one in the state directory.
    pub report: Option<PathBuf>,
}

/// What the tests found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConformanceReport {
    /// The version of Kubernetes.
    pub kubernetes: Version,
    /// The number of tests that passed.
    pub passed: usize,
    /// The tests that failed.
    pub failed: Vec<FailedTest>,
    /// How long the tests took, in seconds.
    pub seconds: u64,
    /// The directory with the log and the JUnit report of each part.
    pub report: PathBuf,
}

/// Runs the tests on the first control plane that answers, and copies their reports to this machine. The programs, the
/// reports and the namespaces of the tests do not stay in the cluster.
///
/// # Errors
/// The bundle has no tests for the cluster, hosts cannot be reached, or a part of the tests did not run to its end. A
/// test that fails is a result and not an error.
#[tracing::instrument(skip_all, fields(cluster = %options.source.cluster.display()))]
pub async fn conformance(
    options: &ConformanceOptions,
    events: &Events,
    stop: &Stop,
) -> Result<ConformanceReport, CommandError> {
    options.connection.check()?;
    let opened = options.source.open_to_install(options.unsigned, events)?;
    let state = options
        .connection
        .state_directory(&opened.cluster, events)?;
    let (bundle, cluster) = opened.unless_older_of_its_name(&state, options.allow_older, events)?;
    let version = check_version(&cluster, &bundle)?;
    let change = Change {
        operation: Operation::Conformance,
        cluster: &cluster,
        state: &state,
        lock: String::new(),
    };
    let connect = async |events: &Events| {
        let folder = report_folder(options, &state)?;
        events.phase("connect");
        let (name, host) = connect(options, &cluster, &state, events, stop).await?;
        let facts = Facts::gather(host.as_ref(), &[]).await?;
        check_host(&name, &facts)?;
        let archive = archive(&bundle, &version, &facts)?;
        Ok((
            Hosts::from([(name, Arc::clone(&host))]),
            (host, folder, archive),
        ))
    };
    let work = async |session: Session<'_>, connected: (Arc<dyn Host>, PathBuf, &LockedFile)| {
        let (host, folder, archive) = connected;
        let (events, stop) = (session.events, session.stop);
        let began = Instant::now();
        let tests = run_all(options, &bundle, archive, &host, &folder, events, stop).await?;
        Ok(ConformanceReport {
            kubernetes: version.clone(),
            passed: tests.passed.len(),
            failed: tests.failed,
            seconds: began.elapsed().as_secs(),
            report: folder,
        })
    };
    change.run(events, stop, connect, work).await
}

/// Returns the version of Kubernetes if the bundle has its tests.
fn check_version(cluster: &Cluster, bundle: &BundleSet) -> Result<Version, CommandError> {
    let version = cluster.kubernetes.version.clone();
    let mut files = bundle.lock().files.iter();
    if !files.any(|file| file.component == COMPONENT && file.version == version) {
        return Err(CommandError::configuration(format!(
            "the bundle has no conformance tests of Kubernetes {version}"
        ))
        .hint(
            "build it from a manifest with spec.kubernetes.conformance: true, and install it, so \
             that the registry has the images of the tests",
        ));
    }
    if version.minor() < FIRST_MINOR {
        return Err(CommandError::configuration(format!(
            "kubexm cannot select the conformance tests of Kubernetes {version}: they have no \
             labels"
        ))
        .hint("run e2e.test of this version yourself; `kubexm bundle extract` writes it"));
    }
    Ok(version)
}

/// Creates the directory for reports.
fn report_folder(options: &ConformanceOptions, state: &Path) -> Result<PathBuf, CommandError> {
    let action = "create the directory of reports";
    match &options.report {
        Some(folder) => {
            private_directory::create(folder, action)?;
            Ok(folder.clone())
        }
        None => private_directory::create_for_now(&state.join("conformance"), action),
    }
}

/// Connects to the first control plane that answers.
async fn connect(
    options: &ConformanceOptions,
    cluster: &Cluster,
    state: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<(HostName, Arc<dyn Host>), CommandError> {
    let connecting = options.connection.connect_reachable(cluster, state, events);
    let (hosts, unreachable) = unless_stopped(stop, connecting).await?;
    let hosts = session::watched(&session::logged(hosts, state), events);
    let found = session::first_control_plane(cluster, &hosts);
    let found = found.map(|(name, host)| (name.clone(), Arc::clone(host)));
    for error in &unreachable {
        events.warn(WarningKind::Host, error);
    }
    found.ok_or(CommandError::Hosts(unreachable))
}

/// Fails if kubexm did not install the host. A record for a reset would make the host look like one of an earlier version.
fn check_host(name: &HostName, facts: &Facts) -> Result<(), CommandError> {
    if facts.receipt {
        Ok(())
    } else {
        Err(CommandError::refused(format!(
            "{name}: kubexm has not installed a cluster on this host"
        ))
        .hint("install the cluster first, or correct the address of the host in the cluster file"))
    }
}

/// Records that a reset ends the tests and removes their files. The record stays after the tests, and is harmless then.
///
/// # Errors
/// The receipt cannot be written, or the host was lost.
pub async fn record(host: &Arc<dyn Host>) -> Result<(), CommandError> {
    let recorded = async {
        let undo = Undo::run(CONFORMANCE_CLEAR, ["clear"]).to_value()?;
        let receipt = Receipt::new(Arc::clone(host));
        receipt.record("conformance tests", undo).await
    };
    recorded
        .await
        .map_err(|error| run::failure(host.name(), error))
}

/// Returns the archive with the tests for a host.
fn archive<'a>(
    bundle: &'a BundleSet,
    version: &Version,
    facts: &Facts,
) -> Result<&'a LockedFile, CommandError> {
    let arch = facts.arch();
    let file = arch.and_then(|arch| bundle.lock().file_version(COMPONENT, version, arch));
    file.ok_or_else(|| {
        let arch = arch.map_or("its architecture".to_owned(), |arch| arch.to_string());
        CommandError::configuration(format!("the bundle has no conformance tests for {arch}"))
            .hint("build it for this architecture, too")
    })
}

/// Runs the tests that tolerate others beside them, then the others.
async fn run_all(
    options: &ConformanceOptions,
    bundle: &Arc<BundleSet>,
    archive: &LockedFile,
    host: &Arc<dyn Host>,
    folder: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Tests, CommandError> {
    record(host).await?;
    let host = TestHost::new(Arc::clone(host), options.limit);
    events.phase("upload");
    let blobs: Arc<dyn Blobs> = Arc::clone(bundle) as Arc<dyn Blobs>;
    let result = async {
        unless_stopped(stop, host.upload(&blobs, archive, events)).await?;
        let mut tests = Tests::default();
        for pass in Pass::all(options) {
            events.phase(pass.phase);
            let found = run_pass(&host, &pass, folder, events, stop).await?;
            tests.passed.extend(found.passed);
            tests.failed.extend(found.failed);
        }
        Ok(tests)
    };
    let result = result.await;
    if let Err(error) = host.remove().await {
        events.warn(
            WarningKind::Kept,
            format!("the files of the tests stay on the host: {error}"),
        );
    }
    result
}

/// Runs one part of the tests, and copies its log and its report.
async fn run_pass(
    host: &TestHost,
    pass: &Pass,
    folder: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Tests, CommandError> {
    host.start(pass).await?;
    let ended = host.wait(pass, events, stop).await?;
    let log = format!("{}.log", pass.name);
    save(&folder.join(&log), &unpack(host.read("log").await?)?)?;
    let junit = host.read(&format!("report-{}/{JUNIT}", pass.name)).await;
    let Ok(junit) = junit else {
        return Err(CommandError::step(format!(
            "the {} did not run to their end: ginkgo exited with {ended}; it printed last:\n{}",
            pass.what,
            host.last().await?
        ))
        .hint(format!("the whole log is {}", folder.join(log).display())));
    };
    let junit = unpack(junit)?;
    let path = folder.join(pass.name).join(JUNIT);
    save(&path, &junit)?;
    let wrong = |reason: String| {
        CommandError::from(FileError::new(
            "use the report of the tests in",
            &path,
            reason,
        ))
    };
    let mut tests = junit::parse(junit.as_slice()).map_err(wrong)?;
    // A suite can fail without a test that failed, for example at its limit.
    if ended != 0 && tests.failed.is_empty() {
        tests.failed.push(FailedTest {
            name: pass.what.to_owned(),
            message: format!(
                "ginkgo exited with {ended}; see {}",
                folder.join(log).display()
            ),
        });
    }
    Ok(tests)
}

/// Decompresses what a host sent.
fn unpack(packed: Vec<u8>) -> Result<Vec<u8>, CommandError> {
    let mut content = Vec::new();
    let mut limited = flate2::read::GzDecoder::new(packed.as_slice()).take(LARGEST);
    limited.read_to_end(&mut content).map_err(|error| {
        CommandError::step(format!("cannot read a report that the host sent: {error}"))
    })?;
    Ok(content)
}

fn save(path: &Path, content: &[u8]) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| FileError::io("write", path, &error);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    Ok(write_atomic(path, content, 0o600).map_err(failed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_that_kubexm_did_not_install_is_refused() {
        let name = "node1".parse().unwrap();
        let mut facts = Facts::default();
        let error = check_host(&name, &facts).unwrap_err().to_string();
        let start = "node1: kubexm has not installed a cluster on this host\nhint: ";
        assert!(error.starts_with(start), "{error}");
        facts.receipt = true;
        check_host(&name, &facts).unwrap();
    }
}
