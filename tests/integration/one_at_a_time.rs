//! A host admits one kubexm at a time: two processes of the program, and a host behind a real sshd whose
//! directories cannot be written, apart from `/run`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kubexm_bundle::{Level, PackOptions};

use crate::example::{example, write_plain};
use crate::isolation::wait_until;

/// Starts an sshd in a mount namespace of its own. `uname`, which the collection of facts calls and the script of
/// the lock does not, waits while the file `hold` exists.
const HOST: &str = r#"
mount --make-rprivate /
mount --bind "$1/uname" "$(command -v uname)"
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
mount --bind / /
mount -o remount,bind,ro /
cd /
exec /usr/sbin/sshd -D -e -f "$1/sshd_config"
"#;

const UNAME: &str = r#"#!/bin/sh
while [ -e FOLDER/hold ]; do sleep 0.1; done
exec FOLDER/uname.real "$@"
"#;

struct Host {
    folder: tempfile::TempDir,
    sshd: Child,
    bundle: String,
    cluster: String,
}

impl Host {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]);
            assert!(made.status().unwrap().success());
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPidFile none\n",
            at("host"),
            at("user.pub"),
        );
        fs::write(at("sshd_config"), settings).unwrap();
        let key = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        fs::copy("/usr/bin/uname", at("uname.real")).unwrap();
        let place = folder.path().display().to_string();
        fs::write(at("uname"), UNAME.replace("FOLDER", &place)).unwrap();
        fs::set_permissions(at("uname"), fs::Permissions::from_mode(0o755)).unwrap();
        let sshd = Command::new("unshare")
            .args(["--mount", "sh", "-euc", HOST, "host", &place])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (bundle, cluster) = (at("bundle.tar.zst"), at("cluster.yaml"));
        let (lock, blobs) = example(&[b"a file".to_vec()]);
        let options = PackOptions::new(Level::FAST, 1);
        write_plain(Path::new(&bundle), &lock, &blobs, options).unwrap();
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: first}}\nspec:\n  hosts: \
             [{{name: node1, address: 127.0.0.1, port: {port}, user: root, privateKeyPath: {}}}]\n  \
             roleGroups: {{control-plane: [node1]}}\n  kubernetes: {{version: v1.36.3}}\n",
            at("user")
        );
        fs::write(&cluster, text).unwrap();
        wait_until("sshd listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            folder,
            sshd,
            bundle,
            cluster,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes commands that collect facts wait.
    fn hold(&self) {
        fs::write(self.at("hold"), "").unwrap();
    }

    fn go_on(&self) {
        fs::remove_file(self.at("hold")).unwrap();
    }

    /// Returns the path on this machine of the lock on the host.
    fn lease(&self) -> PathBuf {
        format!("/proc/{}/root/run/kubexm.lock", self.sshd.id()).into()
    }

    /// Returns the process that has the lock, as the host records it.
    fn holder(&self) -> Option<u64> {
        let text = fs::read_to_string(self.lease()).ok()?;
        let holder: serde_json::Value = serde_json::from_str(text.lines().nth(3)?).ok()?;
        holder["pid"].as_u64()
    }

    /// Starts an install with a state directory.
    fn install(&self, state: &str) -> Install {
        let known = self.at("known_hosts");
        let process = Command::new(env!("CARGO_BIN_EXE_kubexm"))
            .args(["install", &self.bundle, "-f", &self.cluster, "--unsigned"])
            .args(["--output", "plain", "--state"])
            .arg(self.at(state))
            .arg("--known-hosts")
            .arg(known)
            .env("USER", "ada")
            .env_remove("SUDO_USER")
            .env("HOME", self.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Install(process)
    }

    /// Starts an install and waits until it has the lock.
    fn install_that_waits(&self, state: &str) -> Install {
        self.hold();
        let install = self.install(state);
        let pid = u64::from(install.0.id());
        wait_until("the install has the lock", || self.holder() == Some(pid));
        install
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.at("hold"));
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

struct Install(Child);

impl Install {
    /// Waits until it ends; returns its exit code and all that it printed.
    fn end(self) -> (Option<i32>, String) {
        let output = self.0.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Sends SIGKILL.
    fn kill(mut self) -> u32 {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        self.0.id()
    }
}

/// Whether an install came past the lock: it judged the facts of the host, which cannot be written.
fn proceeded(printed: &str) -> bool {
    !printed.contains("is locked by") && printed.contains("read-only")
}

#[test]
#[ignore = "needs root and sshd"]
fn second_install_is_refused_and_names_the_first() {
    let host = Host::start();
    let first = host.install_that_waits("first");
    let pid = first.0.id().to_string();
    let (code, printed) = host.install("second").end();
    assert_eq!(code, Some(2), "{printed}");
    // The first one still has the lock, and ends as without the second one.
    assert_eq!(
        host.holder().map(|holder| holder.to_string()),
        Some(pid.clone())
    );
    host.go_on();
    let (_, of_first) = first.end();
    assert!(proceeded(&of_first), "{of_first}");
    wait_until("the lock is released", || !host.lease().exists());

    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let state = host.at("first").display().to_string();
    let who = format!(
        "`kubexm install` of ada@{} (process {pid}, state directory {state}) since ",
        machine.trim()
    );
    let (_, since) = printed
        .split_once(&who)
        .unwrap_or_else(|| panic!("{who}: {printed}"));
    let (since, hint) = since.split_once('\n').unwrap();
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    assert!(
        hint.contains("if its process no longer runs, the lock ends in "),
        "{hint}"
    );

    // Now nothing has the lock.
    let (_, again) = host.install("second").end();
    assert!(proceeded(&again), "{again}");
}

#[test]
#[ignore = "needs root and sshd"]
fn lock_of_a_killed_install_is_taken_over() {
    let host = Host::start();
    let dead = host.install_that_waits("first").kill();
    host.go_on();
    assert_eq!(host.holder(), Some(u64::from(dead)));
    // Another state directory may belong to another controller, which cannot know that the process is dead.
    let (code, printed) = host.install("second").end();
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(&format!("(process {dead}, ")), "{printed}");
    assert_eq!(host.holder(), Some(u64::from(dead)));

    // The lock of the state directory proves it to the next run there.
    let next = host.install_that_waits("first");
    host.go_on();
    let (_, printed) = next.end();
    assert!(proceeded(&printed), "{printed}");

    // After the end of the lease, which is on the clock of the host, any run takes it over.
    let dead = host.install_that_waits("first").kill();
    host.go_on();
    let lease = fs::read_to_string(host.lease()).unwrap();
    let (end, rest) = lease.split_once('\n').unwrap();
    assert!(end.parse::<u64>().is_ok(), "{lease}");
    fs::write(host.lease(), format!("1\n{rest}")).unwrap();
    assert_eq!(host.holder(), Some(u64::from(dead)));
    let (_, printed) = host.install("second").end();
    assert!(proceeded(&printed), "{printed}");
}
