//! A proxy for every node.

use askama::Template;

use crate::bundle::lock::PackageFormat;
use crate::deploy::load_balancer::proxy::{Proxy, Setting};
use crate::deploy::load_balancer::{Image, proxy};
use crate::render::load_balancer::Server;
use crate::render::{self, RenderError};
use crate::spec::cluster::Cluster;

pub(in crate::deploy::load_balancer) struct Example;

pub(in crate::deploy::load_balancer) const KIND: Example = Example;

impl Proxy for Example {
    fn name(&self) -> &'static str {
        "example-proxy"
    }

    // There is no package of that name: some that there is stands for it.
    fn packages(&self, _: PackageFormat) -> Vec<&'static str> {
        vec!["haproxy"]
    }

    fn image(&self) -> Image {
        Image {
            component: "haproxy",
            repository: "library/haproxy",
        }
    }

    fn config_file(&self) -> String {
        format!("{}/example.toml", self.folder())
    }

    fn arguments(&self) -> Vec<String> {
        vec![self.config_file()]
    }

    fn config(&self, cluster: &Cluster, setting: &Setting) -> Result<String, RenderError> {
        let config = Config {
            bind: setting.bind.clone(),
            servers: proxy::servers(cluster),
        };
        render::text("example", &config)
    }

    fn reload_signal(&self) -> &'static str {
        "HUP"
    }

    fn asks_servers(&self) -> bool {
        false
    }
}

/// Its configuration.
#[derive(Template)]
#[template(path = "example/example-proxy.toml", escape = "none")]
struct Config {
    /// Where it listens.
    bind: String,
    /// Where it leads.
    servers: Vec<Server>,
}
