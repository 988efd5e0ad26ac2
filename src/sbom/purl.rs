//! Package URLs (ECMA-427, <https://github.com/package-url/purl-spec>) of the components of a bundle, in
//! canonical form.

use packageurl::{Error, PackageUrl};

use super::os::{Manager, Package, Release};
use kubexm_bundle::lock::{LockedFile, LockedImage, PlatformManifest};
use kubexm_types::Arch;

/// Returns the package URL of a package of an operating system. For dpkg and apk, its qualifier `upstream` names the source
/// package, which Syft and Grype read: the databases of Debian and Alpine list vulnerabilities by source package.
///
/// # Errors
/// The package has no name.
pub fn os_package(package: &Package, release: &Release) -> Result<String, Error> {
    let kind = match package.manager {
        Manager::Dpkg => "deb",
        Manager::Apk => "apk",
        Manager::Rpm => "rpm",
    };
    let name = match package.manager {
        Manager::Rpm => package.name.clone(),
        // The crate's rules change the case for deb only; the definition of apk requires it, too.
        _ => package.name.to_ascii_lowercase(),
    };
    let epoch = package.epoch.map(|epoch| epoch.to_string());
    let is_rpm = matches!(package.manager, Manager::Rpm);
    let source = package.source.as_ref().filter(|_| !is_rpm);
    let upstream = source.map(|(name, version)| {
        if *version == package.version {
            name.clone()
        } else {
            format!("{name}@{version}")
        }
    });
    let mut purl = new(kind, &release.id, name, Some(&package.version))?;
    qualify(
        &mut purl,
        [
            ("arch", package.arch.clone()),
            ("distro", release.distro()),
            ("epoch", epoch.unwrap_or_default()),
            ("upstream", upstream.unwrap_or_default()),
        ],
    )
}

/// Returns the package URL of a Go module. `version` is `None` if it is unknown.
///
/// # Errors
/// The path has no last element.
pub fn go_module(path: &str, version: Option<&str>) -> Result<String, Error> {
    // The crate's rules change the case of the namespace only; the definition requires it of the name, too.
    let path = path.to_ascii_lowercase();
    let (namespace, name) = path.rsplit_once('/').unwrap_or(("", &path));
    Ok(new("golang", namespace, name.to_owned(), version)?.to_string())
}

/// Returns the package URL of a Rust crate.
///
/// # Errors
/// The crate has no name.
pub fn rust_crate(name: &str, version: &str) -> Result<String, Error> {
    Ok(new("cargo", "", name.to_owned(), Some(version))?.to_string())
}

/// Returns the package URL of one platform of an image, or of one manifest of another artifact.
///
/// # Errors
/// The repository has no last element.
pub fn image(image: &LockedImage, platform: &PlatformManifest) -> Result<String, Error> {
    let repository = image.name.repository();
    let name = repository.rsplit('/').next().unwrap_or(repository);
    let digest = platform.manifest.digest.to_string();
    let mut purl = new("oci", "", name.to_owned(), Some(&digest))?;
    qualify(
        &mut purl,
        [
            ("arch", platform.arch.map(arch).unwrap_or_default()),
            (
                "repository_url",
                format!("{}/{repository}", image.name.registry()),
            ),
            ("tag", image.name.tag().unwrap_or_default().to_owned()),
        ],
    )
}

/// Returns the package URL of a downloaded file.
///
/// # Errors
/// The component has no name.
pub fn file(file: &LockedFile) -> Result<String, Error> {
    let version = file.version.to_string();
    let mut purl = new("generic", "", file.component.clone(), Some(&version))?;
    qualify(
        &mut purl,
        [
            ("arch", arch(file.arch)),
            ("checksum", file.digest.to_string()),
            ("download_url", file.url.to_string()),
        ],
    )
}

