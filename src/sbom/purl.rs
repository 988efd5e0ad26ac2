//! Package addresses (<https://github.com/package-url/purl-spec>), always in their canonical form.

use super::os::{Manager, Package, Release};
use kubexm_bundle::lock::{LockedFile, LockedImage, PlatformManifest};
use kubexm_types::Arch;

/// `pkg:type/namespace/name@version?qualifiers`.
pub struct Purl<'a> {
    kind: &'a str,
    /// May be empty, or have parts.
    namespace: &'a str,
    name: &'a str,
    version: Option<&'a str>,
    /// Keys in lower case, by the alphabet; those without value are left out.
    qualifiers: Vec<(&'a str, String)>,
}

impl Purl<'_> {
    fn text(&self) -> String {
        let mut text = format!("pkg:{}/", self.kind);
        for part in self.namespace.split('/').filter(|part| !part.is_empty()) {
            text.push_str(&encode(part, ""));
            text.push('/');
        }
        text.push_str(&encode(self.name, ""));
        if let Some(version) = self.version.filter(|version| !version.is_empty()) {
            text.push('@');
            text.push_str(&encode(version, ""));
        }
        let mut separator = '?';
        for (key, value) in &self.qualifiers {
            if !value.is_empty() {
                text.push(separator);
                text.push_str(&format!("{key}={}", encode(value, "/")));
                separator = '&';
            }
        }
        text
    }
}

/// Everything but letters, digits, `.-_~` and the colon is written as its bytes in hexadecimal digits.
fn encode(text: &str, besides: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || ".-_~:".contains(c) || besides.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A package of an operating system.
pub fn os_package(package: &Package, release: &Release) -> String {
    let kind = match package.manager {
        Manager::Dpkg => "deb",
        Manager::Apk => "apk",
        Manager::Rpm => "rpm",
    };
    let name = match package.manager {
        Manager::Rpm => package.name.clone(),
        _ => package.name.to_ascii_lowercase(),
    };
    let mut qualifiers = vec![("arch", package.arch.clone()), ("distro", release.distro())];
    if let Some(epoch) = package.epoch {
        qualifiers.push(("epoch", epoch.to_string()));
    }
    Purl {
        kind,
        namespace: &release.id,
        name: &name,
        version: Some(&package.version),
        qualifiers,
    }
    .text()
}

/// A module of Go; `None` where its version is unknown.
pub fn go_module(path: &str, version: Option<&str>) -> String {
    let path = path.to_ascii_lowercase();
    let (namespace, name) = path.rsplit_once('/').unwrap_or(("", &path));
    Purl {
        kind: "golang",
        namespace,
        name,
        version,
        qualifiers: Vec::new(),
    }
    .text()
}

/// A crate.
pub fn rust_crate(name: &str, version: &str) -> String {
    Purl {
        kind: "cargo",
        namespace: "",
        name,
        version: Some(version),
        qualifiers: Vec::new(),
    }
    .text()
}

/// One platform of an image.
pub fn image(image: &LockedImage, platform: &PlatformManifest) -> String {
    let repository = image.name.repository();
    let name = repository.rsplit('/').next().unwrap_or(repository);
    Purl {
        kind: "oci",
        namespace: "",
        name,
        version: Some(&platform.manifest.digest.to_string()),
        qualifiers: vec![
            ("arch", arch(platform.arch)),
            (
                "repository_url",
                format!("{}/{repository}", image.name.registry()),
            ),
            ("tag", image.name.tag().unwrap_or_default().to_owned()),
        ],
    }
    .text()
}

/// A downloaded file.
pub fn file(file: &LockedFile) -> String {
    Purl {
        kind: "generic",
        namespace: "",
        name: &file.component,
        version: Some(&file.version.to_string()),
        qualifiers: vec![
            ("arch", arch(file.arch)),
            ("checksum", file.digest.to_string()),
            ("download_url", file.url.to_string()),
        ],
    }
    .text()
}

fn arch(arch: Arch) -> String {
    arch.name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_the_specification_writes_them() {
        let release = Release {
            id: "debian".into(),
            version: "12".into(),
        };
        let package = Package {
            manager: Manager::Dpkg,
            name: "libstdc++6".into(),
            version: "1:12.2.0-14+b1".into(),
            epoch: None,
            arch: "amd64".into(),
            source: None,
            licence: None,
            supplier: None,
        };
        assert_eq!(
            os_package(&package, &release),
            "pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bb1?arch=amd64&distro=debian-12"
        );
        assert_eq!(
            go_module("github.com/Azure/go-ansiterm", Some("v1.0.0+incompatible")),
            "pkg:golang/github.com/azure/go-ansiterm@v1.0.0%2Bincompatible"
        );
        assert_eq!(go_module("stdlib", None), "pkg:golang/stdlib");
    }
}
