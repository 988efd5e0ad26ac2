//! The program etcdutl, which creates the new data of etcd on the members as root. It comes from the bundle, or from a backup that a
//! run with this state directory made.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use super::content::Content;
use kubexm_bundle::BundleSet;
use kubexm_config::Cluster;
use kubexm_config::cluster::HostSpec;
use kubexm_etcd::members;
use kubexm_host::Facts;
use kubexm_safekeeping::backup::file;
use kubexm_safekeeping::backup::manifest::program;
use kubexm_sandbox::Workspace;
use kubexm_session::program_settings::unpack;
use kubexm_session::{CommandError, FileError, background};
use kubexm_types::{Arch, Digest, DigestReader, HostName};

const NAME: &str = "etcdutl";

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
    /// A file, in a directory that is deleted with the last program.
    Bundle(String, Arc<Workspace>),
}

impl Etcdutl {
    /// Returns the content.
    ///
    /// # Errors
    /// The backup or the file cannot be read.
    pub(super) fn stream(&self, content: &Content) -> io::Result<Box<dyn Read + Send>> {
        match &self.source {
            Source::Backup(path) => file::stream(&content.path, &content.identity, path),
            Source::Bundle(name, folder) => Ok(Box::new(File::open(folder.inputs().join(name))?)),
        }
    }
}

/// Returns the program for each member.
///
/// # Errors
/// Neither the bundle nor the backup has it for the architecture of a host.
pub(super) fn of_members<'a>(
    of_bundle: &BTreeMap<Arch, Etcdutl>,
    content: &Content,
    cluster: &'a Cluster,
    facts: &BTreeMap<HostName, Facts>,
) -> Result<Vec<(&'a HostSpec, Etcdutl)>, CommandError> {
    let members = members(cluster).into_iter().map(|host| {
        let arch = facts.get(&host.name).and_then(Facts::arch);
        let of_bundle = arch.and_then(|arch| of_bundle.get(&arch).cloned());
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

/// Takes the programs out of a bundle. An architecture for which it has none is not in the answer.
///
/// # Errors
/// The bundle or the directory for temporary files cannot be used.
pub(super) async fn of_bundle(
    bundle: Arc<BundleSet>,
    cluster: &Cluster,
) -> Result<BTreeMap<Arch, Etcdutl>, CommandError> {
    let version = cluster.kubernetes.version.clone();
    background::run(move || {
        let unusable = |error: io::Error| {
            CommandError::bundle(format!("cannot take etcdutl out of the bundle: {error}"))
        };
        let workspace = Workspace::create("kubexm-etcdutl-").map_err(|error| {
            FileError::io("create a directory in", &std::env::temp_dir(), &error)
        })?;
        let workspace = Arc::new(workspace);
        let mut found = BTreeMap::new();
        for &arch in &bundle.lock().architectures {
            let Some(source) = unpack::find(bundle.lock(), "etcd", &version, arch) else {
                continue;
            };
            let name = format!("{NAME}-{arch}");
            let path = workspace.inputs().join(&name);
            unpack::unpack(&source, NAME, bundle.as_ref(), &path).map_err(unusable)?;
            let mut content = DigestReader::new(File::open(&path).map_err(unusable)?);
            io::copy(&mut content, &mut io::sink()).map_err(unusable)?;
            let (digest, size) = content.finish();
            let source = Source::Bundle(name, Arc::clone(&workspace));
            found.insert(
                arch,
                Etcdutl {
                    size,
                    digest,
                    source,
                },
            );
        }
        Ok(found)
    })
    .await
}
