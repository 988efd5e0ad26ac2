//! Runs the bundled kubeadm to obtain its image list and requirements, so that kubexm needs no tables.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cache::failed;
use super::{Cache, FetchError, program};
use kubexm_bundle::lock::KubeadmFacts;
use kubexm_config::cluster;
use kubexm_config::cluster::{PatchFile, PatchTarget};
use kubexm_config::ports;
use kubexm_sandbox::{LoopbackAnswer, ProgramOutput, ProgramRun, Sandbox, Workspace};
use kubexm_types::{Digest, ImageRef, Version};

/// Maximum size of a configuration that a dry run writes, in bytes.
const LARGEST_CONFIG: u64 = 16 * 1024 * 1024;
/// The response of the old etcd.
const OLD_ETCD: &str = r#"{"etcdserver":"3.0.0","etcdcluster":"3.0.0"}"#;
/// The variable that makes kubeadm write files into a directory instead of their real paths.
const DRY_RUN_FOLDER: &str = "KUBEADM_INIT_DRYRUN_DIR";

/// A kubeadm that runs on this machine, in a sandbox.
pub struct Kubeadm {
    version: Version,
    program: PathBuf,
    workspace: Workspace,
    sandbox: Sandbox,
    /// The number of configurations that were written.
    written: AtomicU32,
}

