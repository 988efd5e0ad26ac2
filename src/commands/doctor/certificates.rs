//! Certificates, as `certs check` sees them.

use super::check::{Check, Found, Outcome};
use super::report::Area;
use super::seen::Seen;
use crate::certs::Standing;
use crate::status::About;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "certificates",
    area: Area::Certificates,
    read: "every certificate and kubeconfig on each host and in the state directory, without an API server",
    run: certificates,
}];

fn certificates(seen: &Seen) -> Outcome {
    // The kubelet's own certificate has a check of its own.
    let problems = seen
        .problems("certificates")
        .filter(|problem| problem.about != About::Certificate || !only_of_kubelet(&problem.what));
    let found = problems.map(|problem| {
        let found = Found::of(problem);
        if problem.about != About::Certificate {
            return found
                .cause("the credentials in /etc/kubernetes/admin.conf have expired, or are of another cluster")
                .fix("renew the certificates")
                .run(seen.line.kubexm("certs renew"));
        }
        let is = |standing: Standing| problem.what.contains(&format!("({standing})"));
        if is(Standing::Missing) || is(Standing::Unreadable) {
            return found
                .cause("the file was removed or damaged, for example by a full disk; its program does not start without it")
                .run(seen.line.kubexm("certs check"));
        }
        match is(Standing::CaDiffers) || is(Standing::CaMissing) {
            true => found
                .cause("the file was copied from another cluster, or its CA was replaced")
                .run(seen.line.kubexm("certs check"))
                .run(seen.line.kubexm("certs renew")),
            false => found
                .cause("programs refuse connections with an expired certificate; nothing renews these files by itself")
                .fix("renew the certificates: no API server need run")
                .run(seen.line.kubexm("certs renew")),
        }
    });
    Outcome::Known(found.collect())
}

/// Returns whether a problem names one certificate, which is that of the kubelet.
pub(super) fn only_of_kubelet(what: &str) -> bool {
    what.contains("/var/lib/kubelet/pki/") && !what.contains(", ")
}
