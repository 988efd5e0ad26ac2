//! An sshd on loopback for tests.

use std::net::TcpListener;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use crate::known_hosts::HostKeys;
use crate::{HostError, JumpHosts, OpenSsh, Server, SshHost, SshOptions};

/// Which program speaks SSH with the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Kubexm,
    OpenSsh,
}

pub const PROGRAMS: [Program; 2] = [Program::Kubexm, Program::OpenSsh];

/// An sshd that accepts one key for root. Its directory also has the key of an authority for host certificates.
pub struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Sshd {
    pub fn start() -> Self {
        Self::start_with("", |_| ())
    }

    /// Starts an sshd with further lines in its configuration; `FOLDER` stands for its directory. `prepare` may
    /// create files in the directory before.
    pub fn start_with(more: &str, prepare: impl FnOnce(&str)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user", "authority"] {
            keygen(&["-q", "-t", "ed25519", "-N", "", "-f", &at(key)]);
        }
        prepare(&folder.path().display().to_string());
        std::fs::create_dir_all("/run/sshd").unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let settings = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin prohibit-password\nPidFile none\n{}\n",
            at("host"),
            at("user.pub"),
            more.replace("FOLDER", &folder.path().display().to_string()),
        );
        std::fs::write(at("sshd_config"), settings).unwrap();
        let process = std::process::Command::new("/usr/sbin/sshd")
            .args(["-D", "-E", &at("log"), "-f", &at("sshd_config")])
            .spawn()
            .unwrap();
        Self {
            folder,
            port,
            process,
        }
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Returns the lines that sshd has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap()
    }

    pub fn server(&self) -> Server {
        Server {
            address: "127.0.0.1".to_owned(),
            port: self.port,
            user: "root".to_owned(),
            password: None,
            private_key: Some(self.file("user").into()),
        }
    }

    /// Returns the line of `known_hosts` for this server, with a mark such as `@cert-authority ` before it.
    pub fn known(&self, mark: &str, key: &str) -> String {
        let key = std::fs::read_to_string(self.file(key)).unwrap();
        format!("{mark}[127.0.0.1]:{} {key}", self.port)
    }

    /// Returns options for a connection to this server as `node1`.
    pub fn options(&self, known_hosts: &str) -> SshOptions {
        let known = self.file("known_hosts");
        std::fs::write(&known, known_hosts).unwrap();
        SshOptions {
            name: "node1".parse().unwrap(),
            server: self.server(),
            openssh: None,
            way: Vec::new(),
            jump_hosts: JumpHosts::default(),
            host_keys: HostKeys {
                files: vec![known.into()],
                accept_new: None,
                accepted: Default::default(),
            },
        }
    }

    /// Waits until sshd accepts connections.
    pub async fn listens(&self) {
        for _ in 0..300 {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port))
                .await
                .is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("sshd does not accept connections: {}", self.log());
    }

    pub async fn connect_by(&self, program: Program) -> Arc<SshHost> {
        self.listens().await;
        let mut options = self.options(&self.known("", "host.pub"));
        if program == Program::OpenSsh {
            options.openssh = Some(self.openssh(""));
        }
        Arc::new(SshHost::connect(options).await.unwrap())
    }

    /// Returns how `ssh` connects, with a configuration of the user. Without a user and a port, those are in it.
    pub fn openssh(&self, config: &str) -> OpenSsh {
        let file = self.file("ssh_config");
        std::fs::write(&file, config.replace("PORT", &self.port.to_string())).unwrap();
        OpenSsh {
            config: Some(file.into()),
            user: config.is_empty().then(|| "root".to_owned()),
            port: config.is_empty().then_some(self.port),
        }
    }

    pub async fn try_connect(&self, known_hosts: &str) -> Result<Arc<SshHost>, HostError> {
        self.listens().await;
        let connected = SshHost::connect(self.options(known_hosts)).await;
        connected.map(Arc::new)
    }

    /// Ends the server and every session of it.
    pub fn end(&mut self) {
        let children = format!("/proc/{0}/task/{0}/children", self.process.id());
        for child in std::fs::read_to_string(children)
            .unwrap()
            .split_whitespace()
        {
            let _ = std::process::Command::new("kill")
                .args(["-9", child])
                .status();
        }
        let _ = self.process.kill();
    }

    /// Replaces what differs between runs in an error.
    pub fn shown(&self, error: &HostError) -> String {
        let text = error.to_string().replace(&self.port.to_string(), "PORT");
        text.replace(&self.folder.path().display().to_string(), "FOLDER")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs `ssh-keygen`.
pub fn keygen(arguments: &[&str]) {
    let mut keygen = std::process::Command::new("ssh-keygen");
    assert!(keygen.args(arguments).status().unwrap().success());
}
