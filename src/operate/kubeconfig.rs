//! `kubeconfig`: a kubeconfig for a user, whose certificate the cluster signs.

mod subject;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;

use kubexm_config::Cluster;
use kubexm_deploy::objects;
use kubexm_deploy::{ApiServer, Kubeconfig};
use kubexm_host::Host;
use kubexm_pki::{Certificate, Pair, UserRequest};
use kubexm_session::stop::unless_stopped;
use kubexm_session::{CommandError, Connection, FileError, Stop, notices};
use kubexm_types::event::Events;
use kubexm_types::{AtomicFile, Digest, HostName, Message, WarningKind, write_atomic};
pub use subject::SubjectName;

/// The shortest validity that the signer of Kubernetes accepts
/// (<https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/certificate-signing-request-v1/>).
pub const SHORTEST: Duration = Duration::from_secs(600);
/// The longest validity that the API has a number for: `spec.expirationSeconds` is an int32.
pub const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// Whose kubeconfig to write, and where.
#[derive(Debug, Clone)]
pub struct KubeconfigOptions {
    /// The cluster file.
    pub cluster: PathBuf,
    /// How to reach the hosts, and where the administrator's kubeconfig is.
    pub connection: Connection,
    /// The user.
    pub user: SubjectName,
    /// The group of the user.
    pub group: Option<SubjectName>,
    /// How long the certificate is valid.
    pub validity: Duration,
    /// The file. It must not exist.
    pub out: PathBuf,
}

/// A kubeconfig that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenKubeconfig {
    /// The file.
    pub path: PathBuf,
    /// The user.
    pub user: String,
    /// The group.
    pub group: Option<String>,
    /// When the certificate expires. The cluster may allow a shorter validity than the one that was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// Creates a key, lets the cluster sign a certificate for it, and writes a kubeconfig. The key never leaves this machine.
/// The user can do nothing until a role is bound to the user or the group; the groups of administrators have one.
///
/// # Errors
/// The file exists, the state directory has no kubeconfig of the cluster, no control plane can be reached, or the cluster
/// does not sign the request.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn kubeconfig(
    options: &KubeconfigOptions,
    events: &Events,
    stop: &Stop,
) -> Result<WrittenKubeconfig, CommandError> {
    let prepared = prepare(options, events, stop).await?;
    let (user, group) = (&options.user.0, prepared.group);
    let request = UserRequest::new(user, group)?;
    let host = prepared.host.as_ref();
    let signing = sign(host, &request, options.validity);
    let certificate = unless_stopped(stop, signing).await?;
    let name = format!("the certificate of {user}");
    let signed = Certificate::first(&name, &certificate)?;
    if signed.subject != *user {
        let other = format!("the cluster signed a certificate of {}", signed.subject);
        return Err(CommandError::step(Message::quoting(other).within(&name)));
    }
    let own = Kubeconfig {
        server: prepared.server,
        user: Pair::of(&name, certificate, request.key)?,
    };
    let text = own.text(&prepared.cluster).map_err(CommandError::step)?;
    write_atomic(&options.out, text.as_bytes(), 0o600)
        .map_err(|error| FileError::io("write the kubeconfig", &options.out, &error))?;
    Ok(WrittenKubeconfig {
        path: options.out.clone(),
        user: user.clone(),
        group: group.map(str::to_owned),
        expires: signed.ends,
    })
}

/// Connects to a control plane, and emits as a note what a kubeconfig changes. Creates no key and changes nothing.
///
/// # Errors
/// The file exists, the state directory has no kubeconfig of the cluster, or no control plane can be reached.
#[tracing::instrument(skip_all, fields(cluster = %options.cluster.display()))]
pub async fn dry_run(
    options: &KubeconfigOptions,
    events: &Events,
    stop: &Stop,
) -> Result<(), CommandError> {
    let prepared = prepare(options, events, stop).await?;
    events.note(plan(options, prepared.host.name()));
    events.note("dry run: nothing was touched");
    Ok(())
}

/// What is known before the first change.
struct Prepared<'a> {
    /// The API server in the administrator's kubeconfig.
    server: ApiServer,
    /// The name of the cluster in it.
    cluster: String,
    /// A control plane, which signs.
    host: Arc<dyn Host>,
    group: Option<&'a str>,
}

async fn prepare<'a>(
    options: &'a KubeconfigOptions,
    events: &Events,
    stop: &Stop,
) -> Result<Prepared<'a>, CommandError> {
    options.connection.check()?;
    check_file(&options.out)?;
    let cluster = kubexm_config::load_cluster(&options.cluster)?;
    notices::emit(&cluster.notices, events);
    let state = options.connection.state_directory(&cluster, events)?;
    let server = server_of(&state)?;
    let control_planes = only_control_planes(cluster);
    let connecting = options
        .connection
        .connect_reachable(&control_planes, &state, events);
    let (mut hosts, _) = unless_stopped(stop, connecting).await?;
    // Any control plane can sign; the order is that of the cluster file.
    let names = &control_planes.roles.control_plane;
    let host = names.iter().find_map(|name| hosts.remove(name));
    let kind = control_planes.kubernetes.kind;
    let group = options.group.as_ref();
    if let Some(warning) = group.and_then(|group| group.of_administrators(kind)) {
        events.warn(WarningKind::Rights, warning);
    }
    Ok(Prepared {
        server,
        cluster: control_planes.kubernetes.cluster_name,
        host: host.ok_or_else(|| no_control_plane(names))?,
        group: options.group.as_ref().map(|group| group.0.as_str()),
    })
}