impl Kubeadm {
    /// Copies a cached kubeadm into a private directory and makes it executable. A kubeadm that does not have
    /// its digest is not executed.
    ///
    /// # Errors
    /// The blob is damaged, or the directory cannot be written.
    pub async fn unpack(
        cache: Cache,
        digest: Digest,
        version: Version,
        sandbox: Sandbox,
    ) -> Result<Self, FetchError> {
        let unpack = move || {
            let failed = |source| failed(&std::env::temp_dir(), source);
            let workspace = Workspace::create("kubexm-kubeadm-").map_err(failed)?;
            let program = workspace.inputs().join("kubeadm");
            cache.copy(&digest, &program, 0o755)?;
            Ok(Self {
                version,
                program,
                workspace,
                sandbox,
                written: AtomicU32::new(0),
            })
        };
        let unpacked = tokio::task::spawn_blocking(unpack).await;
        unpacked.unwrap_or_else(|error| Err(FetchError::resolve(error.to_string())))
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
        let path = self.put(config)?;
        let run = self.program_run(&["config", "validate", "--config", &path])?;
        let judged = self.judge(run).await?;
        Ok(judged.and_then(|message| {
            // kubeadm reports unknown fields only as warnings; here they are errors in kubexm's templates.
            if message.contains("unknown field") || message.contains("strict decoding") {
                Err(message)
            } else {
                Ok(())
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
        let patched = |target: &PatchTarget| files.iter().any(|file| file.target == *target);
        let mut made = None;
        for target in PatchTarget::ALL.into_iter().filter(patched) {
            let arguments = [&["init", "phase"], phase(target), &["--config", &path]].concat();
            let mut run = self.program_run(&arguments)?;
            let folder = run.scratch.clone();
            let variable = (DRY_RUN_FOLDER.to_owned(), folder.display().to_string());
            run.environment.push(variable);
            if let Err(message) = self.judge(run).await? {
                return Ok(Err(message));
            }
            if target == PatchTarget::Kubelet {
                made = Some(folder);
            }
        }
        let Some(made) = made else {
            return Ok(Ok(()));
        };
        // The kubelet parses its configuration strictly, so the patched result is validated too.
        let kubelet = self.made_for_the_kubelet(&made)?;
        let api = cluster::kubeadm_api(&self.version);
        let whole =
            format!("apiVersion: kubeadm.k8s.io/{api}\nkind: ClusterConfiguration\n---\n{kubelet}");
        self.validate(&whole).await
    }
    /// Writes the patches and the configuration. Returns the path of the configuration.
    fn lay_out(
        &self,
        config: &str,
        folder: &str,
        files: &[PatchFile],
    ) -> Result<String, FetchError> {
        let patches = format!("patches-{}", self.number());
        let place = self.workspace.directory(&patches);
        let place = place.map_err(|error| failed(&self.workspace.inputs(), error))?;
        for file in files {
            self.write(&format!("{patches}/{}", file.name), &file.content)?;
        }
        self.put(&config.replace(folder, &place.display().to_string()))
    }

    /// Returns the kubelet's configuration after the dry run of `init`. Older versions of kubeadm create a
    /// directory per run.
    fn made_for_the_kubelet(&self, made: &Path) -> Result<String, FetchError> {
        let mut folders = vec![made.to_owned()];
        if let Ok(entries) = std::fs::read_dir(made.join("tmp")) {
            folders.extend(entries.flatten().map(|entry| entry.path()));
        }
        let mut paths = folders.iter().map(|folder| folder.join("config.yaml"));
        let path = paths.find(|path| path.exists()).ok_or_else(|| {
            self.wrong("its dry run did not write a kubelet configuration".to_owned())
        })?;
        read_made(made, &path).map_err(|error| failed(&path, error))
    }

    /// Runs a command; returns its messages, or as the inner error if the status is not 0.
    async fn judge(&self, run: ProgramRun) -> Result<Result<String, String>, FetchError> {
        let output = self.output(run).await?;
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(if output.is_success {
            Ok(message)
        } else {
            Err(message)
        })
    }

    /// Determines the minimum version of external etcd. kubeadm compares the version with a constant and
    /// names the constant if the version is too old. kubexm therefore serves an etcd 3.0.0 on loopback.
    /// No other check of the preflight phase changes the machine, and the phase ends with this error.
    async fn minimum_etcd(&self) -> Option<Version> {
        let server = match self.sandbox {
            Sandbox::On { .. } => None,
            Sandbox::Off => Some(tokio::net::TcpListener::bind("127.0.0.1:0").await.ok()?),
        };
        let port = match &server {
            Some(listener) => listener.local_addr().ok()?.port(),
            None => ports::ETCD_CLIENT,
        };
        let api = cluster::kubeadm_api(&self.version);
        let config = format!(
            "apiVersion: kubeadm.k8s.io/{api}\nkind: InitConfiguration\nlocalAPIEndpoint:\n  advertiseAddress: 192.0.2.1\n---\napiVersion: kubeadm.k8s.io/{api}\nkind: ClusterConfiguration\nkubernetesVersion: v{}\netcd:\n  external:\n    endpoints: [\"http://127.0.0.1:{port}\"]\n    caFile: \"\"\n    certFile: \"\"\n    keyFile: \"\"\n",
            self.version
        );
        let path = self.put(&config).ok()?;
        // Without this, kubeadm ends before the other checks: in the sandbox it is not root.
        let privileged = "--ignore-preflight-errors=IsPrivilegedUser";
        let arguments = ["init", "phase", "preflight", "--config", &path, privileged];
        let mut run = self.program_run(&arguments).ok()?;
        run.answer = Some(LoopbackAnswer {
            port: ports::ETCD_CLIENT,
            json: OLD_ETCD.to_owned(),
        });
        let served = server.map(|listener| {
            tokio_util::task::AbortOnDropHandle::new(tokio::spawn(old_etcd(listener)))
        });
        let output = self.output(run).await.ok()?;
        drop(served);
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
        let run = self.program_run(arguments)?;
        program::printed(run, &self.sandbox, &self.name()).await
    }

    fn program_run(&self, arguments: &[&str]) -> Result<ProgramRun, FetchError> {
        let run = ProgramRun::new(&self.workspace, self.program.clone());
        let mut run = run.map_err(|error| failed(&self.workspace.inputs(), error))?;
        run.arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        Ok(run)
    }

    async fn output(&self, run: ProgramRun) -> Result<ProgramOutput, FetchError> {
        program::output(run, &self.sandbox, &self.name()).await
    }

    /// Writes a configuration. Returns its path.
    fn put(&self, config: &str) -> Result<String, FetchError> {
        // Several validations may run concurrently.
        self.write(&format!("config-{}.yaml", self.number()), config)
    }

    fn write(&self, name: &str, text: &str) -> Result<String, FetchError> {
        let path = self.workspace.put(name, text.as_bytes());
        let path = path.map_err(|error| failed(&self.workspace.inputs(), error))?;
        Ok(path.display().to_string())
    }

    fn number(&self) -> u32 {
        self.written.fetch_add(1, Ordering::Relaxed)
    }

    fn wrong(&self, reason: String) -> FetchError {
        FetchError::Content {
            what: self.name(),
            reason: reason.into(),
        }
    }

    /// Returns the program and its version, for errors.
    fn name(&self) -> String {
        format!("kubeadm {}", self.version)
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

/// Reads a file that a program wrote into `folder`. The program has ended, and may have left a link that points
/// out of the directory.
fn read_made(folder: &Path, path: &Path) -> io::Result<String> {
    let path = path.canonicalize()?;
    if !path.starts_with(folder.canonicalize()?) || !path.metadata()?.is_file() {
        let reason = "it is not a regular file in the program's directory";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(LARGEST_CONFIG).read_to_string(&mut text)?;
    Ok(text)
}

/// Answers every request as an etcd 3.0.0 answers `/version`.
async fn old_etcd(listener: tokio::net::TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let body = OLD_ETCD;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut request = [0u8; 2048];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
