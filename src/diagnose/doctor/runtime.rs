//! The container runtime: whether it answers, and where it gets images from.

use std::collections::BTreeMap;

use super::answers::kubelet;
use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use crate::status::ProblemKind;
use kubexm_config::cluster::RuntimeKind;

/// The directory in which kubexm writes the mirrors of containerd.
const MIRRORS: &str = "/etc/containerd/certs.d";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "runtime-configuration",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "containerd config dump: whether it can be read, and whether the plugin of the CRI is disabled",
        run: configuration,
    },
    Check {
        id: "runtime",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "the unit of the runtime, crictl version and crictl info, at most 15 s each",
        run: runtime,
    },
    Check {
        id: "runtime-stale",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "when containerd started, and when its configuration changed",
        run: stale,
    },
    Check {
        id: "cgroup-driver",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "SystemdCgroup of containerd, and cgroupDriver of the kubelet",
        run: cgroup_driver,
    },
    Check {
        id: "registry-mirrors",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "config_path of containerd's CRI plugin, and the hosts.toml files below it",
        run: mirrors,
    },
    Check {
        id: "sandbox-image",
        area: Area::Runtime,
        source: Source::Nodes,
        read: "the sandbox image of containerd's configuration, of kubeadm, and of the images on the host",
        run: sandbox,
    },
];

const NO_NODE: &str = "no node with containerd answers";

fn is_containerd(seen: &Seen) -> bool {
    seen.cluster.runtime.kind == RuntimeKind::Containerd
}

fn known(seen: &Seen, found: Vec<Found>) -> Outcome {
    if seen.runtimes.is_empty() || !is_containerd(seen) {
        Outcome::Unknown(NO_NODE.to_owned())
    } else {
        Outcome::Known(found)
    }
}

fn configuration(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        let fix = "write the configuration of the install again; without a bundle at hand, correct /etc/containerd/config.toml";
        if let Some(error) = answers.one("config_error") {
            let found = Found::new("the configuration of containerd cannot be read")
                .on(host)
                .evidence([error])
                .cause("/etc/containerd/config.toml was changed by hand, and containerd does not start with it");
            all.push(found.fix(fix).run(seen.line.install()));
        }
        if let Some(plugins) = answers.one("disabled_plugins")
            && plugins.contains("cri")
        {
            let found = Found::new("containerd's plugin for the CRI is disabled")
                .on(host)
                .evidence([format!("disabled_plugins = [{plugins}]")])
                .cause("without the plugin, containerd has no service for a kubelet; packages of Docker disable it")
                .fix("remove the plugin from disabled_plugins, and restart containerd")
                .run(seen.line.on(host, "sed -i /disabled_plugins/d /etc/containerd/config.toml"))
                .run(seen.line.on(host, "systemctl restart containerd"));
            all.push(found);
        }
    }
    known(seen, all)
}

fn runtime(seen: &Seen) -> Outcome {
    let mut all: Vec<Found> = seen
        .problems("runtime")
        .map(|problem| {
            let found = Found::of(problem)
                .cause("nothing starts or ends containers while the unit does not run");
            let unit = problem.program();
            match &problem.host {
                Some(host) if unit.ends_with(".service") => {
                    let start =
                        format!("systemctl start {}", kubexm_session::quoting::quoted(unit));
                    let masked = problem.kind == ProblemKind::Masked;
                    let unmask =
                        format!("systemctl unmask {}", kubexm_session::quoting::quoted(unit));
                    let found = if masked {
                        found.run(seen.line.on(host, &unmask))
                    } else {
                        found
                    };
                    found.run(seen.line.on(host, &start))
                }
                _ => found,
            }
        })
        .collect();
    for (host, answers) in seen.runtimes() {
        let Some(("no", cause)) = answers.one("cri").and_then(|text| text.split_once(' ')) else {
            continue;
        };
        if let Some(known) = all.iter_mut().find(|found| found.hosts.contains(host)) {
            known.add_evidence([cause]);
            continue;
        }
        let found = Found::new("the container runtime does not answer")
            .on(host)
            .evidence([cause]);
        let found = if cause.contains("unknown service") {
            found.cause("the runtime has no service of the CRI in version v1: it is too old, or its plugin is disabled")
        } else {
            found
                .cause("the runtime hangs or has just crashed; running containers go on")
                .likely()
        };
        let unit = seen.runtime_unit();
        all.push(
            found
                .fix("restart the runtime; its containers go on")
                .run(seen.line.logs(unit, host))
                .run(seen.line.on(host, &format!("systemctl restart {unit}"))),
        );
    }
    Outcome::Known(all)
}

