//! Snapshots of etcd that members take on their hosts, and the copies of them on this machine.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use super::answer::{SnapshotStatus, Status};
use super::client::{Client, ClientError};
use super::placement::{kind, member_names};
use kubexm_config::Cluster;
use kubexm_host::{Command, Host, HostError, Limit, Output};
use kubexm_scripts::etcd as scripts;
use kubexm_types::{Digest, DigestWriter, HostName};

/// The largest snapshot in bytes. etcd's largest quota is 8 GiB.
const LARGEST: u64 = 16 << 30;
/// The size in bytes of a part of a file.
const PART: u64 = 8 << 20;
const LIMIT: Limit = Limit::DEFAULT;
const SAVE_LIMIT: Limit = Limit::new(Duration::from_secs(660), "snapshots of etcd");

/// Why the snapshot of a member does not exist.
#[derive(Debug)]
pub enum Failure {
    /// The member does not provide one.
    Member(String),
    /// This machine cannot write it.
    Here(io::Error),
}

impl From<String> for Failure {
    fn from(cause: String) -> Self {
        Self::Member(cause)
    }
}

/// A member of etcd.
pub struct Member<'a> {
    /// The name of its host.
    pub name: &'a HostName,
    host: &'a Arc<dyn Host>,
    kind: &'static str,
    data: &'a str,
}

/// A file on the host of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its size in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: Digest,
}

/// What a snapshot on the host of a member contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// What etcdutl reads in it.
    pub status: SnapshotStatus,
    /// The number of keys at its revision.
    pub keys: u64,
}

/// Which file of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The snapshot that the member took.
    Snapshot,
    /// The program etcdutl of the version of the member.
    Program,
}

impl Source {
    fn verb(self) -> &'static str {
        match self {
            Self::Snapshot => "read",
            Self::Program => "read-program",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Program => "program etcdutl",
        }
    }
}

impl<'a> Member<'a> {
    /// Returns the members on these hosts, which can be reached. An external etcd has none.
    pub fn on(cluster: &'a Cluster, hosts: &'a BTreeMap<HostName, Arc<dyn Host>>) -> Vec<Self> {
        let (Some(kind), Some(data)) = (kind(cluster), cluster.etcd.data_directory()) else {
            return Vec::new();
        };
        let names = member_names(cluster).iter();
        let reachable = names.filter_map(|name| Some((name, hosts.get(name)?)));
        let member = |(name, host)| Self {
            name,
            host,
            kind,
            data,
        };
        reachable.map(member).collect()
    }

    async fn call(
        &self,
        verb: &'static str,
        part: Option<u64>,
        limit: Limit,
    ) -> Result<Output, HostError> {
        let parameters = scripts::Snapshot {
            kind: self.kind.to_owned(),
            data: self.data.to_owned(),
            part: part.map(|number| number.to_string()).unwrap_or_default(),
        };
        let command = Command::from_script(scripts::SNAPSHOT.verb(verb), parameters);
        let command = command.describe("take a snapshot of etcd").limit(limit);
        let command = match verb {
            "read" | "read-program" => command.secret_output(),
            _ => command,
        };
        self.host.run(command).await
    }

    async fn done(
        &self,
        verb: &'static str,
        part: Option<u64>,
        limit: Limit,
    ) -> Result<Output, String> {
        let called = self.call(verb, part, limit).await;
        let output = called.map_err(|error| error.to_string())?;
        if output.success() {
            Ok(output)
        } else {
            Err(output.complaint().to_string())
        }
    }

    /// Returns the path of the snapshot on the host, as in `snapshot.sh`.
    pub fn path(&self) -> String {
        match self.kind {
            "kubeadm" => format!("{}/kubexm-snapshot.db", self.data),
            _ => "/var/lib/kubexm/etcd-snapshot.db".to_owned(),
        }
    }

    /// Returns whether the host has data of the member.
    ///
    /// # Errors
    /// The host was lost.
    pub async fn has_data(&self) -> Result<bool, HostError> {
        Ok(self.call("has-data", None, LIMIT).await?.success())
    }

