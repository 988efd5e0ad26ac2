//! OS packages of load balancers. Only the hosts of the load balancer get them, and kubexm masks their
//! services.

use super::{Balancer, all, configured, missing_image};
use crate::{Inputs, os};
use kubexm_bundle::lock::{LockedPackages, PackageFormat};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::steps::{RunScript, Undo};
use kubexm_scripts::load_balancer as scripts;
use kubexm_scripts::undo::UNMASK_SERVICES;
use kubexm_types::HostName;

/// Returns whether a package belongs to a load balancer.
pub(crate) fn is_load_balancer(package: &str) -> bool {
    let formats = [PackageFormat::Deb, PackageFormat::Rpm];
    all().iter().any(|balancer| {
        let mut packages = formats.iter().flat_map(|format| balancer.packages(*format));
        packages.any(|name| name == package)
    })
}

/// Returns a step that masks the services of a host's packages, because kubexm has its own units.
pub(crate) fn mask_services(inputs: &Inputs<'_>, host: &HostSpec) -> Option<RunScript> {
    let balancer = configured(inputs.cluster)?;
    if !balancer.runs_on(inputs.cluster, &host.name) {
        return None;
    }
    let services = balancer.services().into_iter();
    let units: Vec<String> = services.map(|name| format!("{name}.service")).collect();
    if units.is_empty() {
        return None;
    }
    let title = format!(
        "Mask {}, which kubexm replaces by its own units",
        units.join(", ")
    );
    let step = RunScript::new(
        "quiet services",
        title,
        scripts::MASK_SERVICES.verb("check"),
        scripts::MASK_SERVICES.verb("apply"),
    )
    .arguments(units);
    Some(step.undo(Undo::run(UNMASK_SERVICES, [""; 0])))
}

/// Returns what the load balancer needs and the bundle does not have.
pub(crate) fn missing(inputs: &Inputs<'_>) -> Vec<String> {
    let Some(balancer) = configured(inputs.cluster) else {
        return Vec::new();
    };
    let image = balancer.image();
    let image = image.filter(|image| super::bundled_image(inputs, image).is_none());
    let mut missing: Vec<String> = image.iter().map(missing_image).collect();
    if inputs.cluster.system.install_packages {
        let hosts = inputs.cluster.hosts.iter().map(|host| &host.name);
        let hosts = hosts.filter(|host| balancer.runs_on(inputs.cluster, host));
        missing.extend(hosts.filter_map(|host| missing_packages(inputs, balancer.as_ref(), host)));
    }
    missing
}

fn missing_packages(
    inputs: &Inputs<'_>,
    balancer: &dyn Balancer,
    host: &HostName,
) -> Option<String> {
    let facts = inputs.host_facts(host);
    let missing = |set: &LockedPackages| -> Vec<&'static str> {
        let mut packages = balancer.packages(set.format);
        packages.retain(|name| !set.requested.iter().any(|requested| requested == name));
        packages
    };
    let sets = &inputs.lock.packages;
    let (missing, system) = match (os::packages(inputs, host), facts.releases.first()) {
        (Some(set), _) => {
            let system = format!(" for {} {}", set.distribution, set.release);
            (missing(set), system)
        }
        (None, Some((distribution, release))) => {
            let packages = balancer.packages(PackageFormat::Deb);
            (packages, format!(" for {distribution} {release}"))
        }
        // Without facts of the hosts, one set with all packages is sufficient.
        (None, None) if sets.iter().any(|set| missing(set).is_empty()) => return None,
        (None, None) => (balancer.packages(PackageFormat::Deb), String::new()),
    };
    if missing.is_empty() {
        return None;
    }
    let names = missing.join(", ");
    Some(format!(
        "OS packages {names}{system} (spec.packages of the manifest)"
    ))
}