fn stale(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        if let Some(file) = answers.one("stale") {
            let found = Found::new("containerd runs with an older configuration")
                .on(host)
                .evidence([format!(
                    "{file} changed after containerd was restarted by hand"
                )])
                .cause("containerd reads its configuration only when it starts")
                .fix("restart containerd; its containers go on")
                .likely();
            all.push(found.run(seen.line.on(host, "systemctl restart containerd")));
        }
    }
    known(seen, all)
}

fn cgroup_driver(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        let kubelet = seen
            .hosts
            .get(host)
            .and_then(kubelet)
            .and_then(|own| own.cgroup_driver);
        let (Some(systemd), Some(kubelet)) = (answers.one("systemd_cgroup"), kubelet) else {
            continue;
        };
        let runtime = if systemd == "true" {
            "systemd"
        } else {
            "cgroupfs"
        };
        if runtime != kubelet {
            let found = Found::new(format!(
                "the kubelet manages cgroups by {kubelet}, and containerd by {runtime}"
            ))
            .on(host)
            .evidence([
                format!("SystemdCgroup = {systemd}"),
                format!("cgroupDriver: {kubelet}"),
            ])
            .cause("pods restart for no visible reason, because two programs own the same cgroups")
            .fix("write the configuration of the install again")
            .run(seen.line.install());
            all.push(found);
        }
    }
    known(seen, all)
}

fn mirrors(seen: &Seen) -> Outcome {
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        // Without a configuration there is another finding.
        if answers.one("config_error").is_some() || answers.one("sandbox").is_none() {
            continue;
        }
        let mut wrong = Vec::new();
        match answers.one("config_path") {
            None => wrong.push("config_path of the registry is empty".to_owned()),
            Some(path) if path != MIRRORS => {
                wrong.push(format!("config_path is {path}, and not {MIRRORS}"))
            }
            Some(_) => {}
        }
        if answers
            .one("inline_mirrors")
            .is_some_and(|count| count != "0")
        {
            wrong.push(
                "registry.mirrors stands beside config_path, which containerd refuses".to_owned(),
            );
        }
        let missing = answers.all("mirror_missing").iter();
        wrong.extend(missing.map(|file| format!("{file} does not exist")));
        if answers.all("mirror").is_empty() {
            wrong.push(format!("{MIRRORS} has no mirror"));
        }
        if !wrong.is_empty() {
            let found = Found::new("containerd does not use the registry of the cluster")
                .on(host)
                .evidence(&wrong)
                .cause("pulls go to the internet instead of the mirror, and fail; plain `ctr` ignores these files")
                .fix("write the configuration of the install again")
                .run(seen.line.install());
            all.push(found);
        }
    }
    known(seen, all)
}

fn sandbox(seen: &Seen) -> Outcome {
    // The image of most hosts, for nodes without kubeadm.
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, answers) in seen.runtimes() {
        if let Some(image) = answers.one("sandbox") {
            *votes.entry(image).or_default() += 1;
        }
    }
    let usual = votes
        .iter()
        .max_by_key(|(_, count)| **count)
        .map(|(image, _)| *image);
    let mut all = Vec::new();
    for (host, answers) in seen.runtimes() {
        let Some(image) = answers.one("sandbox") else {
            continue;
        };
        let expected = answers.one("sandbox_expected").or(usual).unwrap_or(image);
        let is_there = answers.one("sandbox_present");
        if image != expected {
            let found = Found::new(format!("the sandbox image is {image}, and not {expected}"))
                .on(host)
                .evidence([format!("{image} is on the host: {}", is_there.unwrap_or("unknown"))])
                .cause("no pod starts without the sandbox image, and the bundle has the expected one only")
                .fix("write the configuration of the install again")
                .run(seen.line.install());
            all.push(found);
        } else if is_there == Some("no") {
            let found = Found::new(format!("the sandbox image {image} is not on the host"))
                .on(host)
                .cause("no pod starts without it; the kubelet removes images when the disk is almost full")
                .fix("pull it from the registry of the cluster");
            let words = format!("crictl pull {}", kubexm_session::quoting::quoted(image));
            all.push(found.run(seen.line.on(host, &words)));
        }
    }
    known(seen, all)
}

impl Seen {
    /// Returns the unit of the container runtime, as programs of systemd name it.
    pub(super) fn runtime_unit(&self) -> &'static str {
        let unit = self.cluster.runtime.kind.properties().unit;
        unit.trim_end_matches(".service")
    }
}
