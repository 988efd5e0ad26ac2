//! Runs the bundled kubeadm to obtain its image list and requirements, so that kubexm needs no tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::FetchError;
use super::cache::failed;
use kubexm_bundle::lock::KubeadmFacts;
use kubexm_config::cluster;
use kubexm_config::cluster::{PatchFile, PatchTarget};
use kubexm_types::{ImageRef, Version};

/// A kubeadm that runs on this machine.
pub struct Kubeadm {
    version: Version,
    program: PathBuf,
    // Contains the program; deleted when dropped.
    folder: tempfile::TempDir,
}

impl Kubeadm {
    /// Copies a cached kubeadm into a private directory and makes it executable.
    pub fn unpack(cached: &Path, version: &Version) -> Result<Self, FetchError> {
        let failed = |source| failed(cached, source);
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

    /// Returns its image list and the minimum version of external etcd.
    pub async fn facts(&self) -> Result<KubeadmFacts, FetchError> {
        let version = format!("v{}", self.version);
        let listing = ["config", "images", "list", "--kubernetes-version", &version];
        let (said, list, minimum_etcd) = tokio::join!(
            self.run(&["version", "-o", "short"]),
            self.run(&listing),
            self.minimum_etcd(),
        );
        let said = said?;
        if said.trim() != version {
            return Err(self.wrong(format!(
                "it reports the version {}, not {version}",
                said.trim()
            )));
        }
        let list = list?;
        let images: Result<Vec<ImageRef>, _> = list.lines().map(str::parse).collect();
        let images =
            images.map_err(|error| self.wrong(format!("cannot parse its image list: {error}")))?;
        if images.is_empty() {
            return Err(self.wrong("its image list is empty".to_owned()));
        }
        Ok(KubeadmFacts {
            version: self.version.clone(),
            images,
            minimum_etcd,
        })
    }

    /// Validates a configuration; the inner error is kubeadm's message.
    pub async fn validate(&self, config: &str) -> Result<Result<(), String>, FetchError> {
        let folder = self.folder.path();
        // Several validations may run concurrently.
        let file = tempfile::NamedTempFile::new_in(folder);
        let file = file.map_err(|error| failed(folder, error))?;
        write(file.path(), config)?;
        let path = file.path().display().to_string();
        let judged = self
            .judge(&["config", "validate", "--config", &path])
            .await?;
        Ok(judged.and_then(|message| {
            // kubeadm reports unknown fields only as warnings; here they are errors in kubexm's templates.
            match message.contains("unknown field") || message.contains("strict decoding") {
                true => Err(message),
                false => Ok(()),
            }
        }))
    }

    /// Applies patches to what kubeadm generates from a configuration for `init`, which names the patch
    /// directory `folder`. The inner error is kubeadm's message. This machine is not changed.
    pub async fn apply(
        &self,
        config: &str,
        folder: &str,
        files: &[PatchFile],
    ) -> Result<Result<(), String>, FetchError> {
        let path = self.lay_out(config, folder, files)?;
        let path = path.display().to_string();
        let patched = |target: &PatchTarget| files.iter().any(|file| file.target == *target);
        for target in PatchTarget::ALL.into_iter().filter(patched) {
            let arguments = [&["init", "phase"], phase(target), &["--config", &path]].concat();
            if let Err(message) = self.judge(&arguments).await? {
                return Ok(Err(message));
            }
        }
        if !patched(&PatchTarget::Kubelet) {
            return Ok(Ok(()));
        }
        // The kubelet parses its configuration strictly, so the patched result is validated too.
        let path = self.made_for_the_kubelet()?;
        let kubelet = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        let api = cluster::kubeadm_api(&self.version);
        let whole =
            format!("apiVersion: kubeadm.k8s.io/{api}\nkind: ClusterConfiguration\n---\n{kubelet}");
        self.validate(&whole).await
    }

    /// Writes the patches and the configuration into an empty directory.
    fn lay_out(
        &self,
        config: &str,
        folder: &str,
        files: &[PatchFile],
    ) -> Result<PathBuf, FetchError> {
        let patches = self.folder.path().join("patches");
        for folder in [&patches, &self.made()] {
            match std::fs::remove_dir_all(folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => std::fs::create_dir(folder),
            }
            .map_err(|error| failed(folder, error))?;
        }
        for file in files {
            write(&patches.join(&file.name), &file.content)?;
        }
        let path = self.folder.path().join("patched.yaml");
        let config = config.replace(folder, &patches.display().to_string());
        write(&path, &config).map(|()| path)
    }

    /// Returns the directory into which kubeadm writes files instead of their real paths.
    fn made(&self) -> PathBuf {
        self.folder.path().join("made")
    }

    /// Returns the path of the kubelet's configuration after the dry run of `init`. Older versions of
    /// kubeadm create a directory per run.
    fn made_for_the_kubelet(&self) -> Result<PathBuf, FetchError> {
        let runs = self.made().join("tmp");
        let mut folders = vec![self.made()];
        if let Ok(entries) = std::fs::read_dir(&runs) {
            folders.extend(entries.flatten().map(|entry| entry.path()));
        }
        let mut paths = folders.iter().map(|folder| folder.join("config.yaml"));
        paths.find(|path| path.exists()).ok_or_else(|| {
            self.wrong("its dry run did not write a kubelet configuration".to_owned())
        })
    }

    /// Runs a command; returns its output, or as the inner error if the status is not 0.
    async fn judge(&self, arguments: &[&str]) -> Result<Result<String, String>, FetchError> {
        let output = self
            .command(arguments)
            .env("KUBEADM_INIT_DRYRUN_DIR", self.made())
            .output()
            .await
            .map_err(|error| self.wrong(error.to_string()))?;
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(match output.status.success() {
            true => Ok(message),
            false => Err(message),
        })
    }

    /// Determines the minimum version of external etcd. kubeadm compares the version with a constant and
    /// names the constant if the version is too old. kubexm therefore serves an etcd 3.0.0 on loopback.
    /// No other check of the preflight phase changes the machine, and the phase ends with this error.
    async fn minimum_etcd(&self) -> Option<Version> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.ok()?;
        let port = listener.local_addr().ok()?.port();
        let server = tokio::spawn(old_etcd(listener));
        let api = cluster::kubeadm_api(&self.version);
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
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let after = message
            .split("only supports external etcd version >= ")
            .nth(1)?;
        // kubeadm prints the image tag, such as 3.5.24-0; the part after '-' does not belong to the version.
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

/// Returns the phase of `init` that applies a target's patches, as a dry run.
fn phase(target: PatchTarget) -> &'static [&'static str] {
    match target {
        PatchTarget::ApiServer => &["control-plane", "apiserver", "--dry-run"],
        PatchTarget::ControllerManager => &["control-plane", "controller-manager", "--dry-run"],
        PatchTarget::Scheduler => &["control-plane", "scheduler", "--dry-run"],
        PatchTarget::Etcd => &["etcd", "local", "--dry-run"],
        PatchTarget::Kubelet => &["kubelet-start", "--dry-run"],
        PatchTarget::CoreDns => &["addon", "coredns", "--print-manifest"],
    }
}

fn write(path: &Path, text: &str) -> Result<(), FetchError> {
    std::fs::write(path, text).map_err(|error| failed(path, error))
}

/// Answers every request as an etcd 3.0.0 answers `/version`.
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
