//! What the next boot changes of what an install sets.

use kubexm_config::cluster::kernel_settings;
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
    let mut lines = lines(asked.answers.all("next_sysctl"));
    lines.retain(|line| base(line.file) > own);
    let settings = asked.cluster.kernel_settings().into_iter();
    settings
        .filter_map(|(name, value)| {
            let mut others = lines.iter().rev();
            let last = others.find(|line| is_about(&line.name, &dotted(&name)))?;
            let same = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
            (same(last.value) != same(&value)).then(|| Problem {
                breaks: asked.cluster.needs_kernel_setting(&name),
                is_later: true,
                what: format!(
                    "{} sets {} to {}, and the cluster needs {value}",
                    last.file, last.name, last.value
                ),
                evidence: vec![format!("{}: {} = {}", last.file, last.name, last.value)],
                cause: format!(
                    "the next boot applies this file after {}",
                    kernel_settings::FILE
                ),
                fix: format!("remove the line from {}", last.file),
                commands: Vec::new(),
            })
        })
        .collect()
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
