//! Packages of modules: those of default streams are used, as by dnf on an unconfigured host.

use kubexm_fetch::packages::resolve;
use kubexm_types::Arch;

use super::closures::{ask_dnf, package, source, write_repository};
use super::site::Site;

const DEFAULTS: &str = "---
document: modulemd-defaults
version: 1
data:
  module: one
  stream: \"1.10\"
";

fn stream(module: &str, stream: &str, rpms: &str) -> String {
    format!(
        "---
document: modulemd
version: 2
data:
  name: {module}
  stream: \"{stream}\"
  version: 1
  context: abc
  arch: x86_64
  summary: x
  description: x
  license: {{module: [MIT]}}
  artifacts: {{rpms: [{rpms}]}}
"
    )
}

#[tokio::test]
async fn only_default_module_streams_are_used() {
    let modules = [
        DEFAULTS.to_owned(),
        stream("one", "1.10", "p0-0:1-1.noarch"),
        stream("one", "1.1", "p0-0:2-1.noarch"),
        stream("two", "1", "p1-0:2-1.noarch"),
    ]
    .concat();
    let body = "</rpm:provides></format></package>";
    // The newest p0 belongs to no module; a package of the default stream of a module hides it.
    let packages: String = [("p0", 1), ("p0", 2), ("p0", 3), ("p1", 1), ("p1", 2)]
        .iter()
        .map(|(name, version)| package(name, *version, 1) + body)
        .collect();
    let primary = format!(
        "<metadata xmlns=\"http://linux.duke.edu/metadata/common\" xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\">{packages}</metadata>"
    );
    let theirs = ask_dnf(std::slice::from_ref(&primary), &modules);
    let site = Site::start().await;
    write_repository(&site.at("0"), &primary, &modules);
    for label in ["p0-1", "p1-1"] {
        std::fs::write(site.at(&format!("0/{label}.rpm")), label).unwrap();
    }
    site.sign(&site.at("0/repodata/repomd.xml"));
    let set = resolve(&site.http, &source(0), Arch::Amd64, None)
        .await
        .unwrap();
    let packages = set.packages.iter();
    let ours: Vec<String> = packages
        .map(|p| format!("{}-{}", p.name, p.version))
        .collect();
    assert_eq!(ours, ["p0-1-1", "p1-1-1"]);
    assert_eq!(theirs, ["yes p0-1-1 p1-1-1"]);
}
