//! HAProxy. It asks each API server whether it is ready.

use super::proxy::{Proxy, Settings};
use super::{Image, proxy};
use kubexm_bundle::lock::PackageFormat;
use kubexm_config::cluster::Cluster;
use kubexm_render::RenderError;
use kubexm_render::load_balancer as template;

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
        format!("{}/haproxy.cfg", self.dir())
    }

    fn arguments(&self) -> Vec<String> {
        vec!["-W".to_owned(), "-f".to_owned(), self.config_file()]
    }

    fn config(&self, cluster: &Cluster, settings: &Settings) -> Result<String, RenderError> {
        let config = template::Haproxy {
            bind: settings.bind.clone(),
            servers: proxy::servers(cluster),
            health: settings.health(),
            log: cluster.high_availability.haproxy.log,
            extra: cluster
                .high_availability
                .haproxy
                .extra_config
                .trim_end()
                .to_owned(),
        };
        kubexm_render::text("haproxy configuration", &config)
    }

    fn reload_signal(&self) -> &'static str {
        "USR2"
    }

    fn test_argument(&self) -> &'static str {
        "-c"
    }
}
