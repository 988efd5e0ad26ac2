//! The registry of the cluster.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::{ProblemKind, is_about_certificate};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "registry",
        area: Area::Registry,
        source: Source::Hosts,
        read: "the unit of the registry, and its answer to each node at /v2/",
        run: registry,
    },
    Check {
        id: "registry-ca",
        area: Area::Registry,
        source: Source::Nodes,
        read: "a connection to the registry with each CA that a hosts.toml names",
        run: ca,
    },
];

fn registry(seen: &Seen) -> Outcome {
    // A wrong CA has a check of its own.
    let problems = seen
        .problems("registry")
        .filter(|problem| problem.kind != ProblemKind::CertificateRefused);
    let found = problems.map(|problem| {
        let found = Found::of(problem)
            .cause("nodes cannot pull images; images that a node has go on working until the kubelet removes them");
        match &problem.host {
            Some(host) if problem.program().starts_with("kubexm-registry") => {
                let found = if problem.kind == ProblemKind::Masked { found.run(seen.line.on(host, "systemctl unmask kubexm-registry")) } else { found };
                found
                    .run(seen.line.on(host, "systemctl start kubexm-registry"))
                    .run(seen.line.logs("registry", host))
            }
            _ => found,
        }
    });
    Outcome::Known(found.collect())
}

fn ca(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        for line in answers.all("registry") {
            let mut words = line.splitn(3, ' ');
            let (Some(server), Some(file), Some(result)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if result == "ok" || !is_about_certificate(result) && !result.contains(file) {
                continue;
            }
            let found = Found::new(format!("the certificate of the registry {server} is not accepted with {file}"))
                .on(host)
                .evidence([result])
                .cause("the CA file is missing or of another cluster, or the certificate does not have this name; every pull fails")
                .fix("write the CA and the certificate of the install again")
                .run(seen.line.install());
            all.push(found);
        }
    }
    // The file of the status, for runtimes without hosts.toml.
    let others = seen
        .problems("registry")
        .filter(|problem| problem.kind == ProblemKind::CertificateRefused);
    if all.is_empty() {
        all.extend(others.map(|problem| {
            Found::of(problem)
                .cause("/etc/kubexm/registry-ca.crt is missing or of another cluster, or the certificate does not have this name")
                .fix("write the CA and the certificate of the install again")
                .run(seen.line.install())
        }));
    }
    Outcome::Known(all)
}
