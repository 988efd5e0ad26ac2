//! Programs, files and directories of a member on its host.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{release, settings};
use crate::{BIN, DeployError, Inputs, members, os, service_user};
use kubexm_bundle::lock::LockedFile;
use kubexm_config::cluster::{Cluster, Etcd, HostSpec};
use kubexm_engine::plan::{Task, TaskName};
use kubexm_engine::steps::{InstallFiles, Payload, RunScript, TrackNewDirs, Undo, WriteFile};
use kubexm_render::etcd;
use kubexm_scripts::etcd as scripts;
use kubexm_scripts::undo::ETCD_FOLDER_RESTORE;
use kubexm_types::{HostPath, InvalidValue};

/// The module of the members' tasks.
pub(crate) const MODULE: &str = "etcd";
/// Installs a member's programs and files.
pub(crate) const INSTALL: TaskName = TaskName::new(MODULE, "install");
/// etcd's unit.
pub(crate) const UNIT: &str = "etcd.service";
/// The directory of a member's files. The API servers' files are elsewhere.
const ETC: &str = "/etc/kubexm/etcd-member";
/// The program etcdctl. Users call the script `/usr/local/bin/etcdctl`, which configures it.
#[cfg(test)]
pub(super) const CTL: &str = "/usr/local/lib/kubexm/etcdctl";
const LIB: &str = "/usr/local/lib/kubexm";
/// What etcd's unit runs, as root, before etcd.
const PREPARE: &str = "/usr/local/lib/kubexm/etcd-prepare";
/// The user that runs etcd, and its group.
pub(crate) const USER: &str = "etcd";
/// The environment of a member's first start.
pub(super) const INITIAL: &str = "/run/kubexm/etcd-initial.env";

/// The user's settings of members.
pub(super) struct UserSettings<'a> {
    /// Flags.
    pub(super) extra_args: &'a BTreeMap<String, String>,
    /// The directory of the data.
    pub(super) data_dir: &'a HostPath,
    /// Whether etcd keeps its memory from being swapped out.
    pub(super) lock_memory: bool,
}

impl<'a> UserSettings<'a> {
    /// Returns the settings of a cluster; `None` if kubexm does not run etcd.
    pub(super) fn from_cluster(cluster: &'a Cluster) -> Option<Self> {
        match &cluster.etcd {
            Etcd::Systemd {
                extra_args,
                data_dir,
                lock_memory,
                ..
            } => Some(Self {
                extra_args,
                data_dir,
                lock_memory: *lock_memory,
            }),
            _ => None,
        }
    }
}

/// Returns the path of a member's file.
pub(super) fn file(name: &str) -> String {
    format!("{ETC}/{name}")
}

/// Returns the files that a member reads when it starts. It reads certificates for each connection.
pub(super) fn read_at_start() -> Result<Vec<HostPath>, InvalidValue> {
    let files = [
        format!("{BIN}/etcd"),
        file("etcd.env"),
        file("ca.crt"),
        format!("/etc/systemd/system/{UNIT}"),
    ];
    files.iter().map(|path| HostPath::parse(path)).collect()
}

/// Installs a member's programs and files. It starts etcd only if the member has data.
pub(super) fn install(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    user: &UserSettings<'_>,
) -> Result<Task, DeployError> {
    let arch = inputs.host_facts(&host.name).arch;
    let missing = || DeployError::Incomplete(release::missing(inputs, arch).into_iter().collect());
    let release = release::newest_tested(inputs, arch).ok_or_else(missing)?;
    let data = user.data_dir.as_str();
    // A reset removes the data even if the directory itself existed before, as the mount point of a disk.
    let dirs = [data, &format!("{data}/member"), LIB];
    let dirs = TrackNewDirs::new("etcd-folders", "etcd's directories", &dirs)?;
    let mut task = INSTALL
        .task(&host.name)
        .after([os::PREPARE.id(&host.name)])
        .step(service_user::create(USER, &dirs))
        .step(dirs)
        .step(
            RunScript::new(
                "etcd folder",
                format!("Create {data} for etcd only"),
                scripts::FOLDER.verb("check"),
                scripts::FOLDER.verb("apply"),
            )
            .arguments([data])
            .undo(Undo::run(ETCD_FOLDER_RESTORE, [data])),
        )
        .step(InstallFiles {
            title: format!("etcd {}", release.version),
            payloads: payloads(release)?,
            blobs: Arc::clone(&inputs.blobs),
        });
    for file in files(inputs, host, user, release)? {
        task = task.step(file);
    }
    let start = RunScript::new(
        "etcd awake",
        "Start etcd if it has data",
        scripts::AWAKE.verb("check"),
        scripts::AWAKE.verb("apply"),
    );
    Ok(task.step(start.arguments([data, UNIT])))
}

