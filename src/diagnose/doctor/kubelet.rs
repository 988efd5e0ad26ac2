//! Kubelets and their nodes.

use super::certificates::{expires_soon, only_of_kubelet};
use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::{ProblemKind, Subject};
use kubexm_session::quoting::quoted;
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "kubelet-settings",
        area: Area::Kubelets,
        source: Source::Nodes,
        read: "the log of a kubelet that does not run: flags, feature gates and fields that it does not know",
        run: settings,
    },
    Check {
        id: "kubelet-credentials",
        area: Area::Kubelets,
        source: Source::Nodes,
        read: "kubelet.conf, the link kubelet-client-current.pem, and its certificate",
        run: credentials,
    },
    Check {
        id: "kubelet",
        area: Area::Kubelets,
        source: Source::Nodes,
        read: "kubelet.service, and the health check of each kubelet",
        run: kubelet,
    },
    Check {
        id: "kubelet-requests",
        area: Area::Kubelets,
        source: Source::ControlPlanes,
        read: "CertificateSigningRequests that are neither approved nor denied",
        run: requests,
    },
    Check {
        id: "node-address",
        area: Area::Kubelets,
        source: Source::ControlPlanes,
        read: "Node.status.addresses, compared with the cluster file",
        run: address,
    },
    Check {
        id: "node",
        area: Area::Kubelets,
        source: Source::ControlPlanes,
        read: "the conditions of each Node",
        run: node,
    },
    Check {
        id: "version",
        area: Area::Kubelets,
        source: Source::Hosts,
        read: "the versions of all programs, compared by the version skew policy",
        run: version,
    },
];

/// The client certificate of a kubelet.
const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The certificate of a kubelet's server.
const SERVER: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";

fn settings(_: &Seen) -> Outcome {
    // The patterns of logs find it.
    Outcome::Known(Vec::new())
}

fn credentials(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts().filter(|(name, _)| seen.cluster.is_node(name)) {
        let conf = answers.all("kubelet_conf");
        let uses_file = answers.word("kubelet_conf", "client-certificate:") == Some(CURRENT);
        let what = match answers.one("kubelet_certificate") {
            _ if conf.iter().any(|line| line == "missing") => {
                "the kubelet has no kubeconfig: /etc/kubernetes/kubelet.conf does not exist"
            }
            Some(state) if state != "present" && uses_file => {
                "the kubelet has no client certificate"
            }
            _ => continue,
        };
        let found = Found::new(what)
            .on(host)
            .evidence(answers.all("kubelet_certificate").iter().map(|state| format!("{CURRENT}: {state}")))
            .cause("the kubelet cannot log in to the API server, and its bootstrap token has expired long ago");
        let newest = "ls -t /var/lib/kubelet/pki/kubelet-client-2*.pem | head -n 1";
        all.push(
            found
                .fix("if the directory still has a certificate that is valid, link it; otherwise renew the kubelet's credentials")
                .run(seen.line.shell(host, &format!("ln -sfn \"$({newest})\" {CURRENT} && systemctl restart kubelet")))
                .run(seen.line.kubexm(&format!("certs renew --host {host}"))),
        );
    }
    let expired = seen
        .problems("certificates")
        .filter(|problem| only_of_kubelet(problem));
    all.extend(expired.map(|problem| {
        let host = problem.host.as_ref();
        let renew = host.map_or("certs renew".to_owned(), |host| format!("certs renew --host {host}"));
        Found::of(problem)
            .cause("the host was off while the kubelet had to renew it, or the API server did not answer for long")
            .fix("renew the kubelet's credentials")
            .warning(expires_soon(problem))
            .run(seen.line.kubexm(&renew))
    }));
    Outcome::Known(all)
}

fn kubelet(seen: &Seen) -> Outcome {
    let found = seen.problems("kubelet").map(|problem| {
        let found = Found::of(problem)
            .cause("the node becomes NotReady, and nothing starts or restarts its pods; pods that run go on");
        let Some(host) = &problem.host else {
            return found;
        };
        let found = if problem.kind == ProblemKind::Masked { found.run(seen.line.on(host, "systemctl unmask kubelet")) } else { found };
        if problem.kind == ProblemKind::Restarting { found
        .fix("read why it ends")
        .run(seen.line.logs("kubelet", host)) } else { found
        .fix("start it")
        .run(seen.line.on(host, "systemctl start kubelet"))
        .run(seen.line.logs("kubelet", host)) }
    });
    Outcome::Known(found.collect())
}

