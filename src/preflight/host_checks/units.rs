//! Files of an administrator or of another installation that change the programs of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_config::cluster::{KubernetesKind, RuntimeKind};
use kubexm_config::cluster_document::own_kubelet_flag;
use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const UNITS: HostCheck = HostCheck {
    kind: FindingKind::Leftovers,
    when: When::Always,
    read: "files that change the units of the cluster: drop-ins of systemd, KUBELET_EXTRA_ARGS, and later files of CRI-O",
    find: units,
};

/// The drop-in that kubeadm's packages bring. kubexm writes one of the same name, which has precedence.
const OF_KUBEADM: &str = "/10-kubeadm.conf";
/// Settings of CRI-O that kubexm decides, besides those that `containerRuntime.extraConfig` refuses.
const OF_CRI_O: [&str; 3] = ["cgroup_manager", "conmon_cgroup", "root"];

fn units(asked: &Asked<'_>) -> Vec<Problem> {
    if !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    let mut problems = settings(asked);
    problems.extend(kubelet_flags(asked));
    problems.extend(cri_o(asked));
    problems
}

/// Returns the words of each line with this key.
fn rows<'a>(asked: &'a Asked<'_>, key: &'static str) -> impl Iterator<Item = Vec<&'a str>> {
    let lines = asked.answers.all(key).iter();
    lines.map(|line| line.split_whitespace().collect())
}

/// Returns whether the cluster file writes a file.
fn is_of_user(asked: &Asked<'_>, file: &str) -> bool {
    let mut files = asked.cluster.system.files.iter();
    files.any(|own| own.path.as_str() == file)
}

/// Returns whether a file of kubexm has precedence over a file.
fn is_hidden(asked: &Asked<'_>, file: &str) -> bool {
    asked.cluster.kubernetes.kind == KubernetesKind::Kubeadm && file.ends_with(OF_KUBEADM)
}

/// Drop-ins with another command, or with variables.
fn settings(asked: &Asked<'_>) -> Vec<Problem> {
    let mut files: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for row in rows(asked, "unit_setting") {
        let [unit, file, setting] = row[..] else {
            continue;
        };
        if !is_hidden(asked, file) {
            files.entry((file, unit)).or_default().insert(setting);
        }
    }
    let found = files.into_iter().filter_map(|((file, unit), settings)| {
        let replaces = settings.contains("ExecStart");
        // Variables may be the wish of the site. Other checks judge proxies.
        if !replaces && (asked.is_used() || is_of_user(asked, file)) {
            return None;
        }
        let all = settings.into_iter().collect::<Vec<_>>().join(", ");
        let cause = if replaces {
            "the unit would run another command than that of the cluster"
        } else {
            "the program of the cluster would get settings that the cluster file does not have"
        };
        Some(Problem {
            breaks: replaces,
            is_later: false,
            what: format!("{file} sets {all} of {unit}"),
            evidence: Vec::new(),
            cause: cause.to_owned(),
            fix: "remove the file unless the site needs it".to_owned(),
            commands: vec![format!("rm {file}"), "systemctl daemon-reload".to_owned()],
        })
    });
    found.collect()
}

fn kubelet_flags(asked: &Asked<'_>) -> Vec<Problem> {
    let found = rows(asked, "kubelet_flag").filter_map(|row| {
        let [file, flag] = row[..] else {
            return None;
        };
        if is_hidden(asked, file) {
            return None;
        }
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        let own = own_kubelet_flag(name, value);
        let driver = asked.cluster.runtime.cgroup_driver.name();
        let own = own.filter(|_| (name, value) != ("cgroup-driver", driver));
        if own.is_none() && (asked.is_used() || is_of_user(asked, file)) {
            return None;
        }
        let (cause, fix) = match own {
            Some(hint) => (
                "kubexm sets it, and the flag has precedence",
                format!("remove the flag from {file}: {hint}"),
            ),
            None => (
                "the flag has precedence over the cluster file, and may be of an earlier cluster",
                format!("remove the flag from {file} unless the site needs it"),
            ),
        };
        Some(Problem {
            // A cluster that runs works with it.
            breaks: own.is_some() && !asked.is_used(),
            is_later: false,
            what: format!("{file} gives the kubelet the flag --{name}"),
            evidence: Vec::new(),
            cause: cause.to_owned(),
            fix,
            commands: Vec::new(),
        })
    });
    found.collect()
}

/// Files that CRI-O reads after the one of kubexm.
fn cri_o(asked: &Asked<'_>) -> Vec<Problem> {
    let kind = asked.cluster.runtime.kind;
    if kind != RuntimeKind::CriO {
        return Vec::new();
    }
    let own = kind.properties().own_settings.iter();
    let own: BTreeSet<&str> = own
        .filter_map(|(names, _)| names.last().copied())
        .chain(OF_CRI_O)
        .collect();
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows(asked, "crio_setting") {
        if let [file, setting] = row[..]
            && file > kind.properties().config
        {
            files.entry(file).or_default().insert(setting);
        }
    }
    let found = files.into_iter().filter_map(|(file, settings)| {
        let decided = settings.intersection(&own).copied().collect::<Vec<_>>();
        let breaks = !decided.is_empty();
        if !breaks && (asked.is_used() || is_of_user(asked, file)) {
            return None;
        }
        let named = if breaks {
            decided
        } else {
            settings.iter().copied().collect()
        };
        Some(Problem {
            breaks,
            is_later: false,
            what: format!("{file} sets {}", named.join(", ")),
            evidence: Vec::new(),
            cause: "CRI-O reads it after the file of kubexm, and the last value counts".to_owned(),
            fix: "remove the file, or use containerRuntime.extraConfig".to_owned(),
            commands: vec![format!("rm {file}")],
        })
    });
    found.collect()
}
