//! OS packages of load balancers: only hosts that need them get them, and none of the services that
//! come with them ever starts.

use super::{Balancer, all, lacking_image, of};
use crate::{Inputs, os};
use kubexm_bundle::lock::{LockedPackages, PackageFormat};
use kubexm_config::cluster::HostSpec;
use kubexm_engine::steps::RunScript;
use kubexm_scripts::load_balancer as scripts;
use kubexm_types::HostName;

/// Whether a package belongs to load balancers.
pub(crate) fn is_balancers(package: &str) -> bool {
    let formats = [PackageFormat::Deb, PackageFormat::Rpm];
    all().iter().any(|balancer| {
        let mut asked = formats.iter().flat_map(|format| balancer.packages(*format));
        asked.any(|name| name == package)
    })
}

/// Keeps the services that come with a host's packages from starting, now and at the next boot.
pub(crate) fn without_services(inputs: &Inputs<'_>, host: &HostSpec) -> Option<RunScript> {
    let balancer = of(inputs.cluster)?;
    if !balancer.runs_on(inputs.cluster, &host.name) {
        return None;
    }
    let services = balancer.services().into_iter();
    let units: Vec<String> = services.map(|name| format!("{name}.service")).collect();
    if units.is_empty() {
        return None;
    }
    let title = format!("Mask {}, for units of kubexm's own", units.join(", "));
    let step = RunScript::new(
        "quiet services",
        title,
        scripts::MASK_SERVICES.verb("check"),
        scripts::MASK_SERVICES.verb("apply"),
    )
    .arguments(units);
    Some(step.undo_script("Unmask services", scripts::UNMASK_SERVICES))
}

/// What the load balancer needs and the bundle has not.
pub(crate) fn lacking(inputs: &Inputs<'_>) -> Vec<String> {
    let Some(balancer) = of(inputs.cluster) else {
        return Vec::new();
    };
    let image = balancer.image();
    let image = image.filter(|image| super::found(inputs, image).is_none());
    let mut lacking: Vec<String> = image.iter().map(lacking_image).collect();
    if inputs.cluster.system.install_packages {
        let hosts = inputs.cluster.hosts.iter().map(|host| &host.name);
        let hosts = hosts.filter(|host| balancer.runs_on(inputs.cluster, host));
        lacking.extend(hosts.filter_map(|host| lacking_packages(inputs, balancer.as_ref(), host)));
    }
    lacking
}

fn lacking_packages(
    inputs: &Inputs<'_>,
    balancer: &dyn Balancer,
    host: &HostName,
) -> Option<String> {
    let machine = inputs.machine(host);
    let missing = |set: &LockedPackages| -> Vec<&'static str> {
        let mut wanted = balancer.packages(set.format);
        wanted.retain(|name| !set.requested.iter().any(|requested| requested == name));
        wanted
    };
    let sets = &inputs.lock.packages;
    let (missing, system) = match (os::packages(inputs, host), machine.releases.first()) {
        (Some(set), _) => {
            let system = format!(" for {} {}", set.distribution, set.release);
            (missing(set), system)
        }
        (None, Some((distribution, release))) => {
            let wanted = balancer.packages(PackageFormat::Deb);
            (wanted, format!(" for {distribution} {release}"))
        }
        // Nobody has looked at the hosts yet: some set must do.
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
