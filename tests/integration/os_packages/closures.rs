//! Small random repositories: a set that kubexm finds is enough for dnf, and kubexm finds a set if dnf does.
//! Each run compares some of them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use kubexm_config::manifest::{DnfRepository, DnfSet, PackageSource, Repositories, Verify};
use kubexm_fetch::packages::resolve;
use kubexm_types::{Arch, Digest};

use super::site::{MADE, Site};
use super::versions::Dice;

const REPOSITORIES: usize = 20;
const PACKAGES: usize = 14;

/// For each directory of `$1`: whether dnf can install `p0` and `p1` from it.
const ASK_DNF: &str = r#"
import os, sys, dnf
root = sys.argv[1]
os.environ["HOME"] = root
for name in sorted(os.listdir(root + "/repos"), key=int):
    with dnf.Base() as base:
        base.conf.installroot = root + "/root"
        base.conf.cachedir = root + "/cache/" + name
        base.conf.persistdir = root + "/persist"
        base.conf.install_weak_deps = False
        base.conf.best = False
        base.conf.substitutions["releasever"] = "9"
        base.conf.module_platform_id = "platform:el9"
        base.repos.add_new_repo("r" + name, base.conf, baseurl=["file://" + root + "/repos/" + name])
        base.fill_sack(load_system_repo=False)
        try:
            base.install("p0")
            base.install("p1")
            base.resolve()
            names = (f"{p.name}-{p.version}-{p.release}" for p in base.transaction.install_set)
            print("yes", *sorted(names))
        except dnf.exceptions.Error as error:
            print("no", str(error).replace("\n", " "))
"#;

/// Returns a `primary.xml` of packages that require and conflict with each other in all forms, and its
/// description.
fn random(dice: &mut Dice) -> String {
    let mut text = String::from(
        "<metadata xmlns=\"http://linux.duke.edu/metadata/common\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\">",
    );
    for at in 0..PACKAGES {
        for version in 1..=1 + dice.roll(2) {
            let installed = 1 + dice.roll(50);
            text.push_str(&package(&format!("p{at}"), version, installed));
            if dice.roll(2) == 0 {
                let _ = write!(text, "<rpm:entry name=\"v{}\"/>", dice.roll(4));
            }
            text.push_str("</rpm:provides><rpm:requires>");
            for _ in 0..dice.roll(3) {
                text.push_str(&requirement(dice));
            }
            text.push_str("</rpm:requires>");
            if dice.roll(5) == 0 {
                let _ = write!(text, "<rpm:conflicts>{}</rpm:conflicts>", plain(dice));
            }
            if dice.roll(12) == 0 {
                let old = dice.roll(PACKAGES);
                let _ = write!(
                    text,
                    "<rpm:obsoletes><rpm:entry name=\"p{old}\"/></rpm:obsoletes>"
                );
            }
            text.push_str("</format></package>");
        }
    }
    text + "</metadata>"
}

/// Returns the beginning of a package's element, up to its further provides.
pub fn package(name: &str, version: usize, installed: usize) -> String {
    let label = format!("{name}-{version}");
    format!(
        "<package type=\"rpm\"><name>{name}</name><arch>noarch</arch><version epoch=\"0\" ver=\"{version}\" rel=\"1\"/>\
         <checksum type=\"sha256\" pkgid=\"YES\">{}</checksum><summary/><description/>\
         <size package=\"{}\" installed=\"{installed}\" archive=\"1\"/><location href=\"{name}-{version}.rpm\"/><format>\
         <rpm:provides><rpm:entry name=\"{name}\" flags=\"EQ\" epoch=\"0\" ver=\"{version}\" rel=\"1\"/>",
        Digest::of(label.as_bytes()).hex(),
        label.len(),
    )
}

fn plain(dice: &mut Dice) -> String {
    let at = dice.roll(PACKAGES);
    match dice.roll(4) {
        0 => format!("<rpm:entry name=\"v{}\"/>", dice.roll(4)),
        1 => format!("<rpm:entry name=\"p{at}\" flags=\"GE\" epoch=\"0\" ver=\"2\"/>"),
        2 => format!("<rpm:entry name=\"p{at}\" flags=\"LT\" epoch=\"0\" ver=\"2\"/>"),
        _ => format!("<rpm:entry name=\"p{at}\"/>"),
    }
}

