//! The closure of a Debian archive, compared with what apt installs from the same lists.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use kubexm_config::manifest::{AptRepository, PackageSource, Repositories};
use kubexm_fetch::packages::resolve;
use kubexm_types::{Arch, Digest};

use super::filters;
use super::site::{EXPIRED, MADE, Site};

/// Name and version, then further fields. Every host has packages with priority `required`.
const PACKAGES: [(&str, &str); 24] = [
    ("libc6 2.36-9", "Priority: required"),
    ("dpkg 1.21", "Essential: yes\nDepends: libc6 (>= 2.30)"),
    ("simple 1.0-1", "Depends: libc6, libone (>= 1.2)"),
    (
        "libone 1.10-1",
        "Multi-Arch: allowed\nDepends: libc6 (>= 2.34)",
    ),
    ("pre 1-1", "Pre-Depends: libone\nDepends: deep"),
    ("deep 1-1", "Depends: deeper (= 2:1~rc1-1)"),
    ("deeper 2:1~rc1-1", ""),
    (
        "first 1-1",
        "Depends: none | absent | libone, libtwo | libone",
    ),
    ("libtwo 1-1", ""),
    ("mail 1-1", "Depends: default-mta | mail-agent"),
    ("default-mta 1-1", "Depends: agent"),
    ("agent 1-1", "Provides: mail-agent"),
    ("other-agent 1-1", "Provides: mail-agent"),
    ("virtual 1-1", "Depends: editor-api (>= 2)"),
    ("old-editor 1-1", "Provides: editor-api (= 1)"),
    ("new-editor 1-1", "Provides: editor-api (= 2)"),
    ("versions 1-1", "Depends: libthree (>= 2), libthree (<< 3)"),
    ("libthree 2.5-1", ""),
    ("multi 1-1", "Depends: libone:any, libtwo:amd64"),
    (
        "weak 1-1",
        "Recommends: libtwo\nSuggests: libthree\nDepends: libone",
    ),
    ("loop 1-1", "Depends: back"),
    ("back 1-1", "Depends: loop"),
    ("has-base 1-1", "Depends: dpkg (>= 1), libc6"),
    (
        "all 1-1",
        "Depends: simple, pre, first, mail, virtual, versions, multi, loop",
    ),
];

fn stanza((label, fields): &(&str, &str)) -> String {
    let (name, version) = label.split_once(' ').unwrap();
    let content = Digest::of(label.as_bytes()).hex();
    let fields = if fields.is_empty() {
        String::new()
    } else {
        format!("{fields}\n")
    };
    format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: x <x@lab.example>\n{fields}\
         Description: x\nFilename: pool/{name}.deb\nSize: {}\nSHA256: {content}\n\n",
        label.len()
    )
}