    /// Returns what the member reports about itself.
    ///
    /// # Errors
    /// Returns why the member does not answer.
    pub async fn status(&self) -> Result<Status, String> {
        let status = self.client("take a snapshot of etcd").status().await;
        status.map_err(cause)
    }

    fn client(&self, what: &'a str) -> Client<'a> {
        Client::new(self.host.as_ref(), self.kind, what)
    }

    /// Takes a snapshot, which stays on the host until [`Member::remove`].
    ///
    /// # Errors
    /// Returns why the member provides none.
    pub async fn save(&self) -> Result<RemoteFile, String> {
        let saved = self.done("save", None, SAVE_LIMIT).await?;
        let file = parse(saved.text().trim()).ok_or("etcdctl created no snapshot")?;
        match file.size {
            0 => Err("etcdctl created no snapshot".to_owned()),
            size if size > LARGEST => Err(format!("a snapshot of {size} bytes is not one of etcd")),
            _ => Ok(file),
        }
    }

    /// Returns what the snapshot contains.
    ///
    /// # Errors
    /// Returns why a program failed, or that it printed something else.
    pub async fn describe(&self) -> Result<Content, String> {
        let printed = self.done("describe", None, SAVE_LIMIT).await?.stdout;
        let status = SnapshotStatus::one(&printed)
            .map_err(|cause| format!("the answer about the snapshot {cause}"))?;
        let client = self.client("count the keys of etcd");
        let keys = client.keys(status.revision).await.map_err(cause)?;
        Ok(Content { status, keys })
    }

    /// Returns the program etcdutl on the host, or in the container of the member.
    ///
    /// # Errors
    /// Returns why there is none.
    pub async fn program(&self) -> Result<RemoteFile, String> {
        let text = self.done("program", None, LIMIT).await?.text();
        let rest = text.trim().split_once(' ').map(|(_, rest)| rest);
        rest.and_then(parse)
            .ok_or_else(|| "cannot find etcdutl".to_owned())
    }

    /// Removes the snapshot from the host.
    pub async fn remove(&self) {
        let _ = self.call("remove", None, LIMIT).await;
    }

    /// Copies a file of the host part by part, and compares its digest. Returns `target`.
    ///
    /// # Errors
    /// The host does not provide the file, the file arrives damaged, or this machine cannot store it.
    pub async fn copy<W: Write>(
        &self,
        source: Source,
        file: &RemoteFile,
        target: W,
    ) -> Result<W, Failure> {
        let mut target = DigestWriter::new(target);
        for part in 0..file.size.div_ceil(PART) {
            let read = self.done(source.verb(), Some(part), SAVE_LIMIT).await?;
            target.write_all(&read.stdout).map_err(Failure::Here)?;
        }
        let (target, got, size) = target.finish();
        if size != file.size {
            return Err(Failure::Member(format!(
                "the {} of {} arrived with {size} bytes instead of {}",
                source.name(),
                self.name,
                file.size
            )));
        }
        if got != file.digest {
            return Err(Failure::Member(format!(
                "the {} of {} arrived with the digest {} instead of {}",
                source.name(),
                self.name,
                got.hex(),
                file.digest.hex()
            )));
        }
        Ok(target)
    }
}

/// Returns why etcdctl gave no answer.
fn cause(error: ClientError) -> String {
    match error {
        ClientError::Failed { complaint, .. } => complaint.to_string(),
        ClientError::Unreadable { cause, .. } => format!("what etcdctl printed {cause}"),
        ClientError::Host(error) => error.to_string(),
    }
}

/// Parses size and SHA-256.
fn parse(text: &str) -> Option<RemoteFile> {
    let (size, digest) = text.split_once(' ')?;
    Some(RemoteFile {
        size: size.parse().ok()?,
        digest: Digest::parse(&format!("sha256:{digest}")).ok()?,
    })
}
