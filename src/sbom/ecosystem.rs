//! Names of operating systems and their packages in OSV
//! (<https://ossf.github.io/osv-schema/#defined-ecosystems>).

use super::graph::Subject;
use super::os::{Manager, Package, Release};

/// Code names of releases: distribution, code name, version.
const CODE_NAMES: [(&str, &str, &str); 10] = [
    ("debian", "buster", "10"),
    ("debian", "bullseye", "11"),
    ("debian", "bookworm", "12"),
    ("debian", "trixie", "13"),
    ("debian", "forky", "14"),
    ("ubuntu", "focal", "20.04"),
    ("ubuntu", "jammy", "22.04"),
    ("ubuntu", "noble", "24.04"),
    ("ubuntu", "questing", "25.10"),
    ("ubuntu", "resolute", "26.04"),
];

/// Returns the release of a package set in a bundle.
pub fn release(distribution: &str, release: &str) -> Release {
    let known = CODE_NAMES
        .iter()
        .find(|(id, name, _)| *id == distribution && *name == release);
    Release {
        id: distribution.to_owned(),
        version: known.map_or(release, |(_, _, version)| version).to_owned(),
    }
}

/// Returns the OSV ecosystem of a release, or `None` if kubexm does not know one.
pub fn ecosystem(release: &Release) -> Option<String> {
    let version = release.version.as_str();
    let mut parts = version.split('.');
    let major = parts.next().filter(|major| !major.is_empty());
    let mut minor = || Some(format!("{}.{}", major?, parts.next()?));
    Some(match release.id.as_str() {
        "debian" => format!("Debian:{}", major?),
        "ubuntu" => format!("Ubuntu:{version}"),
        "alpine" => format!("Alpine:v{}", minor()?),
        "wolfi" => "Wolfi".to_owned(),
        "chainguard" => "Chainguard".to_owned(),
        "rocky" => format!("Rocky Linux:{}", major?),
        "almalinux" => format!("AlmaLinux:{}", major?),
        "rhel" => format!("Red Hat:enterprise_linux:{}", major?),
        "azurelinux" => format!("Azure Linux:{}", major?),
        "mageia" => format!("Mageia:{}", major?),
        "openeuler" => format!("openEuler:{version}-LTS"),
        "opensuse-leap" => format!("openSUSE:Leap {version}"),
        "opensuse-tumbleweed" => "openSUSE:Tumbleweed".to_owned(),
        "photon" => format!("Photon OS:{version}"),
        _ => return None,
    })
}

/// Returns whether the ecosystem of a record includes the ecosystem of a package. A record's ecosystem may
/// have a suffix that kubexm does not know, such as `:LTS` or a repository.
pub fn covers(record: &str, own: &str) -> bool {
    let Some(rest) = record.strip_prefix(own) else {
        return false;
    };
    rest.is_empty() || rest.starts_with(':')
}

/// Returns the names and versions of a package in OSV. The records of most distributions name source
/// packages, and some of rpm distributions name binary packages.
pub fn subjects(package: &Package, release: &Release) -> Vec<Subject> {
    let Some(ecosystem) = ecosystem(release) else {
        return Vec::new();
    };
    let subject = |name: &str, version: &str| {
        let epoch = package.epoch.map(|epoch| format!("{epoch}:"));
        Subject {
            ecosystem: ecosystem.clone(),
            name: name.to_owned(),
            version: format!("{}{version}", epoch.unwrap_or_default()),
        }
    };
    let own = subject(&package.name, &package.version);
    match (&package.source, package.manager) {
        (Some((name, version)), Manager::Rpm) => vec![own, subject(name, version)],
        (Some((name, version)), _) => vec![subject(name, version)],
        (None, _) => vec![own],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_named_as_osv_does() {
        for (id, version, expected) in [
            ("debian", "12", Some("Debian:12")),
            ("alpine", "3.20.3", Some("Alpine:v3.20")),
            ("rocky", "9.4", Some("Rocky Linux:9")),
            ("wolfi", "20230201", Some("Wolfi")),
            ("debian", "", None),
            ("plan9", "4", None),
        ] {
            let release = Release {
                id: id.into(),
                version: version.into(),
            };
            assert_eq!(ecosystem(&release).as_deref(), expected, "{id}");
        }
        assert_eq!(release("debian", "trixie").version, "13");
    }

    #[test]
    fn a_record_may_say_more_but_not_other_things() {
        assert!(covers("Ubuntu:22.04:LTS", "Ubuntu:22.04"));
        assert!(covers("Debian:12", "Debian:12"));
        assert!(!covers("Debian:12", "Debian:1"));
        assert!(!covers("Debian:11", "Debian:12"));
        assert!(!covers("Debian", "Debian:12"));
    }
}
