//! nginx with its stream module. It skips API servers that refuse a connection.

use super::proxy::{Proxy, Settings};
use super::{Image, proxy};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::Cluster;
use kubexm_render::RenderError;
use kubexm_render::load_balancer as template;

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
        format!("{}/nginx.conf", self.dir())
    }

    fn arguments(&self) -> Vec<String> {
        vec!["-c".to_owned(), self.config_file()]
    }

    fn config(&self, cluster: &Cluster, settings: &Settings) -> Result<String, RenderError> {
        let config = template::Nginx {
            run: settings.run.clone(),
            bind: settings.bind.clone(),
            servers: proxy::servers(cluster),
            health: settings.health(),
            extra: cluster
                .high_availability
                .nginx
                .extra_config
                .trim_end()
                .to_owned(),
        };
        kubexm_render::text("nginx configuration", &config)
    }

    fn reload_signal(&self) -> &'static str {
        "HUP"
    }

    fn test_argument(&self) -> &'static str {
        "-t"
    }
}
