//! Sets of packages: what a build selects and refuses, compared with the programs of the distributions, and
//! what their package managers install on a host.

mod closures;
mod debian;
mod hosts;
mod modules;
mod site;
mod versions;

use std::process::Command;

use kubexm_bundle::Lock;
use kubexm_bundle::lock::LockedPackages;
use kubexm_catalog::Catalog;
use kubexm_config::manifest::{PackageSource, Repositories, Verify};
use kubexm_config::parse_manifest;
use kubexm_fetch::FetchError;
use kubexm_fetch::packages::resolve;
use kubexm_fetch::resolve::{LockComparison, Resolver};
use kubexm_fetch::signatures::Policies;
use kubexm_types::{Arch, Digest};

use crate::example::example;
use site::{MADE, Site, find, source};

const SIGNED: [Verify; 2] = [Verify::Both, Verify::Packages];

async fn build(site: &Site, source: &PackageSource) -> Result<LockedPackages, FetchError> {
    resolve(&site.http, source, Arch::Amd64, None).await
}

/// Compares the packages of a lock with their repositories, as an online build does.
async fn compare(
    site: &Site,
    source: &PackageSource,
    set: &LockedPackages,
) -> Result<LockComparison, FetchError> {
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {name: m}\nspec:\n  \
                architectures: [amd64]\n  kubernetes: {versions: [\"1.36.3\"]}\n";
    let mut manifest = parse_manifest("m.yaml", text).unwrap();
    manifest.packages = vec![source.clone()];
    let (mut lock, _) = example(&[]);
    lock.packages.push(set.clone());
    let catalog = Catalog::embedded().unwrap();
    let policies = Policies::load(&catalog, &[], &[]).unwrap();
    let resolver = Resolver::new(&site.http, &catalog, Some(&lock), &policies);
    resolver.compare_packages(&manifest).await
}

/// Checks that an edited digest differs, and that a package that no repository lists is named.
async fn assert_compared(site: &Site, source: &PackageSource, set: LockedPackages) {
    let found = compare(site, source, &set).await.unwrap();
    assert_eq!(found, LockComparison::default());
    let mut edited = set.clone();
    edited.packages[0].digest = Digest::of(b"a package of the editor");
    let found = compare(site, source, &edited).await.unwrap();
    assert_eq!(found.changed.len(), 1, "{found:?}");
    assert_eq!(found.changed[0].published, set.packages[0].digest);
    assert!(
        found.changed[0]
            .item
            .starts_with(&format!("package {} ", set.packages[0].name))
    );
    let mut dropped = set.clone();
    dropped.packages[0].version = "99-1".to_owned();
    let found = compare(site, source, &dropped).await.unwrap();
    assert!(found.changed.is_empty(), "{found:?}");
    assert!(
        found.not_compared[0].contains("no longer list 1 packages"),
        "{found:?}"
    );
}

#[tokio::test]
async fn edited_packages_of_a_lock_differ_from_the_metadata_of_dnf() {
    let site = Site::start().await;
    let source = source("key.asc", SIGNED, &["tool"]);
    let set = build(&site, &source).await.unwrap();
    assert_compared(&site, &source, set).await;
}

async fn complaint(site: &Site, source: &PackageSource) -> String {
    build(site, source).await.unwrap_err().to_string()
}

fn names(set: &LockedPackages) -> Vec<&str> {
    set.packages
        .iter()
        .map(|package| package.name.as_str())
        .collect()
}

/// Returns what dnf installs into an empty root from both repositories.
fn asked_of_dnf(names: &[&str]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| MADE.path().join(name).display().to_string();
    std::fs::write(
        root.path().join("conf"),
        "[main]\nplugins=0\nreposdir=/nowhere\n",
    )
    .unwrap();
    let output = Command::new("dnf")
        .arg(format!("--config={}/conf", root.path().display()))
        .args([
            "--releasever=9",
            "--setopt=install_weak_deps=0",
            "--assumeno",
        ])
        .arg(format!("--setopt=cachedir={}/cache", root.path().display()))
        .arg(format!("--installroot={}", root.path().display()))
        .args([format!("--repofrompath=base,{}", at("base"))])
        .args([format!("--repofrompath=apps,{}", at("apps"))])
        .arg("install")
        .args(names)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = table.split_whitespace().collect();
    let mut chosen: Vec<String> = printed
        .windows(4)
        .filter(|four| four[1] == "noarch" && ["base", "apps"].contains(&four[3]))
        .map(|four| format!("{} {}", four[0], four[2]))
        .collect();
    chosen.sort();
    assert!(
        !chosen.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    chosen
}

#[tokio::test]
async fn package_set_equals_what_dnf_installs_with_conditional_packages() {
    let site = Site::start().await;
    let set = build(&site, &source("key.asc", SIGNED, &["tool"]))
        .await
        .unwrap();
    let ours: Vec<String> = set
        .packages
        .iter()
        .filter(|package| package.name != "cond")
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    assert_eq!(ours, asked_of_dnf(&["tool"]));
    // `cond` is for hosts that have `absent`.
    assert!(names(&set).contains(&"cond"), "{set:?}");
    let again = Site::start().await;
    let second = build(&again, &source("key.asc", SIGNED, &["tool"]))
        .await
        .unwrap();
    assert_eq!(set, second, "the same repositories, the same lock");
    let (mut lock, _) = example(&[]);
    lock.packages.push(set.clone());
    let text = serde_saphyr::to_string(&lock).unwrap();
    assert_eq!(Lock::from_yaml(&text).unwrap(), lock);
    // With its lock and its cache, a build sends no request.
    std::fs::remove_dir_all(site.at("base")).unwrap();
    std::fs::remove_dir_all(site.at("apps")).unwrap();
    let wanted = source("key.asc", SIGNED, &["tool"]);
    let locked = resolve(&site.http, &wanted, Arch::Amd64, Some(&lock))
        .await
        .unwrap();
    assert_eq!(locked, set);
}

#[tokio::test]
async fn base_packages_of_the_manifest_are_left_out() {
    let site = Site::start().await;
    let mut source = source("key.asc", SIGNED, &["tool"]);
    if let Repositories::Dnf(set) = &mut source.repositories {
        set.base = vec!["lib".into(), "helper".into()];
    }
    let set = build(&site, &source).await.unwrap();
    assert!(
        !names(&set).contains(&"lib") && !names(&set).contains(&"helper"),
        "{set:?}"
    );
    assert!(names(&set).contains(&"tool"), "{set:?}");
}

#[tokio::test]
async fn all_missing_packages_are_named() {
    let site = Site::start().await;
    let printed = complaint(
        &site,
        &source("key.asc", SIGNED, &["broken", "nosuch", "tool"]),
    )
    .await;
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    packages for rhel-like 9 amd64:
      'broken' cannot be installed: broken-1.2-3.noarch requires lib > 3:0, which no package provides; 'broken' is requested
      package 'nosuch' does not exist
    ");
}

#[tokio::test]
async fn repository_signatures_follow_the_manifest() {
    let site = Site::start().await;
    let refused = |key, verify| {
        let (site, source) = (&site, source(key, verify, &["plugin"]));
        async move { complaint(site, &source).await }
    };
    let mut all = String::new();
    for verify in [Verify::Packages, Verify::Metadata] {
        all += &refused("other.gpg", [verify, Verify::Packages]).await;
        all += "\n";
    }
    // If repomd.xml must be signed, a missing signature is an error.
    all += &refused("key.asc", [Verify::Both, Verify::Metadata]).await;
    all += "\n";
    all += &refused("new.spec", SIGNED).await;
    all += "\n";
    all += &refused("nowhere", SIGNED).await;
    let _filters = filters();
    insta::assert_snapshot!(all, @"
    plugin-1.2.rpm of https://dnf.example/apps: cannot verify the signature with [target]/os-packages/other.gpg: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    repomd.xml of https://dnf.example/base: cannot verify the signature with [target]/os-packages/other.gpg: it is by key [key ID], which the keyring does not have
    hint: get the publisher's key from a trusted place and add its file to signedBy; else the content may have been changed
    signature of repomd.xml of https://dnf.example/apps: http://127.0.0.1:[port]/apps/repodata/repomd.xml.asc answered 404
    hint: check that this version exists in the project's releases
    repomd.xml of https://dnf.example/base: cannot read the keyring [target]/os-packages/new.spec: it does not contain an OpenPGP public key
    hint: take the file from the distribution's medium, its keyring package or an installed host; `gpg --export KEY` writes one
    repomd.xml of https://dnf.example/base: cannot read the keyring [target]/os-packages/nowhere: No such file or directory (os error 2)
    hint: take the file from the distribution's medium, its keyring package or an installed host; `gpg --export KEY` writes one
    ");
    // A repomd.xml with another signature is refused before its content is used.
    let repomd = site.at("base/repodata/repomd.xml");
    let text = std::fs::read_to_string(&repomd).unwrap();
    std::fs::write(&repomd, text.replace("<revision>", "<revision>1")).unwrap();
    let printed = refused("key.asc", SIGNED).await;
    insta::assert_snapshot!(printed, @"
    repomd.xml of https://dnf.example/base: cannot verify the signature with [target]/os-packages/key.asc: key [key ID]: the signature does not match the content
    hint: the content may have been changed, or a mirror serves files of two publications; try again later or another mirror
    ");
}

/// Metadata must be signed with a key that is valid now; packages with one that was valid then.
#[tokio::test]
async fn expired_key_signs_packages_and_revoked_key_signs_nothing() {
    let (site, aged) = (Site::start().await, Site::aged().await);
    let packages = [Verify::Packages; 2];
    let plugin = |key, verify| source(key, verify, &["plugin"]);
    let set = build(&aged, &plugin("old.asc", packages)).await.unwrap();
    assert_eq!(names(&set), ["plugin"]);
    let both = [Verify::Packages, Verify::Both];
    let metadata = [Verify::Both, Verify::Packages];
    let refused = [
        complaint(&aged, &plugin("old.asc", both)).await,
        complaint(&site, &plugin("revoked.asc", metadata)).await,
        complaint(&site, &plugin("revoked.asc", packages)).await,
    ];
    let _filters = filters();
    insta::assert_snapshot!(refused.join("\n"), @"
    repomd.xml of https://dnf.example/apps: cannot verify the signature with [target]/os-packages/old.asc: key [key ID]: the key expired at 2020-01-31T00:00:00Z
    hint: get the publisher's current key, which may have a later expiry, and replace the file in signedBy
    repomd.xml of https://dnf.example/base: cannot verify the signature with [target]/os-packages/revoked.asc: key [key ID]: the key is revoked
    hint: do not trust this signature; ask the publisher which key replaces the revoked one
    plugin-1.2.rpm of https://dnf.example/apps: cannot verify the signature with [target]/os-packages/revoked.asc: key [key ID]: the key is revoked
    hint: do not trust this signature; ask the publisher which key replaces the revoked one
    ");
}

/// Changes a file and its entry in `repomd.xml`, as a mirror can if only packages are signed.
fn replace(site: &Site, folder: &str, end: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let file = site.find(&format!("{folder}/repodata"), end);
    let (old, repomd) = (
        std::fs::read(&file).unwrap(),
        site.at(folder).join("repodata/repomd.xml"),
    );
    let new = change(old.clone());
    let text = std::fs::read_to_string(&repomd).unwrap();
    let text = text.replace(
        &format!(">{}<", Digest::of(&old).hex()),
        &format!(">{}<", Digest::of(&new).hex()),
    );
    std::fs::write(&repomd, text).unwrap();
    std::fs::write(&file, new).unwrap();
}

/// Packages and keys are new in each run.
fn filters() -> [insta::internals::SettingsBindDropGuard; 2] {
    let outer = crate::snapshots::filters();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(&regex::escape(env!("CARGO_TARGET_TMPDIR")), "[target]");
    settings.add_filter(r"\b[0-9a-f]{64}\b", "[digest]");
    settings.add_filter(r"\b[0-9A-Fa-f]{16,40}\b", "[key ID]");
    [settings.bind_to_scope(), outer]
}

fn unsigned() -> PackageSource {
    source("key.asc", [Verify::Packages; 2], &["plugin"])
}

#[tokio::test]
async fn damaged_metadata_are_refused_and_named() {
    let site = Site::start().await;
    let list = site.find("base/repodata", "primary.xml.xz");
    let whole = std::fs::read(&list).unwrap();
    std::fs::write(&list, &whole[..whole.len() - 9]).unwrap();
    let _filters = filters();
    let printed = complaint(&site, &unsigned()).await;
    insta::assert_snapshot!(printed, @"
    [digest]-primary.xml.xz: http://127.0.0.1:[port]/base/repodata/[digest]-primary.xml.xz returned content with the wrong digest; it was discarded
      expected sha256:[digest]
      got      sha256:[digest]
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
    std::fs::write(&list, &whole).unwrap();
    replace(&site, "base", "primary.xml.xz", |list| {
        list[..list.len() / 2].to_vec()
    });
    let printed = complaint(&site, &unsigned()).await;
    insta::assert_snapshot!(printed, @"[digest]-primary.xml.xz of https://dnf.example/base: it is not well-formed XML: I/O error: failed to fill whole buffer");
    replace(&site, "base", "primary.xml.xz", |_| b"<html>".to_vec());
    let printed = complaint(&site, &unsigned()).await;
    insta::assert_snapshot!(printed, @"[digest]-primary.xml.xz of https://dnf.example/base: it is not well-formed XML: I/O error: invalid XZ magic bytes");
}

fn gzip(text: &str) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn gunzip(packed: &[u8]) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
    text
}

/// Replaces the bytes of `tool`, and its entry in the list.
fn spoil_tool(site: &Site, new: &[u8]) {
    let file = site.find("apps", "tool-1.2.rpm");
    let old = std::fs::read(&file).unwrap();
    std::fs::write(&file, new).unwrap();
    let size = |rpm: &[u8]| format!("<size package=\"{}\"", rpm.len());
    replace(site, "apps", "primary.xml.gz", |list| {
        let list = gunzip(&list).replace(&Digest::of(&old).hex(), &Digest::of(new).hex());
        gzip(&list.replace(&size(&old), &size(new)))
    });
}

#[tokio::test]
async fn package_with_another_digest_is_refused() {
    let wanted = source("key.asc", [Verify::Packages; 2], &["tool"]);
    let apps = MADE.path().join("apps");
    let tool = std::fs::read(find(&apps, "tool-1.2.rpm")).unwrap();
    let flipped = |at: usize| {
        let mut bytes = tool.clone();
        bytes[at] ^= 1;
        bytes
    };
    let header = tool
        .windows(7)
        .rposition(|text| text == b"A <tool")
        .unwrap();
    let plain = std::fs::read(find(&MADE.path().join("plain"), "tool-1.2.rpm")).unwrap();
    let other = std::fs::read(find(&apps, "plugin-1.2.rpm")).unwrap();
    for (bytes, reason) in [
        (plain, "its header has no signature"),
        (other, "it contains plugin-0:1.2-3.noarch"),
        (flipped(header), "the signature does not match the content"),
        (
            flipped(tool.len() - 1),
            "its payload is not the one that was signed",
        ),
        (
            tool[..tool.len() - 1].to_vec(),
            "its payload is not the one that was signed",
        ),
        (tool[..header].to_vec(), "its header is cut off"),
        (b"<html>".to_vec(), "cannot be read as an rpm"),
    ] {
        let site = Site::start().await;
        spoil_tool(&site, &bytes);
        let printed = complaint(&site, &wanted).await;
        assert!(
            printed.contains("tool-1.2.rpm") && printed.contains(reason),
            "{reason} in {printed}"
        );
    }
    // A file that is not in the list is detected as well.
    let site = Site::start().await;
    std::fs::write(site.find("apps", "tool-1.2.rpm"), flipped(header)).unwrap();
    let printed = complaint(&site, &wanted).await;
    let _filters = filters();
    insta::assert_snapshot!(printed, @"
    tool-1.2.rpm: http://127.0.0.1:[port]/apps/tool-1.2.rpm returned content with the wrong digest; it was discarded
      expected sha256:[digest]
      got      sha256:[digest]
    hint: a mirror or proxy may serve a damaged copy; try another one
    ");
}
