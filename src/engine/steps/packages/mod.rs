//! Install OS packages of the bundle with the host's own package manager.
//!
//! The bundle's packages become a repository on the host, the only one that its package manager is
//! shown: it decides which of them the host lacks, and it installs all of those or none.

mod apt;
mod dnf;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Undo, ask, must};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_bundle::Blobs;
use kubexm_bundle::lock::{LockedPackage, LockedPackages, PackageFormat};
use kubexm_host::{Command, Host, Input, tar_stream};

/// Installs the requested packages of a set.
pub struct InstallPackages {
    /// The set for the host's release.
    pub set: LockedPackages,
    /// The bundle.
    pub blobs: Arc<dyn Blobs>,
}

/// How a package manager is asked, in POSIX shell. Each script sees the requested names as its
/// arguments; `functions` goes before `simulate` and `install` and takes two more arguments away
/// before the names: the SHA-256 of the index, and its bytes.
struct Manager {
    /// Its name.
    name: &'static str,
    /// Ends with 0 where all names are installed; prints those that are not.
    check: &'static str,
    /// The package manager with nothing but the bundle's repository, at `$base`, and not before an
    /// earlier run's is done.
    functions: &'static str,
    /// Reads the index from standard input and prints what would be installed: name, version, and
    /// `new` for what the host has in no version.
    simulate: &'static str,
    /// Reads the packages as a tar from standard input, with `SHA256SUMS` over them, and installs.
    install: &'static str,
    /// Removes packages.
    undo: &'static str,
}

/// Which packages arrive, for `sha256sum -c`.
const SUMS: &str = "SHA256SUMS";

impl InstallPackages {
    fn manager(&self) -> &'static Manager {
        match self.set.format {
            PackageFormat::Deb => &apt::APT,
            PackageFormat::Rpm => &dnf::DNF,
        }
    }

    fn command(&self, script: &str) -> Command {
        let script = format!("{}{script}", self.manager().functions);
        let index = [self.set.index.digest.hex(), self.set.index.size.to_string()];
        Command::script(script, index.into_iter().chain(self.set.requested.clone()))
    }

    /// What would be installed, out of the set, and whether the host has it in no version yet.
    async fn simulate(&self, host: &dyn Host) -> Result<Vec<(LockedPackage, bool)>, StepError> {
        let index = self.blobs.open(&self.set.index.digest)?;
        let command = self
            .command(self.manager().simulate)
            .input(Input::Stream(index));
        let action = format!("ask {} what it would install", self.manager().name);
        let printed = must(host, &action, command).await?.text();
        let chosen: BTreeMap<(&str, &str), bool> = printed
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some(((words.next()?, words.next()?), words.next()? == "new"))
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
        let command = Command::script(self.manager().check, self.set.requested.clone());
        ask(host, "look for packages".to_owned(), command).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let packages = self.simulate(context.host).await?;
        // What is only renewed was the host's before, and stays.
        let names: Vec<String> = packages
            .iter()
            .filter(|(_, is_new)| *is_new)
            .map(|(package, _)| package.name.clone())
            .collect();
        let packages: Vec<LockedPackage> = packages.into_iter().map(|(p, _)| p).collect();
        let undo = Undo::Script {
            title: format!("Remove {} packages", names.len()),
            script: self.manager().undo.to_owned(),
            arguments: names,
        };
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
        .map_err(|error| StepError::Other(format!("packages: {error}")))?;
        let command = self
            .command(self.manager().install)
            .input(Input::Stream(stream));
        must(context.host, &self.describe(), command).await?;
        transfer.advance(total);
        transfer.done();
        Ok(())
    }
}
