//! OS packages in the databases of dpkg, apk and rpm.

use super::text::clean;

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manager {
    /// Debian, Ubuntu and others.
    Dpkg,
    /// Alpine and Wolfi.
    Apk,
    /// Red Hat, SUSE, openEuler and others.
    Rpm,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub manager: Manager,
    pub name: String,
    /// The version with its release, and for dpkg with its epoch.
    pub version: String,
    /// The epoch of an rpm package.
    pub epoch: Option<u64>,
    /// The architecture in the notation of the distribution.
    pub arch: String,
    /// Name and version of the source package, if they differ from the package's.
    pub source: Option<(String, String)>,
    pub licence: Option<String>,
    /// The maintainer or vendor.
    pub supplier: Option<String>,
}

/// The operating system in `os-release`
/// (<https://www.freedesktop.org/software/systemd/man/latest/os-release.html>).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// `ID`, as in `debian`.
    pub id: String,
    /// `VERSION_ID`, as in `12`; empty for a distribution without releases.
    pub version: String,
}

impl Release {
    /// Parses the file. Returns `None` if it has no `ID`.
    pub fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let value = line.and_then(|line| line.strip_prefix('='));
            clean(value.unwrap_or_default().trim_matches(['"', '\'']))
        };
        let id = field("ID").to_ascii_lowercase();
        (!id.is_empty()).then(|| Self {
            id,
            version: field("VERSION_ID"),
        })
    }

    /// Returns the `distro` qualifier of package URLs: `debian-12`.
    pub fn distro(&self) -> String {
        if self.version.is_empty() {
            self.id.clone()
        } else {
            format!("{}-{}", self.id, self.version)
        }
    }
}

/// Parses `/var/lib/dpkg/status`, or a file below `status.d` of an image without dpkg
/// (<https://www.debian.org/doc/debian-policy/ch-controlfields.html>).
pub fn dpkg(text: &str) -> Vec<Package> {
    text.split("\n\n").filter_map(dpkg_stanza).collect()
}

fn dpkg_stanza(stanza: &str) -> Option<Package> {
    let field = |name: &str| {
        let mut lines = stanza.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(clean(value)).filter(|value| !value.is_empty())
    };
    // A removed package may be listed because of its configuration files. Files below `status.d` do not
    // have this field.
    if field("Status").is_some_and(|status| !status.ends_with(" installed")) {
        return None;
    }
    let (name, version) = (field("Package")?, field("Version")?);
    let source = field("Source").map(|source| match source.split_once(" (") {
        Some((source, own)) => (source.to_owned(), own.trim_end_matches(')').to_owned()),
        None => (source, version.clone()),
    });
    Some(Package {
        manager: Manager::Dpkg,
        source: source.filter(|source| *source != (name.clone(), version.clone())),
        name,
        version,
        epoch: None,
        arch: field("Architecture").unwrap_or_default(),
        licence: None,
        supplier: field("Maintainer"),
    })
}

/// Parses `/lib/apk/db/installed` (<https://wiki.alpinelinux.org/wiki/Apk_spec>).
pub fn apk(text: &str) -> Vec<Package> {
    text.split("\n\n").filter_map(apk_stanza).collect()
}

fn apk_stanza(stanza: &str) -> Option<Package> {
    let field = |letter: char| {
        let mut lines = stanza.lines();
        let value = lines.find_map(|line| line.strip_prefix(letter)?.strip_prefix(':'))?;
        Some(clean(value)).filter(|value| !value.is_empty())
    };
    let (name, version) = (field('P')?, field('V')?);
    let source = field('o').filter(|origin| *origin != name);
    Some(Package {
        manager: Manager::Apk,
        source: source.map(|origin| (origin, version.clone())),
        name,
        version,
        epoch: None,
        arch: field('A').unwrap_or_default(),
        licence: field('L'),
        supplier: field('m'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dpkg_has_removed_is_not_installed() {
        let text = "Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\n\
                    Source: openssl (3.0.1-1)\nVersion: 3.0.1-1+b1\nDescription: x\n Version: 9\n\n\
                    Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n\
                    Package: base-files\nVersion: 12.4\nArchitecture: all\n";
        let packages = dpkg(text);
        let seen: Vec<_> = packages
            .iter()
            .map(|p| (&*p.name, &*p.version, &p.source))
            .collect();
        let source = Some(("openssl".to_owned(), "3.0.1-1".to_owned()));
        let expected = [
            ("libssl3", "3.0.1-1+b1", &source),
            ("base-files", "12.4", &None),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn apk_names_licence_and_origin() {
        let text = "C:Q1abc=\nP:libcrypto3\nV:3.3.2-r0\nA:x86_64\nS:1\nL:Apache-2.0\no:openssl\n\
                    m:Someone <a@b.example>\nF:lib\nR:libcrypto.so.3\n\nP:musl\nV:1.2.5-r0\nA:x86_64\n\
                    L:MIT\no:musl\n";
        let packages = apk(text);
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].source.as_ref().unwrap().0, "openssl");
        assert_eq!(packages[0].licence.as_deref(), Some("Apache-2.0"));
        assert_eq!(packages[1].source, None);
    }

    #[test]
    fn quotes_and_commands_of_terminals_are_no_part_of_a_release() {
        let release = Release::parse("NAME=x\nID=\"Alpine\u{1b}\"\nVERSION_ID='3.20.3'\n").unwrap();
        assert_eq!(release.distro(), "alpine-3.20.3");
        assert_eq!(Release::parse("NAME=x\nVERSION_ID=1\n"), None);
    }
}
