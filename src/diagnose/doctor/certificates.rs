//! Certificates, as `certs check` sees them.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::{About, Problem, Subject};
use kubexm_safekeeping::certs::Standing;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "certificates",
    area: Area::Certificates,
    source: Source::Hosts,
    read: "every certificate and kubeconfig on each host and in the state directory, without an API server",
    run: certificates,
}];

/// The CA of the cluster's registry on nodes.
const REGISTRY_CA: &str = "/etc/kubexm/registry-ca.crt";
/// The folder of CAs of other registries, which kubexm did not create.
const OF_SITE: &str = "/etc/kubexm/registries/";

fn certificates(seen: &Seen) -> Outcome {
    // The kubelet's own certificate has a check of its own.
    let problems = seen
        .problems("certificates")
        .filter(|problem| problem.about != About::Certificate || !only_of_kubelet(problem));
    let found = problems.map(|problem| match problem.about {
        About::Certificate => file(seen, problem),
        _ => Found::of(problem)
            .cause("the credentials in /etc/kubernetes/admin.conf have expired, or are of another cluster")
            .fix("renew the certificates")
            .run(seen.line.kubexm("certs renew")),
    });
    Outcome::Known(found.collect())
}

/// Returns the finding about files with the same standing.
fn file(seen: &Seen, problem: &Problem) -> Found {
    let found = Found::of(problem);
    let is = |standing: Standing| has(problem, standing);
    if is(Standing::Missing) || is(Standing::Unreadable) {
        return found
            .cause("the file was removed or damaged, for example by a full disk; its program does not start without it")
            .run(seen.line.kubexm("certs check"));
    }
    if is(Standing::CaDiffers) || is(Standing::CaMissing) {
        return found
            .cause("the file was copied from another cluster, or its CA was replaced")
            .run(seen.line.kubexm("certs check"))
            .run(seen.line.kubexm("certs renew"));
    }
    let found = if expires_soon(problem) {
        found
            .cause(
                "programs accept the certificate until it expires, and nothing renews it by itself",
            )
            .warning(true)
    } else if is(Standing::NotYetValid) {
        found.cause("programs refuse connections with a certificate whose validity has not begun")
    } else {
        found.cause("programs refuse connections with an expired certificate; nothing renews these files by itself, and a renewal needs no API server")
    };
    replaced(seen, problem, found)
}

/// Adds the commands that replace files which expire. A renewal does not replace a CA.
fn replaced(seen: &Seen, problem: &Problem, found: Found) -> Found {
    let paths = match &problem.subject {
        Subject::Certificates {
            standing,
            paths,
            has_ca: true,
        } if *standing != Standing::NotYetValid => paths,
        _ => return found.run(seen.line.kubexm("certs renew")),
    };
    let found = found.run(seen.line.kubexm("certs check"));
    let registry = format!("/pki/kubexm-{}.crt", seen.cluster.name);
    let all = |is: &dyn Fn(&str) -> bool| paths.iter().all(|path| is(path));
    if all(&|path| path.starts_with(OF_SITE)) {
        return found
            .fix("write a newer CA into the file of this registry that the cluster file names, and install")
            .run(seen.line.install());
    }
    let is_of_registry = |path: &str| path == REGISTRY_CA || path.ends_with(&registry);
    if all(&is_of_registry) {
        found.run(seen.line.kubexm("certs rotate-ca --ca registry"))
    } else {
        found.run(seen.line.kubexm("certs rotate-ca"))
    }
}

fn has(problem: &Problem, is: Standing) -> bool {
    matches!(problem.subject, Subject::Certificates { standing, .. } if standing == is)
}

/// Returns whether a problem names certificates that programs still accept.
pub(super) fn expires_soon(problem: &Problem) -> bool {
    has(problem, Standing::ExpiresSoon)
}

/// Returns whether a problem names one certificate, which is that of the kubelet.
pub(super) fn only_of_kubelet(problem: &Problem) -> bool {
    let Subject::Certificates { paths, .. } = &problem.subject else {
        return false;
    };
    matches!(paths.as_slice(), [path] if path.starts_with("/var/lib/kubelet/pki/"))
}
