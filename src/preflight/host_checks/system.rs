//! What prevents an install from changing a host.

use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const IMMUTABLE: HostCheck = HostCheck {
    kind: FindingKind::FileSystems,
    when: When::Always,
    read: "attributes of files and directories that kubexm changes (lsattr)",
    find: immutable,
};

pub(super) const PACKAGES: HostCheck = HostCheck {
    kind: FindingKind::Packages,
    when: When::BeforeInstall,
    read: "whether apt and dpkg find their packages complete",
    find: packages,
};

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
    let said = asked.answers.all("packages");
    if said.is_empty() || !asked.cluster.system.install_packages {
        return Vec::new();
    }
    vec![Problem {
        breaks: true,
        is_later: true,
        what: format!("packages are not complete: {}", said.join("; ")),
        evidence: said.to_vec(),
        cause: "apt installs no package until this is mended".to_owned(),
        fix: "complete or remove them: apt-get check and dpkg --audit name them".to_owned(),
        commands: Vec::new(),
    }]
}
