//! The local registry: a read-only CNCF distribution with a certificate from kubexm's CA.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;

use crate::{BIN, DeployError, ETC, Inputs, journal, members, os};
use kubexm_bundle::Blobs;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError, Task};
use kubexm_engine::seed;
use kubexm_engine::seed::RegistryContent;
use kubexm_engine::steps::{InstallFiles, ManageUnit, RunScript, TrackNewDirs, WaitFor, WriteFile};
use kubexm_render::registry;
use kubexm_scripts::os::PORT_OPEN;
use kubexm_types::{HostName, HostPath};

const UNIT: &str = "kubexm-registry.service";

/// Returns the task that fills and starts the registry on a host.
pub(super) fn serve(inputs: &Inputs<'_>, name: &HostName) -> Result<Task, DeployError> {
    let cluster = inputs.cluster;
    let host = cluster.host(name).map(|host| host.internal_address);
    let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listen = SocketAddr::new(host, cluster.registry.port);
    let data_dir = cluster.registry.data_dir.clone();
    let path = |text: String| HostPath::parse(&text);
    let config = path(format!("{ETC}/registry/config.yml"))?;
    let certificate = path(format!("{ETC}/registry/tls.crt"))?;
    let key = path(format!("{ETC}/registry/tls.key"))?;
    let unit = path(format!("/etc/systemd/system/{UNIT}"))?;
    let binary = format!("{BIN}/kubexm-registry");
    let file = inputs.file("registry", name)?;
    let mut payloads = members(file, BIN, |name| name == "registry")?;
    for payload in &mut payloads {
        payload.path = HostPath::parse(&binary)?;
    }
    let config_text = kubexm_render::text(
        "registry configuration",
        &registry::Config {
            data_dir: data_dir.to_string(),
            listen: listen.to_string(),
            certificate: certificate.to_string(),
            key: key.to_string(),
        },
    )?;
    let service = registry::Service {
        binary: binary.clone(),
        config: config.to_string(),
        privileged_port: cluster.registry.port < 1024,
    };
    let unit_text = kubexm_render::text("registry unit", &service)?;
    let pair = &inputs.certificates.registry;
    let dirs = TrackNewDirs::new(
        "registry-folder",
        "the registry's data directory",
        &[data_dir.as_str()],
    )?;
    let data = RunScript::new(
        "registry data",
        format!("Create {data_dir}"),
        "test -d \"$1/docker/registry/v2/repositories\"",
        "umask 022; mkdir -p \"$1/docker/registry/v2/repositories\"",
    );
    let data = data.arguments([data_dir.as_str()]);
    let binary_path = HostPath::parse(&binary)?;
    let files = vec![
        binary_path,
        config.clone(),
        certificate.clone(),
        key.clone(),
        unit.clone(),
    ];
    let wait = WaitFor {
        title: "Wait until the registry listens".to_owned(),
        script: PORT_OPEN,
        arguments: vec![listen.ip().to_string(), listen.port().to_string()],
        at_most: std::time::Duration::from_secs(30),
        diagnosis: journal(UNIT, 20),
        hosts: Vec::new(),
    };
    // The install of a host with another architecture adds its images later.
    let lock = inputs.lock.only(&inputs.arches());
    Ok(super::SERVE
        .task(name)
        .after([os::PREPARE.id(name)])
        .step(dirs)
        .step(data)
        .step(InstallFiles {
            title: format!("registry {}", file.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(WriteFile::new(config, config_text))
        .step(WriteFile::new(certificate, pair.certificate.clone()))
        .step(WriteFile::secret(key, pair.key.clone()))
        .step(WriteFile::new(unit, unit_text))
        .step(SeedImages {
            content: RegistryContent::new(&lock),
            count: lock.images.len(),
            data_dir,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files,
            start: true,
        })
        .step(wait))
}

/// Uploads the bundle's images for the architectures of the hosts into the registry's storage.
struct SeedImages {
    content: RegistryContent,
    count: usize,
    data_dir: HostPath,
    blobs: Arc<dyn Blobs>,
}

impl Describe for SeedImages {
    fn id(&self) -> String {
        "registry images".to_owned()
    }

    fn describe(&self) -> String {
        format!("Upload {} images into the registry", self.count)
    }
}

impl From<SeedImages> for Step {
    fn from(step: SeedImages) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for SeedImages {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let missing = seed::missing(host, &self.data_dir, &self.content).await?;
        Ok(match missing.is_empty() {
            true => Check::Satisfied,
            false => Check::Needed(format!("{} blobs are missing", missing.blobs())),
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let missing = seed::missing(context.host, &self.data_dir, &self.content).await?;
        let blobs = Arc::clone(&self.blobs);
        seed::seed(context.host, &self.data_dir, missing, blobs, context.events).await?;
        Ok(())
    }
}