fn new(
    kind: &'static str,
    namespace: &str,
    name: String,
    version: Option<&str>,
) -> Result<PackageUrl<'static>, Error> {
    let mut purl = PackageUrl::new(kind, name)?;
    // A segment of a namespace is not empty (ECMA-427, 5.6.3).
    let segments = namespace.split('/').filter(|segment| !segment.is_empty());
    let namespace = segments.collect::<Vec<_>>().join("/");
    if !namespace.is_empty() {
        purl.with_namespace(namespace)?;
    }
    if let Some(version) = version.filter(|version| !version.is_empty()) {
        purl.with_version(version.to_owned())?;
    }
    Ok(purl)
}

/// Returns the text with those qualifiers that have a value (ECMA-427, 5.6.6).
fn qualify<const COUNT: usize>(
    purl: &mut PackageUrl<'static>,
    qualifiers: [(&'static str, String); COUNT],
) -> Result<String, Error> {
    for (key, value) in qualifiers {
        if !value.is_empty() {
            purl.add_qualifier(key, value)?;
        }
    }
    Ok(purl.to_string())
}

fn arch(arch: Arch) -> String {
    arch.name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(manager: Manager, name: &str) -> Package {
        Package {
            manager,
            name: name.into(),
            version: "1:12.2.0-14+b1".into(),
            epoch: None,
            arch: "amd64".into(),
            source: None,
            licence: None,
            supplier: None,
        }
    }

    fn release(id: &str, version: &str) -> Release {
        Release {
            id: id.into(),
            version: version.into(),
        }
    }

    #[test]
    fn os_packages_have_canonical_urls() {
        let debian = release("debian", "12");
        assert_eq!(
            os_package(&package(Manager::Dpkg, "libstdc++6"), &debian).unwrap(),
            "pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14%2Bb1?arch=amd64&distro=debian-12"
        );
        let mut library = package(Manager::Dpkg, "libssl3");
        library.source = Some(("openssl".into(), "3.0.1-1".into()));
        assert_eq!(
            os_package(&library, &debian).unwrap(),
            "pkg:deb/debian/libssl3@1:12.2.0-14%2Bb1?arch=amd64&distro=debian-12&upstream=openssl%403.0.1-1"
        );
        let alpine = release("alpine", "3.20");
        assert_eq!(
            os_package(&package(Manager::Apk, "Musl"), &alpine).unwrap(),
            "pkg:apk/alpine/musl@1:12.2.0-14%2Bb1?arch=amd64&distro=alpine-3.20"
        );
        let rocky = release("rocky", "9");
        let mut rpm = package(Manager::Rpm, "NetworkManager");
        rpm.epoch = Some(1);
        assert_eq!(
            os_package(&rpm, &rocky).unwrap(),
            "pkg:rpm/rocky/NetworkManager@1:12.2.0-14%2Bb1?arch=amd64&distro=rocky-9&epoch=1"
        );
    }

    #[test]
    fn modules_of_go_have_lower_case_paths() {
        assert_eq!(
            go_module("github.com/Azure/Go-ansiterm", Some("v1.0.0+incompatible")).unwrap(),
            "pkg:golang/github.com/azure/go-ansiterm@v1.0.0%2Bincompatible"
        );
        assert_eq!(go_module("a//b", Some("")).unwrap(), "pkg:golang/a/b");
        assert_eq!(go_module("stdlib", None).unwrap(), "pkg:golang/stdlib");
    }

    /// The expected text is a test of the specification, `tests/types/oci-test.json`.
    #[test]
    fn slashes_in_qualifiers_are_encoded() {
        let mut purl = new("oci", "", "debian".into(), Some("sha256:244fd47e07d10")).unwrap();
        let text = qualify(
            &mut purl,
            [
                ("repository_url", "docker.io/library/debian".to_owned()),
                ("arch", "amd64".to_owned()),
                ("tag", "latest".to_owned()),
                ("empty", String::new()),
            ],
        );
        assert_eq!(
            text.unwrap(),
            "pkg:oci/debian@sha256:244fd47e07d10?arch=amd64&repository_url=docker.io%2Flibrary%2Fdebian&tag=latest"
        );
    }

    #[test]
    fn an_empty_name_is_an_error() {
        assert!(rust_crate("", "1.0.0").is_err());
        assert!(go_module("example.com/", None).is_err());
    }
}
