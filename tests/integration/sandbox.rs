//! A directory as a host, and what tests read from it.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubexm_engine::plan::{Check, Ensure, Receipt, StepContext, StepError, Stop, UndoLog};
use kubexm_engine::reset::reset_host;
use kubexm_host::Host;
use kubexm_host::local::LocalHost;
use kubexm_types::event::Events;
use kubexm_types::{Digest, HostPath};

/// A host in a temporary directory.
pub struct Sandbox {
    folder: tempfile::TempDir,
    pub host: Arc<dyn Host>,
    pub events: Events,
}

impl Sandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Temporary directories are private; commands of another user namespace must be able to enter this
        // one.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let host = LocalHost::within("node1".parse().unwrap(), folder.path()).unwrap();
        let events = Events::silent();
        Self {
            folder,
            host: Arc::new(host),
            events,
        }
    }

    /// Returns the path on this machine of a path on the host.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    pub fn write(&self, path: &str, content: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), content).unwrap();
    }

    pub fn set_mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.at(path), PermissionsExt::from_mode(mode)).unwrap();
    }

    pub async fn check(&self, step: &dyn Ensure) -> Check {
        step.check(self.host.as_ref()).await.unwrap()
    }

    pub async fn apply(&self, step: &dyn Ensure) -> Result<(), StepError> {
        self.apply_on(&self.host, step).await
    }

    /// Applies a step through another connection to the same host.
    pub async fn apply_on(&self, host: &Arc<dyn Host>, step: &dyn Ensure) -> Result<(), StepError> {
        let receipt = Receipt::new(Arc::clone(host));
        step.apply(&self.context(host, &receipt)).await
    }

    pub fn context<'a>(
        &'a self,
        host: &'a Arc<dyn Host>,
        undo: &'a dyn UndoLog,
    ) -> StepContext<'a> {
        StepContext {
            host: host.as_ref(),
            undo,
            events: &self.events,
        }
    }

    /// Resets the host and deletes the temporary files of kubexm.
    pub async fn take_back(&self) {
        reset_host(&self.host, &self.events, &Stop::new())
            .await
            .unwrap();
        let _ = std::fs::remove_dir_all(self.at("/run/kubexm"));
    }

    /// Returns every file with type, mode, owner, and content or target, without the files that kubexm keeps
    /// about the host.
    pub fn listing(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        list(self.folder.path(), self.folder.path(), &mut found);
        found.retain(|path, _| {
            !["var/lib/kubexm", "run/kubexm"]
                .iter()
                .any(|own| path.starts_with(own))
        });
        found
    }
}

fn list(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        let content = if about.is_symlink() {
            format!("{:?}", path.read_link().unwrap())
        } else if about.is_file() {
            Digest::of(&std::fs::read(&path).unwrap()).hex()
        } else {
            String::new()
        };
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let owner = (about.uid(), about.gid());
        found.insert(name, format!("{:o} {owner:?} {content}", about.mode()));
        if about.is_dir() {
            list(root, &path, found);
        }
    }
}

pub fn path(text: &str) -> HostPath {
    HostPath::parse(text).unwrap()
}
