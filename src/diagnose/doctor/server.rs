//! API servers, and the controllers beside them.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::ProblemKind;
use kubexm_config::cluster::KubernetesKind;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "static-pods",
        area: Area::ApiServer,
        source: Source::Nodes,
        read: "/etc/kubernetes/manifests: files without content, and staticPodPath of the kubelet",
        run: static_pods,
    },
    Check {
        id: "api-server",
        area: Area::ApiServer,
        source: Source::ControlPlanes,
        read: "the unit or static pod of each API server, and its /readyz on its host",
        run: api_server,
    },
    Check {
        id: "control-plane",
        area: Area::ApiServer,
        source: Source::ControlPlanes,
        read: "the health checks of controller manager and scheduler on each control plane",
        run: controllers,
    },
    Check {
        id: "join-information",
        area: Area::ApiServer,
        source: Source::ControlPlanes,
        read: "the ConfigMap cluster-info in kube-public, compared with the CA of the hosts",
        run: join_information,
    },
];

fn static_pods(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.hosts() {
        for file in answers.all("empty_manifest") {
            let found = Found::new(format!("{file} is empty"))
                .on(host)
                .cause("the kubelet runs no pod of an empty manifest; a full disk or a power failure leaves such files")
                .fix("write the file again, from another control plane or by an install")
                .run(seen.line.install());
            all.push(found);
        }
    }
    Outcome::Known(all)
}

fn api_server(seen: &Seen) -> Outcome {
    let found = seen.problems("api-server").map(|problem| {
        let found = Found::of(problem)
            .cause("nothing can change in the cluster without an API server; pods that run go on");
        let Some(host) = &problem.host else {
            return found;
        };
        match seen.cluster.kubernetes.kind {
            KubernetesKind::Systemd if problem.program().ends_with(".service") => {
                let found = if problem.kind == ProblemKind::Masked {
                    found.run(seen.line.on(host, "systemctl unmask kube-apiserver"))
                } else {
                    found
                };
                found
                    .run(seen.line.on(host, "systemctl start kube-apiserver"))
                    .run(seen.line.logs("kube-apiserver", host))
            }
            _ => found.run(seen.line.logs("kube-apiserver", host)),
        }
    });
    Outcome::Known(found.collect())
}

fn controllers(seen: &Seen) -> Outcome {
    let found = seen.problems("control-plane").map(|problem| {
        let found = Found::of(problem)
            .cause("the scheduler and the controllers of other control planes take over; without any, no new pod starts");
        let unit = problem.program();
        match &problem.host {
            Some(host) if unit.ends_with(".service") => {
                let unit = kubexm_session::quoting::quoted(unit);
                found.run(seen.line.on(host, &format!("systemctl start {unit}")))
            }
            Some(host) => found.run(seen.line.logs(unit, host)),
            None => found,
        }
    });
    Outcome::Known(found.collect())
}

fn join_information(seen: &Seen) -> Outcome {
    if seen.cluster.kubernetes.kind != KubernetesKind::Kubeadm {
        return Outcome::Unknown("only kubeadm uses it".to_owned());
    }
    let Some(info) = seen.asked(|api| &api.cluster_info) else {
        return Outcome::without_server();
    };
    let host = seen.administrator();
    let fix = |found: Found| {
        let init = "kubeadm init phase bootstrap-token --skip-token-print --kubeconfig /etc/kubernetes/admin.conf";
        let delete = "-n kube-public delete configmap cluster-info --ignore-not-found";
        found
            .cause("a new node cannot verify the cluster: 'could not find a JWS signature', or the CA is another one")
            .fix("let kubeadm write it again; `kubexm install` creates new tokens for each join itself")
            .run(seen.line.kubectl(host, delete))
            .run(seen.line.on(host, init))
    };
    let Some(info) = info.first() else {
        return Outcome::Known(vec![fix(Found::new(
            "the ConfigMap cluster-info does not exist",
        ))]);
    };
    let kubeconfig = info.data.get("kubeconfig");
    let field = |name: &str| {
        let mut lines = kubeconfig?.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let ca = field("certificate-authority-data").unwrap_or_default();
    let digest = super::certificate_digest(ca);
    let of_hosts = seen
        .facts
        .values()
        .filter_map(|facts| facts.authorities.get("/etc/kubernetes/pki/ca.crt"));
    let mut of_hosts = of_hosts.flatten();
    let is_ours = digest.is_some_and(|digest| of_hosts.any(|known| *known == digest));
    if is_ours {
        Outcome::Known(Vec::new())
    } else {
        let server = field("server").unwrap_or("no server");
        let found = Found::new("the ConfigMap cluster-info has another CA than the hosts");
        Outcome::Known(vec![fix(
            found.evidence([format!("its server is {server}")])
        )])
    }
}