/// The archive: a signed `InRelease`, a list by its digest, and packages.
fn write_archive(site: &Site) {
    let list: String = PACKAGES.iter().map(stanza).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(list.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let digest = Digest::of(&gzip).hex();
    let by_hash = site.at("debian/dists/lab/main/binary-amd64/by-hash/SHA256");
    std::fs::create_dir_all(&by_hash).unwrap();
    std::fs::create_dir_all(site.at("debian/pool")).unwrap();
    std::fs::write(by_hash.join(&digest), &gzip).unwrap();
    for (label, _) in PACKAGES {
        let name = label.split(' ').next().unwrap();
        std::fs::write(site.at(&format!("debian/pool/{name}.deb")), label).unwrap();
    }
    let size = gzip.len();
    let release = format!("Suite: lab\nSHA256:\n {digest} {size} main/binary-amd64/Packages.gz\n");
    let plain = site.at("debian/dists/lab/Release");
    std::fs::write(&plain, release).unwrap();
    site.clear_sign(&plain, &site.at("debian/dists/lab/InRelease"));
}

/// Returns what apt installs from a copy of the list on a host with the required packages.
fn asked_of_apt(root: &Path, name: &str) -> Vec<String> {
    let output = Command::new("apt-get")
        .args(["-s", "-q", "--no-install-recommends"])
        .args(["install", name])
        .env("LC_ALL", "C")
        .env("APT_CONFIG", root.join("apt.conf"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("Inst "));
    let mut chosen: Vec<String> = lines
        .filter_map(|line| {
            let (name, rest) = line.split_once(" (")?;
            Some(format!("{name} {}", rest.split(' ').next()?))
        })
        .collect();
    chosen.sort();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {printed}{text}");
    chosen
}

fn write_apt_root(root: &Path) {
    for folder in ["etc/apt/apt.conf.d", "etc/apt/preferences.d", "repo"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for folder in ["lists/partial", "cache/archives/partial"] {
        let (state, cache) = (
            root.join("var/lib/apt").join(folder),
            root.join("var").join(folder),
        );
        std::fs::create_dir_all(state).unwrap();
        std::fs::create_dir_all(cache).unwrap();
    }
    std::fs::create_dir_all(root.join("var/cache/apt/archives/partial")).unwrap();
    let (base, all) = (&PACKAGES[..2], &PACKAGES);
    let status: String = base
        .iter()
        .map(|package| stanza(package).replacen('\n', "\nStatus: install ok installed\n", 1))
        .collect();
    std::fs::write(root.join("status"), status).unwrap();
    let list: String = all.iter().map(stanza).collect();
    std::fs::write(root.join("repo/Packages"), list).unwrap();
    let source = format!("deb [trusted=yes] file:{}/repo ./\n", root.display());
    std::fs::write(root.join("etc/apt/sources.list"), source).unwrap();
    let config = format!(
        "Dir \"{0}\"; Dir::State::status \"{0}/status\"; APT::Sandbox::User \"root\";
         APT::Architecture \"amd64\"; APT::Architectures {{ \"amd64\"; }};\n",
        root.display()
    );
    std::fs::write(root.join("apt.conf"), config).unwrap();
    let updated = Command::new("apt-get")
        .args(["-q", "update"])
        .env("APT_CONFIG", root.join("apt.conf"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&updated.stderr);
    assert!(updated.status.success(), "{printed}");
}

fn source(name: &str, key: &str) -> PackageSource {
    PackageSource {
        distribution: "debian".into(),
        release: "lab".into(),
        repositories: Repositories::Apt(vec![AptRepository {
            url: "https://dnf.example/debian".parse().unwrap(),
            suite: "lab".into(),
            components: vec!["main".into()],
            architectures: Vec::new(),
            signed_by: vec![MADE.path().join(key)],
        }]),
        packages: vec![name.into()],
    }
}

/// Ubuntu's archive for amd64 does not have packages for arm64, which are in another one.
#[tokio::test]
async fn archives_are_asked_only_for_their_architectures() {
    let _filters = super::filters();
    let site = Site::start().await;
    write_archive(&site);
    let mut source = source("simple", "key.asc");
    let Repositories::Apt(repositories) = &mut source.repositories else {
        panic!("an archive");
    };
    let mut other = repositories[0].clone();
    other.url = "https://ports.invalid/debian".parse().unwrap();
    repositories[0].architectures = vec![Arch::Amd64];
    other.architectures = vec![Arch::Arm64];
    repositories.push(other);
    resolve(&site.http, &source, Arch::Amd64, None)
        .await
        .unwrap();
    let Repositories::Apt(repositories) = &mut source.repositories else {
        panic!("an archive");
    };
    repositories.truncate(1);
    let error = resolve(&site.http, &source, Arch::Arm64, None).await;
    insta::assert_snapshot!(error.unwrap_err().to_string(), @"
    packages for debian lab arm64: no repository has this architecture
    hint: add a repository for it, or leave the architecture out of spec.architectures
    ");
}

#[tokio::test]
async fn package_set_equals_what_apt_installs_on_a_minimal_host() {
    let _filters = super::filters();
    let site = Site::start().await;
    write_archive(&site);
    let root = tempfile::tempdir().unwrap();
    write_apt_root(root.path());
    for (label, _) in &PACKAGES[2..] {
        let name = label.split(' ').next().unwrap();
        let set = resolve(&site.http, &source(name, "key.asc"), Arch::Amd64, None).await;
        let set = set.unwrap();
        let packages = set.packages.iter();
        let ours: Vec<String> = packages
            .map(|p| format!("{} {}", p.name, p.version))
            .collect();
        assert_eq!(ours, asked_of_apt(root.path(), name), "{name}");
    }
    let refused = resolve(&site.http, &source("all", "other.gpg"), Arch::Amd64, None).await;
    let printed = refused.unwrap_err().to_string();
    insta::assert_snapshot!(printed, @"
    InRelease of lab: cannot verify the signature with [target]/os-packages/other.gpg: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    ");
}

#[tokio::test]
async fn in_release_of_an_expired_or_revoked_key_is_refused() {
    let site = Site::start().await;
    write_archive(&site);
    let refused = |key: &'static str| {
        let (http, source) = (&site.http, source("all", key));
        async move {
            let refused = resolve(http, &source, Arch::Amd64, None).await;
            refused.unwrap_err().to_string()
        }
    };
    let revoked = refused("revoked.asc").await;
    let (plain, signed) = (
        site.at("debian/dists/lab/Release"),
        site.at("debian/dists/lab/InRelease"),
    );
    std::fs::remove_file(&signed).unwrap();
    site.clear_sign_as(EXPIRED, &plain, &signed);
    let expired = refused("old.asc").await;
    let unknown = refused("key.asc").await;
    let _filters = filters();
    insta::assert_snapshot!([revoked, expired, unknown].join("\n"), @"
    InRelease of lab: cannot verify the signature with [target]/os-packages/revoked.asc: key [key ID]: the key is revoked
    hint: do not trust this signature; ask the publisher which key replaces the revoked one
    InRelease of lab: cannot verify the signature with [target]/os-packages/old.asc: key [key ID]: the key expired at 2020-01-31T00:00:00Z
    hint: get the publisher's current key, which may have a later expiry, and replace the file in signedBy
    InRelease of lab: cannot verify the signature with [target]/os-packages/key.asc: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    ");
}

#[tokio::test]
async fn edited_packages_of_a_lock_differ_from_the_signed_lists_of_apt() {
    let site = Site::start().await;
    write_archive(&site);
    let source = source("simple", "key.asc");
    let set = resolve(&site.http, &source, Arch::Amd64, None).await;
    super::assert_compared(&site, &source, set.unwrap()).await;
}

#[tokio::test]
async fn other_keys_in_the_manifest_are_an_error_also_with_a_lock() {
    let site = Site::start().await;
    write_archive(&site);
    let good = source("simple", "key.asc");
    let set = resolve(&site.http, &good, Arch::Amd64, None).await.unwrap();
    let mut all = String::new();
    for key in ["other.gpg", "nowhere"] {
        let found = super::compare(&site, &source("simple", key), &set).await;
        all += &format!("{}\n", found.unwrap_err());
    }
    std::fs::remove_dir_all(site.at("debian")).unwrap();
    let found = super::compare(&site, &source("simple", "nowhere"), &set).await;
    assert!(found.is_err(), "{found:?}");
    let found = super::compare(&site, &good, &set).await;
    assert_eq!(found.unwrap().not_compared.len(), 1);
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    InRelease of lab: cannot verify the signature with [target]/os-packages/other.gpg: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    InRelease of lab: cannot read the keyring [target]/os-packages/nowhere: No such file or directory (os error 2)
    hint: take the file from the distribution's medium, its keyring package or an installed host; `gpg --export KEY` writes one
    ");
}

#[tokio::test]
async fn in_release_of_another_suite_is_refused() {
    let site = Site::start().await;
    write_archive(&site);
    // A mirror serves the signed release of another suite.
    std::fs::rename(site.at("debian/dists/lab"), site.at("debian/dists/next")).unwrap();
    let mut source = source("simple", "key.asc");
    if let Repositories::Apt(repositories) = &mut source.repositories {
        repositories[0].suite = "next".to_owned();
    }
    let refused = resolve(&site.http, &source, Arch::Amd64, None).await;
    insta::assert_snapshot!(refused.unwrap_err(), @"
    InRelease of next: it is the release of another suite: requested is 'next', found Suite 'lab'
    hint: correct the suite in the bundle manifest; if it is correct, the server or a mirror serves a wrong file
    ");
}

#[tokio::test]
async fn login_of_a_repository_is_sent_and_not_recorded() {
    const CANARY: &str = "CANARY-PASSWORD";
    let site = Site::start().await;
    write_archive(&site);
    let mut source = source("simple", "key.asc");
    let with_login = |source: &mut PackageSource, path: &str| {
        if let Repositories::Apt(repositories) = &mut source.repositories {
            let url = format!("{}/{path}", site.address(&format!("bob:{CANARY}")));
            repositories[0].url = url.parse().unwrap();
        }
    };
    with_login(&mut source, "debian");
    let set = resolve(&site.http, &source, Arch::Amd64, None).await;
    let set = set.unwrap();
    let requests = site.requests().await;
    assert!(requests.iter().any(|(path, _)| path.ends_with(".deb")));
    assert!(
        requests.iter().all(|(_, login)| login.is_some()),
        "{requests:?}"
    );
    assert!(!format!("{set:?} {source:?}").contains(CANARY));
    assert!(
        set.packages
            .iter()
            .all(|package| package.url.username().is_empty())
    );

    // A build from the lock has an empty cache, except for the index.
    for package in &set.packages {
        std::fs::remove_file(site.http.cache().path(&package.digest)).unwrap();
    }
    let (mut lock, _) = crate::example::example(&[]);
    lock.packages.push(set.clone());
    let again = resolve(&site.http, &source, Arch::Amd64, Some(&lock)).await;
    assert_eq!(again.unwrap(), set);
    let requests = site.requests().await;
    assert!(
        requests.iter().all(|(_, login)| login.is_some()),
        "{requests:?}"
    );

    with_login(&mut source, "nothing");
    let refused = resolve(&site.http, &source, Arch::Amd64, None).await;
    let refused = refused.unwrap_err();
    let printed = format!("{refused} {refused:?}");
    assert!(
        printed.contains("/nothing/dists/lab/InRelease"),
        "{printed}"
    );
    assert!(
        !printed.contains(CANARY) && !printed.contains("bob"),
        "{printed}"
    );
}
