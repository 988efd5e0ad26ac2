//! What prevents an install from changing a host.

use kubexm_config::Cluster;
use kubexm_types::{FindingKind, HostName};

use super::check::{Asked, HostCheck, Problem, When};
use super::mounts;

pub(super) const IMMUTABLE: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::Always,
    read: "attributes of files and directories that kubexm changes (lsattr)",
    find: immutable,
};

pub(super) const FAPOLICYD: HostCheck = HostCheck {
    kind: FindingKind::Programs,
    when: When::BeforeInstall,
    read: "whether fapolicyd runs, and its rules about directories",
    find: fapolicyd,
};

pub(super) const PACKAGES: HostCheck = HostCheck {
    kind: FindingKind::Packages,
    when: When::BeforeInstall,
    read: "whether apt and dpkg find their packages complete, and rpm its database",
    find: packages,
};

/// Returns the files and directories that an install changes on a host.
pub(super) fn files<'a>(cluster: &'a Cluster, host: &HostName) -> Vec<&'a str> {
    let system = &cluster.system;
    let mut files = vec![
        "/etc",
        "/etc/passwd",
        "/etc/group",
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/systemd/system",
        "/etc/sysctl.d",
        "/etc/modules-load.d",
        "/var/lib",
        "/var/lib/kubexm",
        "/usr/local",
        "/usr/local/bin",
        "/usr/local/lib",
    ];
    let mut add = |is_changed: bool, more: &[&'a str]| {
        if is_changed {
            files.extend(more);
        }
    };
    add(
        cluster.is_node(host),
        &[
            "/etc/kubernetes",
            "/etc/containerd",
            "/etc/crio",
            "/etc/docker",
            "/etc/cni",
            "/etc/cni/net.d",
            "/etc/systemd/network",
            "/etc/NetworkManager/conf.d",
            "/opt",
            "/opt/cni",
            "/opt/cni/bin",
        ],
    );
    add(system.manage_hosts_file, &["/etc/hosts"]);
    add(system.disable_swap, &["/etc/fstab"]);
    add(system.set_host_names, &["/etc/hostname"]);
    add(system.resolvers.is_some(), &["/etc/resolv.conf"]);
    add(
        system.time.is_some(),
        &[
            "/etc/chrony",
            "/etc/chrony.conf",
            "/etc/chrony/chrony.conf",
            "/etc/chrony.d",
        ],
    );
    add(system.time_zone.is_some(), &["/etc/localtime"]);
    files.extend(mounts::directories(cluster, host));
    files
}

fn immutable(asked: &Asked<'_>) -> Vec<Problem> {
    let paths = asked.answers.all("immutable");
    if paths.is_empty() {
        return Vec::new();
    }
    vec![Problem {
        breaks: true,
        is_later: true,
        what: format!("no program can change {}", paths.join(", ")),
        evidence: paths.to_vec(),
        cause: "they have the attribute immutable or append-only".to_owned(),
        fix: "remove the attribute".to_owned(),
        commands: vec![format!("chattr -i -a {}", paths.join(" "))],
    }]
}

fn packages(asked: &Asked<'_>) -> Vec<Problem> {
    if !asked.cluster.system.install_packages {
        return Vec::new();
    }
    let problem = |key: &str, what: &str, cause: &str, fix: &str, commands: Vec<String>| {
        let said = asked.answers.all(key);
        (!said.is_empty()).then(|| Problem {
            breaks: true,
            is_later: true,
            what: format!("{what}: {}", said.join("; ")),
            evidence: said.to_vec(),
            cause: cause.to_owned(),
            fix: fix.to_owned(),
            commands,
        })
    };
    let of_dpkg = problem(
        "packages",
        "packages are not complete",
        "apt installs no package until this is mended",
        "complete or remove them: apt-get check and dpkg --audit name them",
        Vec::new(),
    );
    let of_rpm = problem(
        "rpm_database",
        "rpm cannot read its database",
        "dnf installs no package until this is mended",
        "write its indexes again",
        vec![
            "cp -a /var/lib/rpm /var/lib/rpm.saved".to_owned(),
            "rpm --rebuilddb".to_owned(),
        ],
    );
    of_dpkg.into_iter().chain(of_rpm).collect()
}

/// The directories of programs that kubexm installs. fapolicyd knows only those of packages.
const PROGRAMS: [&str; 5] = [
    "/usr/local/bin/",
    "/usr/local/lib/kubexm/",
    "/usr/local/libexec/",
    "/opt/cni/bin/",
    "/var/lib/kubexm/",
];
/// The file of rules that the remedy writes. Rules that deny everything else have a later name.
const RULES: &str = "/etc/fapolicyd/rules.d/80-kubexm.rules";

/// A rule about a directory accepts the programs before they exist, and those of an upgrade; the list of trusted files has digests.
fn fapolicyd(asked: &Asked<'_>) -> Vec<Problem> {
    let (active, rules): (Vec<&str>, Vec<&str>) = {
        let lines = asked.answers.all("fapolicyd").iter().map(String::as_str);
        lines.partition(|line| *line == "active")
    };
    let is_permitted = |directory: &str| {
        let words = rules.iter().flat_map(|rule| rule.split(' '));
        let lists = words.filter_map(|word| word.strip_prefix("dir="));
        let mut listed = lists.flat_map(|list| list.split(','));
        listed.any(|own| own.starts_with('/') && directory.starts_with(own))
    };
    let missing: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|one| !is_permitted(one))
        .collect();
    if active.is_empty() || missing.is_empty() {
        return Vec::new();
    }
    let lines = missing
        .iter()
        .map(|one| format!(" 'allow perm=any all : dir={one}'"));
    vec![Problem {
        breaks: true,
        is_later: false,
        what: format!("fapolicyd has no rule for {}", missing.join(", ")),
        evidence: Vec::new(),
        cause: "it starts no program there, because no package of the distribution has them"
            .to_owned(),
        fix: "permit these directories".to_owned(),
        commands: vec![
            format!("printf '%s\\n'{} >{RULES}", lines.collect::<String>()),
            "systemctl restart fapolicyd".to_owned(),
        ],
    }]
}
