//! Power failures: a disk that keeps only what was written to it, without what the kernel still had in memory.
//!
//! The disk is an ext4 file system on a loop device. A cut copies the image while it is mounted, and mounts the copy. The
//! kernel holds back everything that no program flushes: the journal is committed every 10 minutes, and a rename does not flush
//! the data of its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::sandbox::path;
use kubexm_engine::plan::{Ensure, Plan, Receipt, StepContext, Stop, Task, execute};
use kubexm_engine::steps::{ManagedBlock, RunScript, WriteFile};
use kubexm_host::Host;
use kubexm_host::local::LocalHost;
use kubexm_types::event::Events;

/// A mounted disk.
struct Disk {
    folder: tempfile::TempDir,
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(64 * 1024 * 1024).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()]);
        Self::mounted(folder)
    }

    fn mounted(folder: tempfile::TempDir) -> Self {
        let (image, root) = (folder.path().join("image"), folder.path().join("root"));
        std::fs::create_dir(&root).unwrap();
        let options = "loop,commit=600,noauto_da_alloc";
        let [image, root] = [image, root].map(|path| path.to_str().unwrap().to_owned());
        run("mount", &["-o", options, &image, &root]);
        Self { folder }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Returns the disk after a power failure at this moment.
    fn cut(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::copy(self.folder.path().join("image"), &image).unwrap();
        Self::mounted(folder)
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(path.trim_start_matches('/'))).ok()
    }

    /// Writes a file that survives every failure.
    fn write_durably(&self, path: &str, content: &str) {
        let path = self.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        flush(&self.root());
    }

    fn host(&self) -> Arc<dyn Host> {
        Arc::new(LocalHost::within("node1".parse().unwrap(), &self.root()).unwrap())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root()).status();
    }
}

fn flush(path: &Path) {
    run("sync", &["-f", path.to_str().unwrap()]);
}

#[test]
#[ignore = "needs root, loop devices and mkfs.ext4"]
fn disk_loses_what_was_not_flushed() {
    let disk = Disk::new();
    disk.write_durably("/kept", "kept");
    // Another process may flush all disks of this machine at any time.
    let lost = (0..20).any(|at| {
        let name = format!("/lost-{at}");
        std::fs::write(disk.root().join(&name[1..]), "lost").unwrap();
        let after = disk.cut();
        assert_eq!(after.read("/kept").as_deref(), Some("kept"));
        after.read(&name).is_none_or(|content| content.is_empty())
    });
    assert!(
        lost,
        "the disk keeps everything, so that no test below can fail"
    );
}

async fn apply(host: &Arc<dyn Host>, step: &dyn Ensure) {
    let receipt = Receipt::new(Arc::clone(host));
    let context = StepContext {
        host: host.as_ref(),
        undo: &receipt,
        events: &Events::silent(),
    };
    step.apply(&context).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root, loop devices and mkfs.ext4"]
async fn files_survive_a_power_failure_after_their_step() {
    let disk = Disk::new();
    let host = disk.host();
    disk.write_durably("/etc/hosts", "127.0.0.1 localhost\n");
    disk.write_durably("/etc/app/conf", "of the site");
    let names = ManagedBlock {
        path: path("/etc/hosts"),
        lines: vec!["10.0.0.1 node1".to_owned()],
    };
    apply(&host, &names).await;
    let after = disk.cut();
    let hosts = after.read("/etc/hosts").unwrap();
    assert!(
        hosts.contains("10.0.0.1 node1\n# kubexm end\n"),
        "{hosts:?}"
    );
    for text in ["first", "second"] {
        apply(&host, &WriteFile::new(path("/etc/app/conf"), text)).await;
        let after = disk.cut();
        assert_eq!(after.read("/etc/app/conf").as_deref(), Some(text));
        let receipt = after.read("/var/lib/kubexm/receipt.jsonl").unwrap();
        assert!(receipt.contains("\"path\":\"/etc/app/conf\""), "{receipt}");
        let backup = receipt.split("\"backup\":\"").nth(1).unwrap();
        let backup = backup.split('"').next().unwrap();
        assert_eq!(after.read(backup).as_deref(), Some("of the site"));
    }
}

#[tokio::test]
#[ignore = "needs root, loop devices and mkfs.ext4"]
async fn everything_that_a_task_did_survives_a_power_failure_after_it() {
    let disk = Disk::new();
    let host = disk.host();
    let name = host.name().clone();
    let hosts = BTreeMap::from([(name.clone(), host)]);
    // A package manager does not flush what it writes either.
    let write = "mkdir -p /opt/a/b; echo done >/opt/a/b/file; ln -s b /opt/a/link";
    let step = RunScript::new("write", "Write", "[ -e /opt/a/b/file ]", write);
    let mut plan = Plan::default();
    plan.tasks.push(Task::new("m", "t", &name).step(step));
    let (events, stop) = (Events::silent(), Stop::new());
    let outcome = execute(plan, &hosts, &events, &stop).await.unwrap();
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    assert_eq!(
        disk.cut().read("/opt/a/link/file").as_deref(),
        Some("done\n")
    );
}
