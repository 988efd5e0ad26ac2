//! A runtime that comes as a package of the distribution.

use askama::Template;

use crate::deploy::runtime::{ImageScripts, Runtime, cri, setting};
use crate::deploy::{DeployError, Inputs, id};
use crate::plan::Task;
use crate::render;
use crate::spec::cluster::{self, HostSpec};
use crate::steps::{ManageUnit, WriteFile};

const UNIT: &str = "example-runtime.service";
const SOCKET: &str = "unix:///run/example-runtime.sock";

pub(super) struct Example;

pub(super) const KIND: Example = Example;

impl Runtime for Example {
    fn components(&self) -> &'static [&'static str] {
        &["cni-plugins", "crictl"]
    }

    fn socket(&self) -> &'static str {
        SOCKET
    }

    fn unit(&self) -> &'static str {
        UNIT
    }

    fn data_dir<'a>(&self, settings: &'a cluster::Runtime) -> &'a str {
        setting(settings, &["root"], "/var/lib/example-runtime")
    }

    fn install(&self, _: &Inputs<'_>, host: &HostSpec) -> Result<Task, DeployError> {
        let unit = cri::unit_file(UNIT)?;
        let service = Service {
            socket: SOCKET.to_owned(),
        };
        let task = Task::new("runtime", "install", &host.name)
            .after([id("os", "prepare", &host.name)])
            .step(cri::crictl_config(SOCKET)?)
            .step(WriteFile::new(
                unit.clone(),
                render::text("unit", &service)?,
            ))
            .step(ManageUnit {
                name: UNIT.to_owned(),
                files: vec![unit],
                start: true,
            });
        Ok(task.step(cri::answers("the example", UNIT)))
    }

    fn images(&self) -> ImageScripts {
        ImageScripts {
            check: cri::PINNED,
            pull: cri::PULL,
        }
    }
}

/// Its unit.
#[derive(Template)]
#[template(path = "example/example-runtime.service")]
struct Service {
    /// The CRI socket's address.
    socket: String,
}
