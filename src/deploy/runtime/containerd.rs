//! containerd with runc.

use std::sync::Arc;

use super::{INSTALL, ImageScripts, Runtime, cri, pods};
use crate::{BIN, DeployError, Inputs, binary, members, os};
use kubexm_config::cluster;
use kubexm_config::cluster::{CgroupDriver, HostSpec, RuntimeKind, RuntimeProperties};
use kubexm_engine::plan::Task;
use kubexm_engine::steps::{InstallFiles, ManageUnit, TrackNewDirs, WriteFile};
use kubexm_render::{containerd, merge};
use kubexm_scripts::runtime::CONTAINERD_IMAGES;
use kubexm_types::HostPath;

const OWN: &RuntimeProperties = RuntimeKind::Containerd.properties();
const RUNC: &str = "/usr/local/bin/runc";

/// containerd with runc.
pub(super) struct Containerd;

impl Runtime for Containerd {
    fn install(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        _: &[String],
    ) -> Result<Task, DeployError> {
        install(inputs, host)
    }

    fn replace(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
        task: &mut Task,
    ) -> Result<(), DeployError> {
        let version = &inputs.file("containerd", &host.name)?.version;
        pods::end_around(version, task);
        Ok(())
    }

    fn reported(
        &self,
        inputs: &Inputs<'_>,
        host: &HostSpec,
    ) -> Result<Option<String>, DeployError> {
        let version = &inputs.file("containerd", &host.name)?.version;
        let (major, minor) = version.major_minor();
        Ok(Some(format!("containerd://{major}.{minor}")))
    }

    fn clients(&self, inputs: &Inputs<'_>, task: Task) -> Result<Option<Task>, DeployError> {
        cri::mirrors(task, inputs, OWN.certs_d).map(Some)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: CONTAINERD_IMAGES.verb("check"),
            pull: CONTAINERD_IMAGES.verb("pull"),
        }
    }
}

/// Installs and configures containerd on a node.
fn install(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let name = &host.name;
    let runtime = inputs.file("containerd", name)?;
    let mut payloads = members(runtime, BIN, |_| true)?;
    payloads.push(binary(inputs.file("runc", name)?, RUNC)?);
    payloads.extend(cri::payloads(inputs, host)?);
    let config = HostPath::parse(OWN.config)?;
    let unit = HostPath::parse(&format!("/etc/systemd/system/{}", OWN.unit))?;
    let service = containerd::Service {
        binary: format!("{BIN}/containerd"),
        config: OWN.config.to_owned(),
    };
    let mut restart_for = vec![config.clone(), unit.clone()];
    restart_for.extend(cri::restart_for(&payloads));
    let dirs = directories(&inputs.cluster.runtime);
    let task = INSTALL
        .task(name)
        .after([os::PREPARE.id(name)])
        .step(TrackNewDirs::new(
            "containerd-folders",
            "containerd's directories",
            &dirs,
        )?)
        .step(InstallFiles {
            title: format!("containerd {}", runtime.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(cri::crictl_config(OWN.socket)?)
        .step(WriteFile::new(config, config_text(inputs, host)?))
        .step(WriteFile::new(
            unit,
            kubexm_render::text("containerd unit", &service)?,
        ));
    Ok(cri::mirrors(task, inputs, OWN.certs_d)?
        .step(ManageUnit {
            name: OWN.unit.to_owned(),
            files: restart_for,
            reload: None,
            start: true,
        })
        .step(cri::wait_until_ready("containerd", OWN.unit)))
}

/// Returns the directories of containerd and of pods, according to the user's settings.
fn directories(settings: &cluster::Runtime) -> Vec<&str> {
    // By default it has the directory of the socket.
    let state = settings.setting(&["state"], "");
    let mut all = OWN.paths();
    all.extend(cri::DIRS);
    all.push(settings.data_directory());
    let is_other = !state.is_empty() && !OWN.paths().contains(&state);
    all.extend(is_other.then_some(state));
    all
}

fn config_text(inputs: &Inputs<'_>, host: &HostSpec) -> Result<String, DeployError> {
    let pause = cri::sandbox_image(inputs);
    let systemd_cgroup = inputs.cluster.runtime.cgroup_driver == CgroupDriver::Systemd;
    let (runc, registry_config_dir) = (RUNC.to_owned(), OWN.certs_d.to_owned());
    let text = if inputs.file("containerd", &host.name)?.version.major() >= 2 {
        let config = containerd::ConfigV3 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
            systemd_cgroup,
            others: cri::other_runtimes(inputs),
        };
        kubexm_render::text("containerd configuration", &config)?
    } else {
        let config = containerd::ConfigV2 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
            systemd_cgroup,
            others: cri::other_runtimes(inputs),
        };
        kubexm_render::text("containerd configuration", &config)?
    };
    Ok(merge::toml(
        "containerd configuration",
        text,
        &inputs.cluster.runtime.extra_config,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_knows_the_directories_that_the_user_sets() {
        let own = |section: &str| {
            let cluster = crate::example::cluster("", section);
            let mut all = directories(&cluster.runtime);
            all.retain(|path| !cri::DIRS.contains(path));
            all.join(" ")
        };
        let both = "/opt/containerd /etc/containerd /run/containerd";
        assert_eq!(own(""), format!("{both} /var/lib/containerd"));
        let section = "containerRuntime: {extraConfig: {root: /srv/data, state: /run/site}}";
        assert_eq!(own(section), format!("{both} /srv/data /run/site"));
    }
}
