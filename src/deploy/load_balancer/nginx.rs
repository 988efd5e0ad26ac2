//! nginx with its stream module: passes over API servers that refuse a connection.

use askama::Template;

use super::proxy::{Proxy, Setting};
use super::{Image, proxy};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::Cluster;
use kubexm_render::RenderError;
use kubexm_render::load_balancer::Server;

pub(super) struct Nginx;

impl Proxy for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn packages(&self, format: PackageFormat) -> Vec<&'static str> {
        match format {
            PackageFormat::Deb => vec!["nginx", "libnginx-mod-stream"],
            PackageFormat::Rpm => vec!["nginx", "nginx-mod-stream"],
        }
    }

    fn image(&self) -> Image {
        Image {
            component: "nginx",
            repository: "library/nginx",
        }
    }

    fn config_file(&self) -> String {
        format!("{}/nginx.conf", self.folder())
    }

    fn arguments(&self) -> Vec<String> {
        vec!["-c".to_owned(), self.config_file()]
    }

    fn config(&self, cluster: &Cluster, setting: &Setting) -> Result<String, RenderError> {
        let config = Config {
            run: setting.run.clone(),
            bind: setting.bind.clone(),
            servers: proxy::servers(cluster),
            health: setting.health(),
        };
        kubexm_render::text("nginx configuration", &config)
    }

    fn reload_signal(&self) -> &'static str {
        "HUP"
    }

    fn asks_servers(&self) -> bool {
        false
    }
}

/// nginx's configuration.
#[derive(Template)]
#[template(path = "load-balancer/nginx.conf")]
struct Config {
    /// Folder that it may write to.
    run: String,
    /// `address:port` that it listens on.
    bind: String,
    /// The API servers.
    servers: Vec<Server>,
    /// `address:port` of its health check, where somebody asks.
    health: Option<String>,
}
