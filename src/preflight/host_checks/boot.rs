//! What the next boot changes of what an install sets.

use kubexm_config::cluster::{IpFamily, kernel_settings};
use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const KERNEL_SETTINGS: HostCheck = HostCheck {
    kind: FindingKind::KernelSettings,
    when: When::Always,
    read: "the files of sysctl.d in the order in which systemd applies them, and those of ufw",
    find: kernel_settings,
};

pub(super) const HOST_NAMES: HostCheck = HostCheck {
    kind: FindingKind::HostNames,
    when: When::Always,
    read: "whether cloud-init writes /etc/hosts",
    find: host_names,
};

pub(super) const MASKED: HostCheck = HostCheck {
    kind: FindingKind::KernelSettings,
    when: When::Always,
    read: "whether the units that apply settings and load modules are masked",
    find: masked,
};

fn masked(asked: &Asked<'_>) -> Vec<Problem> {
    let units = asked.answers.all("masked_unit").iter();
    let units = units.filter(|_| asked.cluster.is_node(asked.host));
    units
        .map(|unit| Problem {
            breaks: true,
            is_later: true,
            what: format!("{unit} is masked"),
            evidence: Vec::new(),
            cause: "the next boot neither applies kernel settings nor loads modules of the cluster by it".to_owned(),
            fix: "remove the mask".to_owned(),
            commands: vec![format!("systemctl unmask {unit}")],
        })
        .collect()
}

/// A line of a file of sysctl.d.
struct Line<'a> {
    file: &'a str,
    /// With dots between its parts, and perhaps with `*`.
    name: String,
    value: &'a str,
}

/// Returns the lines in the order in which they apply.
fn lines(printed: &[String]) -> Vec<Line<'_>> {
    let mut file = "";
    let mut lines = Vec::new();
    for line in printed {
        match line.strip_prefix("# ") {
            Some(path) if !path.contains(' ') => file = path,
            Some(_) => {}
            None => {
                let (name, value) = line.split_once('=').unwrap_or((line, ""));
                let name = name.trim().trim_start_matches('-');
                lines.push(Line {
                    file,
                    name: dotted(name),
                    value: value.trim(),
                });
            }
        }
    }
    lines
}

/// Returns a name with dots, and the one of a setting that has two names.
fn dotted(name: &str) -> String {
    match name.replace('/', ".").as_str() {
        "net.ipv4.conf.all.forwarding" => "net.ipv4.ip_forward".to_owned(),
        name => name.to_owned(),
    }
}

