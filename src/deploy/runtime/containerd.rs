//! The container runtime: containerd with runc, and where it finds images.

use std::sync::Arc;

use super::{CNI_BIN, ImageScripts, Runtime};
use crate::deploy::{BIN, DeployError, Inputs, binary, id, members, pause_image, registry};
use crate::plan::Task;
use crate::render::{self, containerd, merge};
use crate::spec::cluster::HostSpec;
use crate::spec::{HostPath, ImageRef};
use crate::steps::{InstallFiles, ManageUnit, OwnFolders, WaitFor, WriteFile};

const CONFIG: &str = "/etc/containerd/config.toml";
const CERTS_D: &str = "/etc/containerd/certs.d";
const UNIT: &str = "containerd.service";
const RUNC: &str = "/usr/local/bin/runc";
const SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// containerd with runc.
pub(super) struct Containerd;

/// What stands for the name of a registry in `hosts.toml` of all others.
const OTHERS: &str = "registries that the bundle has no image of";

/// Ends with 0 where every image is there and pinned against the kubelet's garbage collection
/// (<https://github.com/containerd/containerd/blob/main/docs/cri/architecture.md>).
const PINNED: &str = r#"
images=$(ctr -n k8s.io images ls)
for image in "$@"; do
  printf %s "$images" | awk -v image="$image" '
    $1 == image && /io.cri-containerd.pinned=pinned/ { found = 1 } END { exit !found }' ||
    { echo "$image is not there or not pinned"; exit 1; }
done
"#;
const PULL: &str = r#"
pids=
for image in "$@"; do
  crictl pull "$image" >/dev/null & pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
for image in "$@"; do
  ctr -n k8s.io images label "$image" io.cri-containerd.pinned=pinned >/dev/null
done
"#;

impl Runtime for Containerd {
    fn components(&self) -> &'static [&'static str] {
        &["containerd", "runc", "cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        SOCKET
    }

    fn unit(&self) -> &'static str {
        UNIT
    }

    fn install(&self, inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        install(inputs, host)
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: PINNED,
            pull: PULL,
        }
    }
}

/// Installs and configures containerd on a node.
fn install(inputs: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
    let name = &host.name;
    let (runtime, crictl) = (
        inputs.file("containerd", name)?,
        inputs.file("crictl", name)?,
    );
    let mut payloads = members(runtime, BIN, |_| true)?;
    payloads.push(binary(inputs.file("runc", name)?, RUNC)?);
    payloads.extend(members(crictl, BIN, |_| true)?);
    payloads.extend(members(inputs.file("cni-plugins", name)?, CNI_BIN, |_| {
        true
    })?);
    let config = HostPath::parse(CONFIG)?;
    let unit = HostPath::parse(&format!("/etc/systemd/system/{UNIT}"))?;
    let ca = registry::ca(inputs)?;
    let ca_path = ca.as_ref().map(|file| file.path.to_string());
    let authorization = registry::authorization(inputs)?;
    let service = containerd::Service {
        binary: format!("{BIN}/containerd"),
        config: CONFIG.to_owned(),
    };
    let mut restart_for = vec![config.clone(), unit.clone()];
    restart_for.extend(
        payloads
            .iter()
            .map(|p| p.path.clone())
            .filter(|p| !p.as_str().starts_with(CNI_BIN)),
    );
    let crictl_config = containerd::Crictl {
        socket: SOCKET.to_owned(),
    };
    let mut task = Task::new("runtime", "install", name)
        .after([id("os", "prepare", name)])
        .step(OwnFolders::new(
            "containerd-folders",
            "containerd's folders",
            &FOLDERS,
        )?)
        .step(InstallFiles {
            title: format!("containerd {}", runtime.version),
            payloads,
            blobs: Arc::clone(&inputs.blobs),
        })
        .step(WriteFile::new(
            HostPath::parse("/etc/crictl.yaml")?,
            render::text("crictl", &crictl_config)?,
        ))
        .step(WriteFile::new(config, config_text(inputs, host)?))
        .step(WriteFile::new(
            unit,
            render::text("containerd unit", &service)?,
        ));
    if let Some(ca) = ca {
        task = task.step(ca);
    }
    for mirror in registry::mirrors(inputs) {
        let urls = mirror.urls();
        let folder = mirror.source.clone().unwrap_or("_default".to_owned());
        let hosts = containerd::Hosts {
            source: mirror.source.unwrap_or(OTHERS.to_owned()),
            server: urls.first().cloned().unwrap_or_default(),
            urls,
            ca: ca_path.clone(),
            authorization: authorization.clone(),
        };
        let path = HostPath::parse(&format!("{CERTS_D}/{folder}/hosts.toml"))?;
        let text = render::text("hosts.toml", &hosts)?;
        task = task.step(match authorization {
            Some(_) => WriteFile::secret(path, text),
            None => WriteFile::new(path, text),
        });
    }
    Ok(task
        .step(ManageUnit {
            name: UNIT.to_owned(),
            files: restart_for,
            start: true,
        })
        .step(WaitFor {
            title: "Wait until containerd answers".to_owned(),
            script: format!("{BIN}/crictl info >/dev/null 2>&1"),
            arguments: Vec::new(),
            at_most: std::time::Duration::from_secs(60),
            diagnosis: format!("journalctl -u {UNIT} -n 20 --no-pager -o cat"),
        }))
}

/// Where containerd and its plugins keep data.
const FOLDERS: [&str; 10] = [
    "/opt/cni",
    "/opt/containerd",
    "/etc/cni",
    "/etc/containerd",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/run/containerd",
    "/run/netns",
    "/run/nri",
    "/run/xtables.lock",
];

fn config_text(inputs: &Inputs<'_>, host: &HostSpec) -> Result<String, DeployError> {
    let facts = inputs.lock.kubeadm(&inputs.cluster.kubernetes.version);
    let pause = facts
        .and_then(pause_image)
        .map(ImageRef::to_string)
        .unwrap_or_default();
    let (runc, registry_config_dir) = (RUNC.to_owned(), CERTS_D.to_owned());
    let text = if inputs.file("containerd", &host.name)?.version.major() >= 2 {
        let config = containerd::ConfigV3 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        render::text("containerd configuration", &config)?
    } else {
        let config = containerd::ConfigV2 {
            sandbox_image: pause,
            registry_config_dir,
            runc,
        };
        render::text("containerd configuration", &config)?
    };
    Ok(merge::toml(
        "containerd configuration",
        text,
        &inputs.cluster.runtime.extra_config,
    )?)
}