/// Fails if the kubeconfig cannot be written, before the cluster signs a certificate whose key would be lost.
fn check_file(path: &Path) -> Result<(), CommandError> {
    if path.exists() {
        let error = FileError::new("write the kubeconfig", path, "the file exists");
        return Err(error.hint("remove it, or name another file with -o").into());
    }
    let probe = AtomicFile::create(path, 0o600);
    probe.map_err(|error| {
        FileError::io("write the kubeconfig", path, &error)
            .hint("name a file in a folder that exists and that you can write to with -o")
    })?;
    Ok(())
}

/// Returns the plan for people.
fn plan(options: &KubeconfigOptions, host: &HostName) -> String {
    let group = options.group.as_ref();
    let group = group.map_or_else(String::new, |group| format!(" of the group {}", group.0));
    format!(
        "kubeconfig of the user {}{group}, with a certificate that is valid for at most {}:\n  {host}\n    create a \
         CertificateSigningRequest in the cluster, approve it, and remove it after it is signed\n  this machine\n    create a \
         key, and write {}",
        options.user.0,
        shown(options.validity),
        options.out.display()
    )
}

/// Returns a duration as the command line reads it.
fn shown(validity: Duration) -> String {
    let seconds = validity.as_secs();
    let units = [(24 * 60 * 60, 'd'), (60 * 60, 'h'), (60, 'm')];
    let whole = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit));
    let (unit, letter) = whole.unwrap_or((1, 's'));
    format!("{}{letter}", seconds / unit)
}

fn only_control_planes(mut cluster: Cluster) -> Cluster {
    let control_planes = cluster.roles.control_plane.clone();
    cluster
        .hosts
        .retain(|host| control_planes.contains(&host.name));
    cluster
}

fn no_control_plane(names: &[HostName]) -> CommandError {
    let names: Vec<&str> = names.iter().map(HostName::as_str).collect();
    CommandError::host(format!(
        "no control plane can be reached: {}",
        names.join(", ")
    ))
}

/// Returns the API server in the administrator's kubeconfig.
fn server_of(state: &Path) -> Result<ApiServer, CommandError> {
    let path = state.join("admin.conf");
    let refused = |cause: String| {
        FileError::new("read the kubeconfig of the cluster", &path, &cause).hint(
            "run `kubexm install` with this cluster file, which writes it, or correct --state",
        )
    };
    let text = std::fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
    Ok(ApiServer::of_kubeconfig(&text).map_err(|error| refused(error.text))?)
}

/// Lets the cluster sign a request. Returns the certificate, PEM.
async fn sign(
    host: &dyn Host,
    request: &UserRequest,
    validity: Duration,
) -> Result<String, CommandError> {
    let digest = Digest::of(request.request.as_bytes()).hex();
    let name = format!("kubexm-user-{}", &digest[..16]);
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(&request.request),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": validity.as_secs(),
            "usages": ["client auth"],
        },
    });
    let what = "sign the certificate of a user";
    let signed = objects::sign(host, what, &name, &object).await;
    signed.map_err(|error| CommandError::step(Message::from(&error).within(host.name())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn file_that_cannot_be_written_is_refused_before_the_request() {
        let folder = tempfile::tempdir().unwrap();
        check_file(&folder.path().join("anna.conf")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        // Root can write to each folder, except for those of the kernel.
        for path in [
            folder.path().join("absent/anna.conf"),
            "/proc/anna.conf".into(),
        ] {
            let refused = check_file(&path).unwrap_err().to_string();
            let expected = format!("cannot write the kubeconfig {}: ", path.display());
            assert!(refused.starts_with(&expected), "{refused}");
            assert!(
                refused.contains("\nhint: name a file in a folder"),
                "{refused}"
            );
        }
    }

    #[test]
    fn plan_names_the_request_and_the_file() {
        let options = |validity| KubeconfigOptions {
            cluster: PathBuf::from("cluster.yaml"),
            connection: Connection::default(),
            user: SubjectName::parse("anna").unwrap(),
            group: SubjectName::parse("developers").ok(),
            validity: Duration::from_secs(validity),
            out: PathBuf::from("anna.conf"),
        };
        let text = |validity| plan(&options(validity), &"node1".parse().unwrap());
        insta::assert_snapshot!(text(30 * 24 * 3600), @r"
        kubeconfig of the user anna of the group developers, with a certificate that is valid for at most 30d:
          node1
            create a CertificateSigningRequest in the cluster, approve it, and remove it after it is signed
          this machine
            create a key, and write anna.conf
        ");
        assert!(text(8 * 3600).contains("at most 8h:"));
        assert!(text(630).contains("at most 630s:"));
    }

    #[test]
    fn state_without_a_usable_kubeconfig_is_refused_with_what_helps() {
        let state = tempfile::tempdir().unwrap();
        let refused = || server_of(state.path()).err().unwrap().to_string();
        let missing = refused();
        std::fs::write(state.path().join("admin.conf"), "users: []").unwrap();
        for refused in [missing, refused()] {
            assert!(
                refused.contains("\nhint: run `kubexm install`"),
                "{refused}"
            );
        }
    }
}
