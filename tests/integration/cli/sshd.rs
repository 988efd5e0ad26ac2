//! An sshd on loopback, for commands that log in to hosts.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// An sshd that accepts one key for root. It ends with the test.
pub struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Sshd {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]);
            assert!(keygen.status().unwrap().success());
        }
        std::fs::create_dir_all("/run/sshd").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPidFile none\n",
            at("host"),
            at("user.pub"),
        );
        std::fs::write(at("sshd_config"), settings).unwrap();
        let key = std::fs::read_to_string(at("host.pub")).unwrap();
        std::fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-E", &at("log"), "-f", &at("sshd_config")])
            .spawn()
            .unwrap();
        for _ in 0..300 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Self {
            folder,
            port,
            process,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a cluster file. Its control plane node1 is this sshd, and its worker node2 refuses connections.
    pub fn cluster(&self) -> String {
        let path = self.path("cluster.yaml").display().to_string();
        let text = format!(
            "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: example}}\nspec:\n  hosts:\n  \
             - {{name: node1, address: 127.0.0.1, internalAddress: 192.0.2.11, port: {}, user: root, privateKeyPath: {}}}\n  \
             - {{name: node2, address: 127.0.0.1, internalAddress: 192.0.2.12, port: 1}}\n  \
             roleGroups: {{control-plane: [node1], worker: [node2]}}\n  kubernetes: {{version: 1.36.3}}\n",
            self.port,
            self.path("user").display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