/// Returns whether a name of a file, in which parts can be `*`, is that of a setting.
fn is_about(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.split('.'), name.split('.'));
    loop {
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

fn kernel_settings(asked: &Asked<'_>) -> Vec<Problem> {
    let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let own = base(kernel_settings::FILE);
    let all = lines(asked.answers.all("next_sysctl"));
    let is_after = |line: &&Line<'_>| base(line.file) > own;
    let settings = asked.cluster.kernel_settings().into_iter();
    let changed = settings.filter_map(|(name, value)| {
        let mut others = all.iter().rev().filter(is_after);
        let last = others.find(|line| is_about(&line.name, &dotted(&name)))?;
        let same = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
        let breaks = asked.cluster.needs_kernel_setting(&name);
        (same(last.value) != same(&value)).then(|| {
            let cause = format!(
                "the next boot applies this file after {}",
                kernel_settings::FILE
            );
            let what = format!(
                "{} sets {} to {}, and the cluster needs {value}",
                last.file, last.name, last.value
            );
            problem(last, what, cause, breaks)
        })
    });
    // Of the lines about a name, the last one counts.
    let is_last = |at: usize| all[at + 1..].iter().all(|line| line.name != all[at].name);
    let last = (0..all.len()).filter(|at| is_last(*at)).map(|at| &all[at]);
    let more = last.filter_map(|line| {
        // systemd applies patterns to new interfaces, too, when they appear.
        let counts = is_after(&line) || line.name.contains(".*.");
        let (cause, breaks) = prevented(asked, line, counts)?;
        let what = format!("{} sets {} to {}", line.file, line.name, line.value);
        Some(problem(
            line,
            what,
            format!("after the next boot, {cause}"),
            breaks,
        ))
    });
    changed.chain(more).collect()
}

fn problem(line: &Line<'_>, what: String, cause: String, breaks: bool) -> Problem {
    Problem {
        breaks,
        is_later: true,
        what,
        evidence: vec![format!("{}: {} = {}", line.file, line.name, line.value)],
        cause,
        fix: format!("remove the line from {}", line.file),
        commands: Vec::new(),
    }
}

/// Returns what a line of another file prevents on a node, although it does not change a setting of the cluster, and whether the
/// cluster needs it for sure. `is_after` if it applies after the settings of the cluster: these reset the ones of interfaces
/// (<https://docs.kernel.org/networking/ip-sysctl.html>).
fn prevented(asked: &Asked<'_>, line: &Line<'_>, is_after: bool) -> Option<(&'static str, bool)> {
    let pods = &asked.cluster.network.pod_cidr;
    let parts: Vec<&str> = line.name.split('.').collect();
    if !asked.cluster.is_node(asked.host) {
        return None;
    }
    match (parts.as_slice(), line.value) {
        (["kernel", "modules_disabled"], "1") => Some((
            "the kernel loads no module, and the network of pods needs some",
            true,
        )),
        (["net", "ipv4" | "ipv6", "conf", "lo" | "all", "forwarding"], _) => None,
        (["net", family, "conf", interface, "forwarding"], "0") if is_after => {
            let family = if *family == "ipv6" {
                IpFamily::V6
            } else {
                IpFamily::V4
            };
            let what = "interfaces do not forward packets of pods";
            // No pod may use this one.
            let breaks = ["default", "*"].contains(interface);
            pods.has(family).then_some((what, breaks))
        }
        (
            [
                "net",
                "ipv6",
                "conf",
                "all" | "default" | "*",
                "disable_ipv6",
            ],
            "1",
        ) => {
            let what =
                "interfaces have no addresses of IPv6, which the networks of the cluster have";
            pods.has(IpFamily::V6).then_some((what, true))
        }
        _ => None,
    }
}

/// The file that the remedy creates. cloud-init merges the files of this directory in the order of their names.
const CLOUD_FILE: &str = "/etc/cloud/cloud.cfg.d/99-kubexm.cfg";

/// Returns whether cloud-init replaces /etc/hosts with this value of `manage_etc_hosts`, in YAML. With `localhost` it only changes
/// the line of 127.0.1.1 (<https://docs.cloud-init.io/en/latest/reference/modules.html#update-etc-hosts>).
fn writes_hosts(value: &str) -> bool {
    let value = value.split(" #").next().unwrap_or_default();
    let value = value.trim().trim_matches(['"', '\'']).to_lowercase();
    ["true", "1", "on", "yes", "template"].contains(&value.as_str())
}

fn host_names(asked: &Asked<'_>) -> Vec<Problem> {
    let lines = asked.answers.all("cloud_hosts");
    let last = lines.last().and_then(|line| {
        let (file, setting) = line.split_once(':')?;
        Some((file, setting.split_once(':')?.1))
    });
    let Some((file, _)) =
        last.filter(|(_, value)| writes_hosts(value) && asked.cluster.system.manage_hosts_file)
    else {
        return Vec::new();
    };
    // Data of the instance comes after all files in /etc/cloud, and cloud-init writes it again.
    let (fix, command) = if !file.starts_with("/etc/cloud/") {
        let fix = "set it in the user data of the host and create it again, set spec.system.manageHostsFile: false, or disable cloud-init";
        (fix, "touch /etc/cloud/cloud-init.disabled".to_owned())
    } else {
        let command = if file < CLOUD_FILE {
            format!("echo 'manage_etc_hosts: false' >{CLOUD_FILE}")
        } else {
            format!("sed -i 's/^\\( *manage_etc_hosts *\\):.*/\\1: false/' {file}")
        };
        ("set manage_etc_hosts: false", command)
    };
    vec![Problem {
        breaks: true,
        is_later: true,
        what: format!("cloud-init writes /etc/hosts at each boot (manage_etc_hosts in {file})"),
        evidence: lines.to_vec(),
        cause: "the next boot removes the names of the registry and of the hosts from it"
            .to_owned(),
        fix: fix.to_owned(),
        commands: vec![command],
    }]
}