fn requirement(dice: &mut Dice) -> String {
    let [a, b, c] = [0; 3].map(|_| dice.roll(PACKAGES));
    let rich = match dice.roll(12) {
        0 => format!("(p{a} or p{b} or p{c})"),
        1 => format!("(p{a} and p{b})"),
        2 => format!("(p{a} if p{b})"),
        3 => format!("(p{a} if p{b} else p{c})"),
        4 => format!("(p{a} &gt; 1 or v1)"),
        5 => format!("(p{a} unless p{b})"),
        _ => return plain(dice),
    };
    format!("<rpm:entry name=\"{rich}\"/>")
}

/// Writes a repository without packages, and its modules if there are any.
pub fn write_repository(folder: &Path, primary: &str, modules: &str) {
    std::fs::create_dir_all(folder.join("repodata")).unwrap();
    std::fs::write(folder.join("repodata/primary.xml"), primary).unwrap();
    let mut parts = vec![("primary", "primary.xml", primary)];
    if !modules.is_empty() {
        std::fs::write(folder.join("repodata/modules.yaml"), modules).unwrap();
        parts.push(("modules", "modules.yaml", modules));
    }
    let parts: String = parts
        .iter()
        .map(|(kind, name, text)| {
            let (hex, size) = (Digest::of(text.as_bytes()).hex(), text.len());
            format!(
                "<data type=\"{kind}\"><checksum type=\"sha256\">{hex}</checksum>\
                 <location href=\"repodata/{name}\"/><timestamp>0</timestamp><size>{size}</size></data>"
            )
        })
        .collect();
    let repomd = format!(
        "<repomd xmlns=\"http://linux.duke.edu/metadata/repo\"><revision>0</revision>{parts}</repomd>"
    );
    std::fs::write(folder.join("repodata/repomd.xml"), repomd).unwrap();
}

/// Returns what dnf prints about repositories, one after the other.
pub fn ask_dnf(primaries: &[String], modules: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (at, primary) in primaries.iter().enumerate() {
        write_repository(&folder.path().join(format!("repos/{at}")), primary, modules);
    }
    let output = Command::new("/usr/bin/python3")
        .args(["-c", ASK_DNF])
        .arg(folder.path())
        .output()
        .unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<String> = answers.lines().map(str::to_owned).collect();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(answers.len(), primaries.len(), "{printed}");
    answers
}

/// Returns the set of `p0` and `p1` from one repository.
pub fn source(at: usize) -> PackageSource {
    PackageSource {
        distribution: "rhel-like".into(),
        release: at.to_string(),
        repositories: Repositories::Dnf(DnfSet {
            repositories: vec![DnfRepository {
                url: format!("https://dnf.example/{at}").parse().unwrap(),
                signed_by: vec![MADE.path().join("key.asc")],
                verify: Verify::Metadata,
            }],
            base: Vec::new(),
        }),
        packages: vec!["p0".into(), "p1".into()],
    }
}

#[tokio::test]
async fn solver_and_dnf_agree_on_random_repositories() {
    let mut dice = Dice(8);
    let primaries: Vec<String> = (0..REPOSITORIES).map(|_| random(&mut dice)).collect();
    let theirs = ask_dnf(&primaries, "");
    let site = Site::start().await;
    let mut found = Vec::new();
    for (at, primary) in primaries.iter().enumerate() {
        let folder = site.at(&at.to_string());
        write_repository(&folder, primary, "");
        for package in 0..PACKAGES {
            for version in 1..3 {
                let label = format!("p{package}-{version}");
                std::fs::write(folder.join(format!("{label}.rpm")), &label).unwrap();
            }
        }
        site.sign(&folder.join("repodata/repomd.xml"));
        let answer = &theirs[at];
        let printed = answer.strip_prefix("yes").unwrap_or_default().split(' ');
        // For `p0`, dnf also installs a package that obsoletes it. A host would not find that by the name.
        let is_possible = printed
            .filter(|w| w.starts_with("p0-") || w.starts_with("p1-"))
            .count()
            == 2;
        match resolve(&site.http, &source(at), Arch::Amd64, None).await {
            Ok(set) => {
                assert!(answer.starts_with("yes"), "{answer}\n{set:?}\n{primary}");
                let index = site.http.cache().read(&set.index.digest).unwrap();
                found.push(String::from_utf8(index).unwrap());
            }
            Err(error) => assert!(!is_possible, "{answer}\n{error}\n{primary}"),
        }
    }
    let count = found.len();
    assert!((5..REPOSITORIES - 1).contains(&count), "{count}");
    for (answer, index) in ask_dnf(&found, "").iter().zip(&found) {
        assert!(answer.starts_with("yes"), "{answer}\n{index}");
    }
}
