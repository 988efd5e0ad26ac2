//! The program etcdutl of a bundle, which creates the data of etcd on members as root.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use kubexm_bundle::{BundleSet, Lock};
use kubexm_sandbox::Workspace;
use kubexm_session::program_settings::unpack;
use kubexm_session::{CommandError, FileError, background};
use kubexm_types::{Arch, Digest, DigestReader, Version};

const NAME: &str = "etcdutl";
/// The component, and the image of kubeadm, that has the program.
const COMPONENT: &str = "etcd";

/// The program for an architecture, in a directory that is deleted with the last one.
#[derive(Clone)]
pub(crate) struct BundledEtcdutl {
    pub(crate) size: u64,
    pub(crate) digest: Digest,
    file: String,
    folder: Arc<Workspace>,
}

impl BundledEtcdutl {
    /// Opens the program.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(self.folder.inputs().join(&self.file))
    }
}

/// Returns whether a bundle has the program that belongs to a version of Kubernetes.
pub(crate) fn is_in(lock: &Lock, version: &Version, arch: Arch) -> bool {
    unpack::find(lock, COMPONENT, version, arch).is_some()
}

/// Takes the programs out of a bundle. An architecture for which it has none is not in the answer.
///
/// # Errors
/// The bundle or the directory for temporary files cannot be used.
pub(crate) async fn of_bundle(
    bundle: Arc<BundleSet>,
    version: Version,
) -> Result<BTreeMap<Arch, BundledEtcdutl>, CommandError> {
    background::run(move || {
        let unusable = |error: io::Error| {
            CommandError::bundle(format!("cannot take etcdutl out of the bundle: {error}"))
        };
        let workspace = Workspace::create("kubexm-etcdutl-").map_err(|error| {
            FileError::io("create a directory in", &std::env::temp_dir(), &error)
        })?;
        let folder = Arc::new(workspace);
        let mut found = BTreeMap::new();
        for &arch in &bundle.lock().architectures {
            let Some(source) = unpack::find(bundle.lock(), COMPONENT, &version, arch) else {
                continue;
            };
            let file = format!("{NAME}-{arch}");
            let path = folder.inputs().join(&file);
            unpack::unpack(&source, NAME, bundle.as_ref(), &path).map_err(unusable)?;
            let mut content = DigestReader::new(File::open(&path).map_err(unusable)?);
            io::copy(&mut content, &mut io::sink()).map_err(unusable)?;
            let (digest, size) = content.finish();
            let folder = Arc::clone(&folder);
            found.insert(
                arch,
                BundledEtcdutl {
                    size,
                    digest,
                    file,
                    folder,
                },
            );
        }
        Ok(found)
    })
    .await
}