fn requests(seen: &Seen) -> Outcome {
    let Some(requests) = seen.asked(|api| &api.requests) else {
        return Outcome::without_server();
    };
    let server = seen.administrator();
    let mut all: Vec<Found> = Vec::new();
    for request in requests {
        let (name, user) = (&request.metadata.name, request.spec.username.as_str());
        // Controllers approve others, and need a moment.
        if request.spec.signer_name != "kubernetes.io/kubelet-serving"
            || seen.age(request.metadata.creation_timestamp) < 20
        {
            continue;
        }
        let node = user.strip_prefix("system:node:").unwrap_or(user);
        let Some(host) = seen
            .cluster
            .hosts
            .iter()
            .find(|host| host.name.as_str() == node)
        else {
            continue;
        };
        // A kubelet with a valid certificate has forgotten an older request.
        let facts = seen.facts.get(&host.name);
        let has_certificate = facts.is_some_and(|facts| facts.rotated.contains_key(SERVER));
        let mut problems = seen.problems("certificates");
        let ends = problems.any(|one| {
            one.host.as_ref() == Some(&host.name)
                && matches!(&one.subject, Subject::Certificates { paths, .. } if paths.iter().any(|path| path == SERVER))
        });
        if has_certificate && !ends {
            continue;
        }
        let approve = seen
            .line
            .kubectl(server, &format!("certificate approve {}", quoted(name)));
        let known = all
            .iter_mut()
            .find(|found| found.hosts.contains(&host.name));
        if let Some(found) = known {
            found.add_evidence([format!("{name} of {user}")]);
            // The newest request is the last one; the kubelet has forgotten the others.
            found.commands = vec![approve];
            continue;
        }
        let found = Found::new("the certificate of the kubelet's server is not approved")
            .on(&host.name)
            .evidence([format!("{name} of {user}")])
            .cause("`kubectl logs` and `kubectl exec` fail with 'tls: internal error', and metrics are missing")
            .fix("compare the name with the host, then approve the request; an install does both")
            .run(approve);
        all.push(found);
    }
    Outcome::Known(all)
}

fn address(seen: &Seen) -> Outcome {
    let Some(nodes) = &seen.nodes else {
        return Outcome::without_server();
    };
    let mut all = Vec::new();
    for (name, node) in nodes {
        let Some(host) = seen.nodes().find(|host| host.name.as_str() == name) else {
            continue;
        };
        let theirs = node.status.addresses.iter();
        let theirs = theirs.filter(|one| one.kind == "InternalIP");
        let theirs: Vec<&str> = theirs.map(|one| one.address.as_str()).collect();
        let ours: Vec<String> = host
            .internal_addresses
            .iter()
            .map(|one| one.to_string())
            .collect();
        if theirs.is_empty() || theirs.iter().any(|one| ours.iter().any(|our| our == one)) {
            continue;
        }
        let (theirs, ours) = (theirs.join(", "), ours.join(", "));
        let answers = seen.hosts.get(&host.name);
        let flags = answers.map_or(&[][..], |answers| answers.all("kubelet_flags"));
        let flags: Vec<&String> = flags
            .iter()
            .filter(|line| line.contains("--node-ip"))
            .collect();
        let mut found = Found::new(format!("the node registered as {theirs}, and the cluster file has {ours}"))
            .on(&host.name)
            .evidence(&flags)
            .cause("the host has several addresses, and the kubelet chose or was given another one; API servers and pods do not reach it there")
            .fix("give the kubelet the address of the cluster file, and restart it");
        if let Some((file, _)) = flags.first().and_then(|line| line.split_once(' ')) {
            // As the install writes it: a space would begin another flag.
            let own = &host.internal_addresses;
            let sed = format!(
                "sed -i 's/--node-ip=[^ \"]*/--node-ip={own}/' {}",
                quoted(file)
            );
            found = found
                .run(seen.line.shell(&host.name, &sed))
                .run(seen.line.shell(
                    &host.name,
                    "systemctl daemon-reload; systemctl restart kubelet",
                ));
        } else {
            found = found.run(seen.line.install());
        }
        all.push(found);
    }
    Outcome::Known(all)
}

fn node(seen: &Seen) -> Outcome {
    let found = seen.problems("node").map(|problem| {
        let found = Found::of(problem)
            .cause("the API server has this from the kubelet, or has not heard from it");
        match &problem.host {
            Some(host) if problem.kind == ProblemKind::Cordoned => {
                let words = format!("uncordon {host}");
                found
                    .cause(
                        "an upgrade or an administrator cordoned the node, and did not uncordon it",
                    )
                    .warning(true)
                    .run(seen.line.kubectl(seen.administrator(), &words))
            }
            Some(host) => {
                let words = format!("describe node {host}");
                found.run(seen.line.kubectl(seen.administrator(), &words))
            }
            None => found,
        }
    });
    if seen.api.is_some() {
        Outcome::Known(found.collect())
    } else {
        Outcome::without_server()
    }
}

fn version(seen: &Seen) -> Outcome {
    let found = seen.problems("version").map(|problem| {
        Found::of(problem).cause("an upgrade stopped halfway, or a program was replaced by hand")
    });
    Outcome::Known(found.collect())
}
