//! Kernel modules that the next boot does not load.

use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const MODULES: HostCheck = HostCheck {
    kind: FindingKind::KernelSettings,
    when: When::Always,
    read: "what modprobe.d says about the kernel modules of the cluster",
    find: modules,
};

pub(super) const LOCKED: HostCheck = HostCheck {
    kind: FindingKind::KernelSettings,
    when: When::BeforeInstall,
    read: "whether the kernel loads modules (kernel.modules_disabled)",
    find: locked,
};

fn locked(asked: &Asked<'_>) -> Vec<Problem> {
    let is_locked = asked.answers.word("sysctl", "kernel/modules_disabled") == Some("1");
    if !is_locked || !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    vec![Problem {
        breaks: true,
        is_later: false,
        what: "kernel.modules_disabled is 1".to_owned(),
        evidence: Vec::new(),
        cause: "the kernel loads no module until the next boot, and the network of pods needs some"
            .to_owned(),
        fix: "remove what sets it at boot, and start the host again".to_owned(),
        commands: Vec::new(),
    }]
}

/// Returns the module, with `_` as the kernel writes it, that a line of modprobe.d keeps from being loaded
/// (<https://man7.org/linux/man-pages/man5/modprobe.d.5.html>).
fn kept_out(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let (verb, name) = (words.next()?, words.next()?);
    let mut does_nothing = || {
        let program = words.next().unwrap_or_default().rsplit('/').next();
        matches!(program, Some("true" | "false"))
    };
    (verb == "blacklist" || verb == "install" && does_nothing()).then(|| name.replace('-', "_"))
}

fn modules(asked: &Asked<'_>) -> Vec<Problem> {
    let is_node = asked.cluster.is_node(asked.host);
    let own = &asked.cluster.system.modules;
    let lines = asked.answers.all("not_loaded");
    let needed = asked.cluster.kernel_modules().into_iter();
    needed
        .filter(|name| {
            let is_needed = is_node || own.iter().any(|own| own.as_str() == name);
            lines.iter().any(|line| {
                // An install loads all modules on each host, and only such a line prevents it.
                let counts = is_needed || line.starts_with("install ");
                counts && kept_out(line).as_ref() == Some(name)
            })
        })
        .map(|name| problem(asked, &name))
        .collect()
}

fn problem(asked: &Asked<'_>, name: &str) -> Problem {
    let lines = asked.answers.all("modprobe_line").iter();
    let lines: Vec<&String> = lines
        .filter(|line| {
            let said = line.split_once(':').and_then(|(_, said)| kept_out(said));
            said.as_deref() == Some(name)
        })
        .collect();
    let mut files: Vec<&str> = lines
        .iter()
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    files.dedup();
    let (place, fix) = if files.is_empty() {
        let place = "the configuration of modprobe".to_owned();
        (
            place,
            format!("remove modprobe.blacklist={name} from the command line of the kernel"),
        )
    } else {
        (
            files.join(" and "),
            format!("remove the lines about {name}"),
        )
    };
    // The name of a module has `-` or `_`.
    let pattern = name.replace('_', "[-_]");
    let command =
        |file: &&str| format!("sed -i -E '/^\\s*(blacklist|install)\\s+{pattern}(\\s|$)/d' {file}");
    Problem {
        breaks: true,
        is_later: true,
        what: format!("{place} keeps the kernel module {name} from being loaded"),
        evidence: lines.into_iter().cloned().collect(),
        cause:
            "the next boot does not load it, and the network or the containers of the node need it"
                .to_owned(),
        fix,
        commands: files.iter().map(command).collect(),
    }
}