fn payloads(release: &LockedFile) -> Result<Vec<Payload>, DeployError> {
    let mut payloads = members(release, BIN, |name| matches!(name, "etcd" | "etcdutl"))?;
    payloads.extend(members(release, LIB, |name| name == "etcdctl")?);
    Ok(payloads)
}

fn files(
    inputs: &Inputs<'_>,
    host: &HostSpec,
    user: &UserSettings<'_>,
    release: &LockedFile,
) -> Result<Vec<WriteFile>, DeployError> {
    let mut files = certificates(inputs, host)?;
    let settings = settings::member_settings(inputs.cluster, host, user, &release.version);
    let environment = etcd::Environment {
        settings: settings::environment(settings),
    };
    let flags = user.extra_args.iter();
    let service = etcd::Service {
        user: USER.to_owned(),
        prepare: PREPARE.to_owned(),
        lock_memory: user.lock_memory,
        binary: format!("{BIN}/etcd"),
        environment: file("etcd.env"),
        initial: INITIAL.to_owned(),
        data_dir: user.data_dir.to_string(),
        flags: flags.map(|(name, value)| etcd::flag(name, value)).collect(),
    };
    let client = etcd::ClientEnvironment {
        endpoint: kubexm_etcd::local_endpoint(),
        ca: file("ca.crt"),
        certificate: file("admin.crt"),
        key: file("admin.key"),
    };
    // The unit exists only together with what it runs.
    files.push(WriteFile {
        mode: 0o755,
        ..WriteFile::new(HostPath::parse(PREPARE)?, scripts::PREPARE.text)
    });
    for (path, text) in [
        (
            file("etcd.env"),
            kubexm_render::text("etcd settings", &environment)?,
        ),
        (
            file("etcdctl.env"),
            kubexm_render::text("etcdctl settings", &client)?,
        ),
    ] {
        files.push(WriteFile::new(HostPath::parse(&path)?, text));
    }
    let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
    files.push(WriteFile {
        mode: inputs.cluster.security.settings_mode(),
        ..WriteFile::new(unit, kubexm_render::text("etcd unit", &service)?)
    });
    files.push(WriteFile {
        mode: 0o755,
        ..WriteFile::new(
            HostPath::parse(&format!("{BIN}/etcdctl"))?,
            scripts::ETCDCTL.text,
        )
    });
    Ok(files)
}

/// Returns the files with the certificates of a member.
pub(super) fn certificates(
    inputs: &Inputs<'_>,
    host: &HostSpec,
) -> Result<Vec<WriteFile>, DeployError> {
    let all = inputs.certificates.etcd.as_ref();
    let Some((all, own)) = all.and_then(|all| Some((all, all.members.get(&host.name)?))) else {
        return Ok(Vec::new());
    };
    let mut files = vec![WriteFile::new(
        HostPath::parse(&file("ca.crt"))?,
        all.ca.clone(),
    )];
    // The group reads the key of the member, so that an etcd that an earlier version started as root also can.
    for (name, pair, reader) in [
        ("member", &own.member, Some(USER)),
        ("admin", &own.admin, None),
    ] {
        let path = |extension: &str| HostPath::parse(&file(&format!("{name}.{extension}")));
        files.push(WriteFile::new(path("crt")?, pair.certificate.clone()));
        let key = WriteFile::secret(path("key")?, pair.key.clone());
        files.push(match reader {
            Some(group) => key.readable_by(group),
            None => key,
        });
    }
    Ok(files)
}
