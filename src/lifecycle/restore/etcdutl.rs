//! The program etcdutl, which creates the new data of etcd on the members as root. It comes from the bundle, or from a backup that a
//! run with this state directory made.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::content::Content;
use crate::etcdutl::BundledEtcdutl;
use kubexm_config::Cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_etcd::members;
use kubexm_host::Facts;
use kubexm_safekeeping::backup::file;
use kubexm_safekeeping::backup::manifest::program;
use kubexm_session::CommandError;
use kubexm_types::{Arch, Digest, HostName};

/// The program for an architecture.
#[derive(Clone)]
pub(super) struct Etcdutl {
    pub(super) size: u64,
    pub(super) digest: Digest,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// The path in the backup.
    Backup(String),
    Bundle(BundledEtcdutl),
}

impl Etcdutl {
    /// Returns the content.
    ///
    /// # Errors
    /// The backup or the file cannot be read.
    pub(super) fn stream(&self, content: &Content) -> io::Result<Box<dyn Read + Send>> {
        match &self.source {
            Source::Backup(path) => file::stream(&content.path, &content.identity, path),
            Source::Bundle(program) => Ok(Box::new(program.open()?)),
        }
    }
}

/// Returns the program for each member.
///
/// # Errors
/// Neither the bundle nor the backup has it for the architecture of a host.
pub(super) fn of_members<'a>(
    of_bundle: &BTreeMap<Arch, BundledEtcdutl>,
    content: &Content,
    cluster: &'a Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<Vec<(&'a HostSpec, Etcdutl)>, CommandError> {
    let members = members(cluster).into_iter().map(|host| {
        let arch = facts.get(&host.name).and_then(Facts::arch);
        let of_bundle = arch.and_then(|arch| of_bundle.get(&arch));
        let of_bundle = of_bundle.map(|program| Etcdutl {
            size: program.size,
            digest: program.digest,
            source: Source::Bundle(program.clone()),
        });
        let of_backup = || {
            let file = content.manifest.file(&arch.map(program)?)?;
            Some(Etcdutl {
                size: file.size,
                digest: file.digest,
                source: Source::Backup(file.path.clone()),
            })
        };
        // A backup of unknown origin gives hosts no program.
        let of_backup = || content.is_own().then(of_backup).flatten();
        match of_bundle.or_else(of_backup) {
            Some(program) => Ok((host, program)),
            None => Err(CommandError::refused(format!(
                "{}: no etcdutl for the architecture of this host, neither in the bundle nor in a backup of this state directory",
                host.name
            ))
            .hint("pass the bundle of the cluster with --bundle")),
        }
    });
    members.collect()
}
