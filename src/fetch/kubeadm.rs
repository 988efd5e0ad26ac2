//! Asks the bundled kubeadm what it wants, instead of keeping tables of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::FetchError;
use crate::bundle::lock::KubeadmFacts;
use crate::spec::{ImageRef, Version};

/// A kubeadm that can run on this machine.
pub struct Kubeadm {
    version: Version,
    program: PathBuf,
    // Holds the program; removed when dropped.
    folder: tempfile::TempDir,
}

impl Kubeadm {
    /// Makes a cached kubeadm executable in a private folder.
    pub fn unpack(cached: &Path, version: &Version) -> Result<Self, FetchError> {
        let failed = |source| FetchError::Cache {
            path: cached.display().to_string(),
            source,
        };
        let folder = tempfile::Builder::new()
            .prefix("kubexm-kubeadm-")
            .tempdir()
            .map_err(failed)?;
        let program = folder.path().join("kubeadm");
        std::fs::copy(cached, &program).map_err(failed)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).map_err(failed)?;
        Ok(Self {
            version: version.clone(),
            program,
            folder,
        })
    }

    /// Its own image list and least external etcd.
    pub async fn facts(&self) -> Result<KubeadmFacts, FetchError> {
        let version = format!("v{}", self.version);
        let said = self.run(&["version", "-o", "short"]).await?;
        if said.trim() != version {
            return Err(self.wrong(format!("it calls itself {}, not {version}", said.trim())));
        }
        let list = self
            .run(&["config", "images", "list", "--kubernetes-version", &version])
            .await?;
        let images: Result<Vec<ImageRef>, _> = list.lines().map(str::parse).collect();
        let images = images.map_err(|error| self.wrong(format!("its image list: {error}")))?;
        if images.is_empty() {
            return Err(self.wrong("it lists no images".to_owned()));
        }
        let minimum_etcd = self.minimum_etcd().await;
        Ok(KubeadmFacts {
            version: self.version.clone(),
            images,
            minimum_etcd,
        })
    }

    /// Whether this kubeadm takes a configuration; its words where it does not.
    pub async fn validate(&self, config: &str) -> Result<Result<(), String>, FetchError> {
        let path = self.folder.path().join("config.yaml");
        std::fs::write(&path, config).map_err(|source| FetchError::Cache {
            path: path.display().to_string(),
            source,
        })?;
        let output = self
            .command(&[
                "config",
                "validate",
                "--config",
                &path.display().to_string(),
            ])
            .output()
            .await
            .map_err(|error| self.wrong(error.to_string()))?;
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // Strict decoding speaks in warnings: an unknown field is a mistake of ours.
        let unknown = words.contains("unknown field") || words.contains("strict decoding");
        Ok(if output.status.success() && !unknown {
            Ok(())
        } else {
            Err(words)
        })
    }

    /// kubeadm compares external etcd with a constant of its own and names it when it is not met:
    /// so it is shown an etcd of impossible age, on loopback. Nothing else of its preflight
    /// changes the machine, and it stops there since the version is an error.
    async fn minimum_etcd(&self) -> Option<Version> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.ok()?;
        let port = listener.local_addr().ok()?.port();
        let server = tokio::spawn(old_etcd(listener));
        let api = if self.version < Version::new(1, 31, 0) {
            "v1beta3"
        } else {
            "v1beta4"
        };
        let config = format!(
            "apiVersion: kubeadm.k8s.io/{api}\nkind: InitConfiguration\nlocalAPIEndpoint:\n  advertiseAddress: 192.0.2.1\n---\napiVersion: kubeadm.k8s.io/{api}\nkind: ClusterConfiguration\nkubernetesVersion: v{}\netcd:\n  external:\n    endpoints: [\"http://127.0.0.1:{port}\"]\n    caFile: \"\"\n    certFile: \"\"\n    keyFile: \"\"\n",
            self.version
        );
        let path = self.folder.path().join("preflight.yaml");
        std::fs::write(&path, config).ok()?;
        let path = path.display().to_string();
        let arguments = ["init", "phase", "preflight", "--config", &path];
        let output = self.command(&arguments).output();
        let output = tokio::time::timeout(Duration::from_secs(60), output).await;
        server.abort();
        let output = output.ok()?.ok()?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let after = words
            .split("only supports external etcd version >= ")
            .nth(1)?;
        // kubeadm names the image's tag, as in 3.5.24-0: the part after '-' is no etcd version.
        let token = after
            .split_whitespace()
            .next()?
            .trim_end_matches(['.', ',']);
        token.split('-').next()?.trim_end_matches('.').parse().ok()
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, FetchError> {
        let output = self.command(arguments).output();
        let output = tokio::time::timeout(Duration::from_secs(60), output)
            .await
            .map_err(|_| self.wrong("it does not answer".to_owned()))?
            .map_err(|error| self.wrong(format!("it does not run here: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(self.wrong(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.folder.path())
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true);
        command
    }

    fn wrong(&self, reason: String) -> FetchError {
        FetchError::Content {
            what: format!("kubeadm {}", self.version),
            reason,
        }
    }
}

/// Answers every request as an etcd 3.0.0 would answer `/version`.
async fn old_etcd(listener: tokio::net::TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let body = r#"{"etcdserver":"3.0.0","etcdcluster":"3.0.0"}"#;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut request = [0u8; 2048];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
