//! Installs OS packages of the bundle with the host's package manager.
//!
//! The packages of the bundle become a repository on the host. The package manager uses no other
//! repository. It determines which packages are missing, and installs all of them or none.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Undo, run_check, run_command};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::{LockedPackage, LockedPackages};
use kubexm_host::{Command, Host, Input, Limit, tar_stream};
use kubexm_kinds::PackageManager;
use kubexm_scripts::undo::{APT_REMOVE, DNF_REMOVE, Parameter, UndoScript};
use kubexm_scripts::{Script, packages};

/// How long a package manager may take once it has all packages. It waits for other package managers, and packages
/// start services.
const INSTALL: Limit = Limit::new(Duration::from_secs(1800), "package installations");

/// Installs the requested packages of a set.
pub struct InstallPackages {
    /// The set for the host's release.
    pub set: LockedPackages,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
}

/// The scripts of a package manager. `main` has the verbs `simulate` and `install`. Its arguments are the
/// SHA-256 of the index, the size of the index in bytes, and the names of the requested packages.
struct Scripts {
    /// Exits with 0 if all packages are installed, and prints those that are missing.
    check: Script,
    /// Simulates an installation, or installs.
    main: Script,
    /// Removes packages.
    remove: UndoScript,
}

const APT: Scripts = Scripts {
    check: packages::APT_CHECK,
    main: packages::APT,
    remove: APT_REMOVE,
};

const DNF: Scripts = Scripts {
    check: packages::DNF_CHECK,
    main: packages::DNF,
    remove: DNF_REMOVE,
};

/// The file in the stream that lists the packages for `sha256sum -c`.
const SUMS: &str = "SHA256SUMS";

/// Returns the scripts of a package manager.
fn scripts(manager: PackageManager) -> &'static Scripts {
    match manager {
        PackageManager::Apt => &APT,
        PackageManager::Dnf => &DNF,
    }
}

impl InstallPackages {
    fn scripts(&self) -> &'static Scripts {
        scripts(self.set.manager())
    }

    fn command(&self, verb: &'static str) -> Command {
        let index = [self.set.index.digest.hex(), self.set.index.size.to_string()];
        let arguments = index.into_iter().chain(self.set.requested.clone());
        Command::from_script(self.scripts().main.verb(verb), arguments)
    }

    /// Returns the packages that the package manager would install, and whether each is new on the host.
    async fn simulate(&self, host: &dyn Host) -> Result<Vec<(LockedPackage, bool)>, StepError> {
        let index = self.blobs.open(&self.set.index.digest)?;
        let command = self.command("simulate").input(Input::Stream(index));
        let command = command.limit(Limit::CHANGE);
        let action = format!(
            "simulate the installation with {}",
            self.set.manager().name()
        );
        let printed = run_command(host, &action, command).await?.text();
        let chosen: BTreeMap<(&str, &str), bool> = printed
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(' ');
                let package = (fields.next()?, fields.next()?);
                Some((package, fields.next()? == "new"))
            })
            .collect();
        let packages = self.set.packages.iter();
        Ok(packages
            .filter_map(|p| Some((p.clone(), *chosen.get(&(&p.name, &p.version))?)))
            .collect())
    }
}

impl Describe for InstallPackages {
    fn id(&self) -> String {
        "packages".to_owned()
    }

    fn describe(&self) -> String {
        format!("Install packages {}", self.set.requested.join(", "))
    }
}

impl From<InstallPackages> for Step {
    fn from(step: InstallPackages) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for InstallPackages {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let command = Command::from_script(self.scripts().check, self.set.requested.clone());
        run_check(host, "check packages".to_owned(), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let packages = self.simulate(context.host).await?;
        // A reset keeps a package that the host had before in another version, and packages without which a host does not
        // start or cannot be reached.
        let names: Vec<String> = packages
            .iter()
            .filter(|(package, is_new)| *is_new && Parameter::Package.accepts(&package.name))
            .map(|(package, _)| package.name.clone())
            .collect();
        let packages: Vec<LockedPackage> = packages.into_iter().map(|(p, _)| p).collect();
        let undo = Undo::run(self.scripts().remove, names);
        context.undo.record(&self.id(), undo.to_value()?).await?;
        let total = packages.iter().map(|package| package.size).sum();
        let label = format!("{} packages → {}", packages.len(), context.host.name());
        let transfer = context.events.transfer("push", label, Some(total));
        let blobs = Arc::clone(&self.blobs);
        let sums: String = packages
            .iter()
            .map(|package| format!("{}  {}\n", package.digest.hex(), package.file_name))
            .collect();
        let stream = tar_stream::stream(move |tar| {
            tar_stream::add(tar, SUMS, sums.len() as u64, 0o644, sums.as_bytes())?;
            for package in &packages {
                let content = blobs.open(&package.digest).map_err(io::Error::other)?;
                tar_stream::add(tar, &package.file_name, package.size, 0o644, content)?;
            }
            Ok(())
        })
        .map_err(|error| StepError::Other(format!("packages: {error}").into()))?;
        let command = self.command("install").input(Input::Stream(stream));
        let command = command.limit(INSTALL.after(Limit::transfer(total).time()));
        run_command(context.host, &self.describe(), command).await?;
        transfer.advance(total);
        transfer.done();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_scripts::undo::find;

    /// A receipt names the script, and a reset finds only those of the list.
    #[test]
    fn reset_finds_the_script_of_each_package_manager() {
        for manager in PackageManager::ALL {
            let name = scripts(*manager).remove.script.name;
            assert!(
                find(name).is_some(),
                "SCRIPTS of src/scripts/undo/mod.rs: {name}"
            );
        }
    }
}
