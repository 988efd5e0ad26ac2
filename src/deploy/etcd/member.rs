//! A member's programs, files and folder, on its host.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{release, settings};
use crate::{BIN, DeployError, Inputs, members, os};
use kubexm_bundle::lock::LockedFile;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, OwnFolders, Payload, RunScript, WriteFile};
use kubexm_render::etcd;
use kubexm_scripts::etcd as scripts;
use kubexm_types::{HostPath, InvalidValue};

/// etcd's unit.
pub(super) const UNIT: &str = "etcd.service";
/// Where a member's own files are, apart from those that API servers have.
const ETC: &str = "/etc/kubexm/etcd-member";
/// etcdctl itself; people call what stands before it.
pub(super) const CTL: &str = "/usr/local/lib/kubexm/etcdctl";
const LIB: &str = "/usr/local/lib/kubexm";
/// How a member starts for the first time.
pub(super) const INITIAL: &str = "/run/kubexm/etcd-initial.env";

/// What users say of members.
pub(super) struct Place<'a> {
    /// Flags.
    pub(super) extra_args: &'a BTreeMap<String, String>,
    /// Folder of the data.
    pub(super) data_dir: &'a HostPath,
}

impl<'a> Place<'a> {
    /// `None` where kubexm runs no etcd.
    pub(super) fn of(cluster: &'a Cluster) -> Option<Self> {
        match &cluster.etcd {
            Etcd::Systemd {
                extra_args,
                data_dir,
            } => Some(Self {
                extra_args,
                data_dir,
            }),
            _ => None,
        }
    }
}

/// One of a member's own files.
pub(super) fn file(name: &str) -> String {
    format!("{ETC}/{name}")
}

/// Files that a member reads when it starts; certificates it reads anew for each connection.
pub(super) fn read_at_start() -> Result<Vec<HostPath>, InvalidValue> {
    let files = [
        format!("{BIN}/etcd"),
        file("etcd.env"),
        file("ca.crt"),
        format!("/etc/systemd/system/{UNIT}"),
    ];
    files.iter().map(|path| HostPath::parse(path)).collect()
}

/// Puts a member's programs and files onto its host, and starts nothing that has no data yet.
pub(super) fn install(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    place: &Place<'_>,
) -> Result<Task, DeployError> {
    let arch = inputs.machine(&host.name).arch;
    let lacks = || DeployError::Incomplete(release::lacking(inputs, arch).into_iter().collect());
    let release = release::of_cluster(inputs, arch).ok_or_else(lacks)?;
    let data = place.data_dir.as_str();
    // All of it goes with a reset, even where the folder itself, as a disk of its own, was there.
    let folders = [data, &format!("{data}/member"), LIB];
    let mut task = super::INSTALL
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(OwnFolders::new("etcd-folders", "etcd's folders", &folders)?)
        .step(
            RunScript::new(
                "etcd folder",
                format!("Make {data}, for root alone"),
                scripts::FOLDER.verb("check"),
                scripts::FOLDER.verb("apply"),
            )
            .arguments([data])
            .undo_script(
                "Give etcd's folder its former mode",
                scripts::FOLDER_RESTORE,
            ),
        )
        .step(InstallFiles {
            title: format!("etcd {}", release.version),
            payloads: payloads(release)?,
            blobs: Arc::clone(&inputs.blobs),
        });
    for file in files(inputs, host, place, release)? {
        task = task.step(file);
    }
    let wake = RunScript::new(
        "etcd awake",
        "Start etcd where it has data",
        scripts::AWAKE.verb("check"),
        scripts::AWAKE.verb("apply"),
    );
    Ok(task.step(wake.arguments([data, UNIT])))
}

fn payloads(release: &LockedFile) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(release, BIN, |name| matches!(name, "etcd" | "etcdutl"))?;
    payloads.extend(members(release, LIB, |name| name == "etcdctl")?);
    Ok(payloads)
}

fn files(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    place: &Place<'_>,
    release: &LockedFile,
) -> Result<Vec<WriteFile>, DeployError> {
    let mut files = certificates(inputs, host)?;
    let settings = settings::of_member(inputs.cluster, host, place, &release.version);
    let environment = etcd::Environment {
        settings: settings::environment(settings),
    };
    let flags = place.extra_args.iter();
    let service = etcd::Service {
        binary: format!("{BIN}/etcd"),
        environment: file("etcd.env"),
        initial: INITIAL.to_owned(),
        data_dir: place.data_dir.to_string(),
        flags: flags.map(|(name, value)| etcd::flag(name, value)).collect(),
    };
    let client = etcd::ClientEnvironment {
        endpoint: settings::local_endpoint(),
        ca: file("ca.crt"),
        certificate: file("admin.crt"),
        key: file("admin.key"),
    };
    let script = etcd::ClientScript {
        binary: CTL.to_owned(),
        environment: file("etcdctl.env"),
    };
    let unit = format!("/etc/systemd/system/{UNIT}");
    for (path, text) in [
        (
            file("etcd.env"),
            kubexm_render::text("etcd settings", &environment)?,
        ),
        (
            file("etcdctl.env"),
            kubexm_render::text("etcdctl settings", &client)?,
        ),
        (unit, kubexm_render::text("etcd unit", &service)?),
    ] {
        files.push(WriteFile::new(HostPath::parse(&path)?, text));
    }
    files.push(WriteFile {
        mode: 0o755,
        ..WriteFile::new(
            HostPath::parse(&format!("{BIN}/etcdctl"))?,
            kubexm_render::text("etcdctl", &script)?,
        )
    });
    Ok(files)
}

fn certificates(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Vec<WriteFile>, DeployError> {
    let all = inputs.certificates.etcd.as_ref();
    let Some((all, own)) = all.and_then(|all| Some((all, all.members.get(&host.name)?))) else {
        return Ok(Vec::new());
    };
    let mut files = vec![WriteFile::new(
        HostPath::parse(&file("ca.crt"))?,
        all.ca.clone(),
    )];
    for (name, pair) in [("member", &own.member), ("admin", &own.admin)] {
        let path = |extension: &str| HostPath::parse(&file(&format!("{name}.{extension}")));
        files.push(WriteFile::new(path("crt")?, pair.certificate.clone()));
        files.push(WriteFile::secret(path("key")?, pair.key.clone()));
    }
    Ok(files)
}
