//! The DNS of the cluster.

use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use kubexm_preflight::host_checks;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "dns-servers",
        area: Area::Dns,
        source: Source::Nodes,
        read: "the resolv.conf that the kubelet gives to CoreDNS on each node",
        run: servers,
    },
    Check {
        id: "dns",
        area: Area::Dns,
        source: Source::ControlPlanes,
        read: "the CoreDNS pods and their logs",
        run: dns,
    },
];

fn servers(seen: &Seen) -> Outcome {
    // With servers of its own, CoreDNS does not use those of the node.
    let mut all = Vec::new();
    if seen.cluster.dns.upstreams.is_empty() {
        for (host, answers) in seen.hosts().filter(|(name, _)| seen.cluster.is_node(name)) {
            let own = answers.all("nameserver").iter();
            let own: Vec<&String> = own
                .filter(|server| host_checks::is_loopback(server))
                .collect();
            if let Some(server) = own.first() {
                let file = answers.one("resolv_conf").unwrap_or("resolv.conf");
                let found = Found::new(format!("CoreDNS on this node forwards to {server}, which is itself"))
                    .on(host)
                    .evidence([format!("{file}: nameserver {server}")])
                    .cause("in a pod, an address of the loopback interface is that of the pod: CoreDNS finds a loop and ends")
                    .fix("set spec.dns.upstreams, or resolvConf: /run/systemd/resolve/resolv.conf in spec.kubernetes.kubelet.extraConfig");
                all.push(found.run(seen.line.install()));
            }
        }
    }
    if seen.hosts.is_empty() {
        Outcome::Unknown("no host answers".to_owned())
    } else {
        Outcome::Known(all)
    }
}

fn dns(seen: &Seen) -> Outcome {
    let Some(all) = seen.asked(|api| &api.dns) else {
        return Outcome::without_server();
    };
    let ready = all.iter().filter(|pod| pod.is_ready()).count();
    // Pods that were created a moment ago are not ready yet.
    let troubled = seen.pods().into_iter().flatten();
    let troubled: Vec<_> = troubled
        .filter(|pod| {
            pod.name.starts_with("kube-system/coredns") && (pod.age > 60 || !pod.waiting.is_empty())
        })
        .collect();
    if ready > 0 && troubled.is_empty() {
        return Outcome::Known(Vec::new());
    }
    let mut found = Found::new(format!("{ready} of {} CoreDNS pods are ready", all.len()));
    for pod in &troubled {
        let reasons: Vec<String> = pod
            .waiting
            .iter()
            .map(|one| format!("{} {}", one.reason, one.message))
            .collect();
        let why = match (&pod.unscheduled, reasons.is_empty()) {
            (Some(why), _) => why.clone(),
            (None, true) => pod.phase.clone(),
            (None, false) => reasons.join("; "),
        };
        found.add_evidence([format!("{} on {}: {why}", pod.name, pod.node)]);
        let host = seen
            .cluster
            .hosts
            .iter()
            .find(|host| host.name.as_str() == pod.node);
        if let Some(host) = host
            && !found.hosts.contains(&host.name)
        {
            found.hosts.push(host.name.clone());
        }
    }
    let server = seen.administrator();
    if all.is_empty() {
        return Outcome::Known(vec![
            found
                .cause("the deployment coredns has no pods: it was scaled down or deleted")
                .fix("scale it up")
                .run(seen.line.kubectl(
                    server,
                    "-n kube-system scale deployment coredns --replicas=2",
                )),
        ]);
    }
    let loops = seen.logs.values().flat_map(|logs| &logs.entries);
    let mut loops = loops.filter(|entry| {
        entry.source.starts_with("kube-system/coredns")
            && entry.message.contains("plugin/loop: Loop")
    });
    let found = match loops.next() {
        Some(entry) => found
            .evidence([&entry.message])
            .cause("CoreDNS forwards queries to a server that sends them back")
            .fix("correct `forward` in the Corefile, or the name servers of the node; then restart CoreDNS")
            .run(seen.line.kubectl(server, "-n kube-system get configmap coredns -o yaml"))
            .run(seen.line.kubectl(server, "-n kube-system rollout restart deployment coredns")),
        None => found
            .cause("pods cannot resolve names while no CoreDNS pod is ready; with one, DNS is slow")
            .fix("read the logs and the state of the pods")
            .likely()
            .run(seen.line.kubectl(server, "-n kube-system describe pods -l k8s-app=kube-dns"))
            .run(seen.line.kubectl(server, "-n kube-system logs -l k8s-app=kube-dns --tail=20")),
    };
    Outcome::Known(vec![found])
}
