//! HAProxy: asks each API server how it is, by the cluster's CA.

use askama::Template;

use super::proxy::{Proxy, Setting};
use super::{Image, proxy};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::Cluster;
use kubexm_render::RenderError;
use kubexm_render::load_balancer::Server;

pub(super) struct Haproxy;

impl Proxy for Haproxy {
    fn name(&self) -> &'static str {
        "haproxy"
    }

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
        format!("{}/haproxy.cfg", self.folder())
    }

    fn arguments(&self) -> Vec<String> {
        vec!["-W".to_owned(), "-f".to_owned(), self.config_file()]
    }

    fn config(&self, cluster: &Cluster, setting: &Setting) -> Result<String, RenderError> {
        let config = Config {
            bind: setting.bind.clone(),
            ca: setting.ca.clone(),
            servers: proxy::servers(cluster),
            health: setting.health(),
        };
        kubexm_render::text("haproxy configuration", &config)
    }

    fn reload_signal(&self) -> &'static str {
        "USR2"
    }

    fn asks_servers(&self) -> bool {
        true
    }
}

/// haproxy's configuration.
#[derive(Template)]
#[template(path = "load-balancer/haproxy.cfg")]
struct Config {
    /// `address:port` that it listens on.
    bind: String,
    /// File of the CA that signed the API servers' certificates.
    ca: String,
    /// The API servers.
    servers: Vec<Server>,
    /// `address:port` of its health check, where somebody asks.
    health: Option<String>,
}
