//! Sets of packages that the real dnf installs into a directory as a host.

use std::sync::Arc;

use kubexm_engine::plan::Check;
use kubexm_engine::steps::InstallPackages;

use super::site::{MADE, NEEDED, Site, find, source};
use super::{SIGNED, build};
use crate::example::InMemory;
use crate::sandbox::Sandbox;

/// Returns the packages that rpm lists on a host.
async fn installed(sandbox: &Sandbox) -> Vec<String> {
    let script = "rpm -qa --qf '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n' | sort";
    let command = kubexm_host::Command::script(script, [""; 0]);
    let output = sandbox.host.run(command).await.unwrap();
    output.text().lines().map(str::to_owned).collect()
}

/// Returns a host with an older `lib`.
async fn old_host() -> Sandbox {
    let sandbox = Sandbox::new();
    let old = std::fs::read(find(&MADE.path().join("base"), "lib-9.0.rpm")).unwrap();
    std::fs::write(sandbox.at("/tmp/old.rpm"), old).unwrap();
    let command = kubexm_host::Command::script("rpm -U --quiet /tmp/old.rpm", [""; 0]);
    let output = sandbox.host.run(command).await.unwrap();
    assert!(output.success(), "{}", output.complaint());
    sandbox
}

#[tokio::test]
async fn dnf_installs_missing_packages_and_reset_removes_only_those() {
    let site = Site::start().await;
    let set = build(&site, &source("key.asc", SIGNED, &["tool"]))
        .await
        .unwrap();
    let sandbox = old_host().await;
    let step = InstallPackages {
        set,
        blobs: Arc::new(site.http.cache().clone()),
    };
    assert_eq!(
        sandbox.check(&step).await,
        Check::needed("does not have tool")
    );
    sandbox.apply(&step).await.unwrap();
    assert_eq!(sandbox.check(&step).await, Check::Satisfied);
    let there = installed(&sandbox).await;
    let found: Vec<&str> = there
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(
        found, NEEDED,
        "without cond, whose condition is false on this host"
    );
    assert!(there.contains(&"lib 2:1.5-3".to_owned()), "{there:?}");
    assert!(!sandbox.at("/var/lib/kubexm/packages").exists());
    sandbox.apply(&step).await.unwrap();
    assert_eq!(
        installed(&sandbox).await,
        there,
        "a second time changes nothing"
    );
    sandbox.take_back().await;
    assert_eq!(
        installed(&sandbox).await,
        ["lib 2:1.5-3"],
        "lib was the host's, if older"
    );
}

#[tokio::test]
async fn damaged_or_incomplete_package_set_is_not_installed() {
    let site = Site::start().await;
    let set = build(&site, &source("key.asc", SIGNED, &["tool"]))
        .await
        .unwrap();
    let mut damaged = InMemory::default();
    let packages = set.packages.iter().map(|package| package.digest);
    for digest in packages.chain([set.index.digest]) {
        damaged
            .0
            .insert(digest, site.http.cache().read(&digest).unwrap());
    }
    let helper = set
        .packages
        .iter()
        .find(|package| package.name == "helper")
        .unwrap();
    let end = helper.size as usize - 1;
    damaged.0.get_mut(&helper.digest).unwrap()[end] ^= 1;
    let sandbox = Sandbox::new();
    let step = InstallPackages {
        set: set.clone(),
        blobs: Arc::new(damaged),
    };
    let printed = sandbox.apply(&step).await.unwrap_err().to_string();
    assert!(printed.contains("helper-1.2.rpm"), "{printed}");
    assert!(installed(&sandbox).await.is_empty());
    // An index that omits a dependency of `tool`: dnf trusts it, rpm does not.
    let index = site.http.cache().read(&set.index.digest).unwrap();
    let index = String::from_utf8(index).unwrap();
    let lying = index.replace("/opt/lab/bin/helper", "/etc/lab/listed");
    assert_ne!(lying, index);
    let mut set = set;
    set.index.digest = site.http.cache().insert(lying.as_bytes()).unwrap();
    set.index.size = lying.len() as u64;
    let sandbox = Sandbox::new();
    let blobs = Arc::new(site.http.cache().clone());
    let printed = sandbox
        .apply(&InstallPackages { set, blobs })
        .await
        .unwrap_err()
        .to_string();
    assert!(printed.contains("is needed by tool-1.2-3"), "{printed}");
    assert!(installed(&sandbox).await.is_empty());
}
