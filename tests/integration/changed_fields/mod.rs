//! A change of each field of the cluster schema on an installed cluster. It is applied, refused or reported, and never
//! ignored.
//!
//! `table.yaml` has a change for each field. A plan for the unchanged cluster is installed on simulated hosts. The plan for
//! the changed cluster is then compared with them, as `install --dry-run` compares it with hosts.

mod facts;
pub mod fields;
mod generated;
mod installed;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use kubexm_bundle::lock::ChecksumSource;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::{Cluster, parse_cluster};
use kubexm_deploy::Inputs;
use kubexm_engine::plan::Plan;
use kubexm_pki::{Ca, CertificateStore};
use kubexm_preflight::{Finding, Offer};
use kubexm_types::artifact::ArtifactKind;
use kubexm_types::{Arch, Digest, HostName, Version};
use serde_json::Value;

use crate::combinations::everything;
use crate::example::InMemory;
use installed::{Compared, FORMER, Found, Installed, STORED};
use table::Row;

/// The parts of Calico's and Cilium's manifests that kubexm changes.
const CALICO: &str = r#"
kind: ConfigMap
apiVersion: v1
metadata: {name: calico-config, namespace: kube-system}
data: {calico_backend: "bird", veth_mtu: "0"}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: calico-node, namespace: kube-system}
spec:
  template:
    spec:
      containers: [{name: calico-node, image: "quay.io/calico/node:v3.31.2", env: []}]
"#;
const CILIUM: &str = r#"
kind: ConfigMap
apiVersion: v1
metadata: {name: cilium-config, namespace: kube-system}
data: {routing-mode: "tunnel"}
---
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: cilium, namespace: kube-system}
spec:
  template:
    spec:
      containers: [{name: cilium-agent, image: "quay.io/cilium/cilium:v1.19.0"}]
"#;

/// Files that programs read only when they create a node.
const READ_AT_CREATION: [&str; 2] = ["/etc/kubexm/kubeadm-init.yaml", "/etc/kubexm/static-pods/"];

/// Files that their programs read again without a restart, or that no program of the cluster reads, with the reason.
const READ_ANEW: &[(&str, &str)] = &[
    (
        "/usr/local/lib/kubexm/",
        "programs that start for each call",
    ),
    ("/usr/local/bin/etcdctl", "starts for each call"),
    ("/usr/local/bin/etcdutl", "starts for each call"),
    (
        "/etc/kubernetes/kubexm/admission.yaml",
        "the API server restarts when its flag names the file; no field changes the content",
    ),
    ("/etc/crictl.yaml", "crictl reads it for each call"),
    (
        "/etc/kubernetes/manifests/",
        "the kubelet watches static pods",
    ),
    (
        "/etc/kubexm/patches/",
        "kubeadm reads them when an install compares static pods",
    ),
    (
        "/etc/containerd/certs.d/",
        "containerd reads them for each pull",
    ),
    (
        "/etc/kubexm/registry-ca.crt",
        "runtimes read it for each pull",
    ),
    (
        "/etc/kubexm/etcd/client.",
        "the API server reads them for each connection",
    ),
    (
        "/etc/kubexm/registries/",
        "runtimes read them for each pull",
    ),
    (
        "/etc/kubexm/etcd-member/",
        "etcd reads certificates for each connection",
    ),
    ("/etc/kubernetes/admin.conf", "administrators use it"),
    ("/etc/kubexm/access.yaml", "an install applies it"),
    (
        "/etc/modules-load.d/",
        "a step of its own loads the modules",
    ),
    ("/etc/sysctl.d/", "a step of its own sets the values"),
    ("/etc/site/", "the file of the user in the table"),
    (
        "/var/lib/kubexm/applications/",
        "the content of a release has the digest of its chart",
    ),
    (
        "/etc/kubernetes/kubexm/encryption.yaml",
        "the API server watches it",
    ),
];

/// What an install does with a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The hosts get it.
    Applied,
    /// Preflight refuses it.
    Refused,
    /// The install reports that hosts keep what they have.
    Reported,
    /// Nodes and certificates that are created later get it.
    Later,
    /// Only kubexm reads the field.
    Controller,
    /// The field states how kubexm reaches hosts.
    Connection,
    /// Hosts keep what they have, for a reason that the table states.
    Kept,
    /// Nothing happens, and nothing says so.
    Ignored,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Reported => "reported",
            Self::Later => "later",
            Self::Controller => "controller",
            Self::Connection => "connection",
            Self::Kept => "kept",
            Self::Ignored => "ignored",
        })
    }
}

/// A bundle with everything that the clusters of the table need.
struct Site {
    lock: Lock,
    blobs: Arc<dyn Blobs>,
    /// The state directory. Its certificates are those of the latest plan.
    state: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let mut lock = everything::lock(&[Version::new(1, 36, 3), Version::new(1, 36, 4)]);
        let mut blobs = InMemory::default();
        for file in lock.files.iter().filter(|file| file.component == "calico") {
            blobs.0.insert(file.digest, CALICO.as_bytes().to_vec());
        }
        for (kind, name, version, content) in [
            (ArtifactKind::Manifest, "cilium.yaml", None, CILIUM),
            (ArtifactKind::Manifest, "one.yaml", None, CALICO),
            (ArtifactKind::Chart, "one", Some("1.0.0"), "one"),
            (ArtifactKind::Chart, "two", Some("1.0.0"), "two"),
            (ArtifactKind::Chart, "two", Some("2.0.0"), "three"),
            (ArtifactKind::Chart, "traefik", Some("1.0.0"), "four"),
            (ArtifactKind::Chart, "metallb", Some("1.0.0"), "five"),
            (ArtifactKind::Chart, "cert-manager", Some("1.0.0"), "six"),
        ] {
            lock.artifacts.push(LockedArtifact {
                kind,
                name: name.to_owned(),
                version: version.map(str::to_owned),
                url: None,
                size: content.len() as u64,
                digest: Digest::of(content.as_bytes()),
                checksum: ChecksumSource::Pinned,
                images: Vec::new(),
            });
            blobs.add(content.as_bytes());
        }
        Self {
            lock,
            blobs: Arc::new(blobs),
            state: tempfile::tempdir().unwrap(),
        }
    }

    /// Plans for a cluster whose hosts were installed as `before`.
    fn plan(&self, cluster: &Cluster, before: &Cluster) -> Result<Plan, String> {
        let mut inputs = Inputs::assumed(cluster, &self.lock, Arc::clone(&self.blobs));
        inputs.hosts = by_place(cluster, facts::of_plan(before), before);
        let state = self.state.path();
        inputs.certificates = kubexm_session::certificates_of(cluster, state, None)
            .map_err(|error| error.to_string())?;
        let planned = kubexm_deploy::plan(&inputs);
        Ok(planned.map_err(|error| error.to_string())?.plan)
    }
}

/// Returns the facts of the machines under the names that they have in another cluster file.
fn by_place<T: Clone>(
    cluster: &Cluster,
    facts: BTreeMap<HostName, T>,
    before: &Cluster,
) -> BTreeMap<HostName, T> {
    let hosts = cluster.hosts.iter().zip(&before.hosts);
    let named = hosts.map(|(now, then)| (now.name.clone(), facts[&then.name].clone()));
    named.collect()
}

/// Returns the findings of preflight about a cluster file, on hosts that were installed as `before`.
fn findings(cluster: &Cluster, before: &Cluster) -> BTreeSet<Finding> {
    let facts = by_place(cluster, facts::of_preflight(before), before);
    let offer = Offer {
        carried: [(Arch::Amd64, Default::default())].into(),
        ..Offer::default()
    };
    let mut found: BTreeSet<Finding> = kubexm_preflight::check(cluster, &facts, &offer)
        .into_iter()
        .collect();
    found.extend(kubexm_session::findings_of_existing(cluster, &facts));
    found
}

/// What a change does.
#[derive(Default)]
struct Evidence {
    outcomes: BTreeSet<Outcome>,
    /// Changed files that no program reads again.
    unread: Vec<String>,
    /// Files of the former install that stay, and that no message names.
    silent: Vec<String>,
    /// Steps that a second install of the same cluster file runs again.
    unstable: Vec<String>,
    /// Everything that differs, for the message of a failed test.
    details: Vec<String>,
}

/// Installs a cluster, and looks at what the next install of another one does.
async fn changed(
    site: &Site,
    row: &Row,
    before: &Cluster,
    after: &Cluster,
) -> Result<Evidence, String> {
    let mut evidence = Evidence::default();
    let usual = findings(before, before);
    for finding in findings(after, before).difference(&usual) {
        evidence.details.push(finding.to_string());
        if row.is_named_in(&finding.to_string()) {
            evidence.outcomes.insert(if finding.fatal {
                Outcome::Refused
            } else {
                Outcome::Reported
            });
        }
    }
    if before.name != after.name {
        // A state directory belongs to one name, and `KnownCluster::read` refuses another one.
        evidence.outcomes.insert(Outcome::Refused);
    }
    if evidence.outcomes.contains(&Outcome::Refused) {
        return Ok(evidence);
    }
    let installed = site.plan(before, before)?;
    let mut hosts = Installed::by(&installed).await;
    let same = hosts.compare(&site.plan(before, before)?).await;
    let usual: BTreeSet<String> = same
        .differences
        .iter()
        .map(|one| one.step.clone())
        .collect();
    let unexpected = usual.iter().filter(|step| *step != "registry images");
    evidence.unstable.extend(unexpected.cloned());
    let compared = hosts.compare(&site.plan(after, before)?).await;
    judge(row, before, &compared, &mut evidence);
    for (host, files) in &compared.former {
        let reports = compared.differences.iter().filter(|one| one.host == *host);
        let texts: Vec<&str> = reports
            .filter_map(|one| match &one.found {
                Found::Reported(text) => text.strip_prefix(FORMER),
                Found::Needed(_) => None,
            })
            .collect();
        let is_reported = |path: &&String| texts.iter().any(|text| text.contains(path.as_str()));
        let silent = files.iter().filter(|path| !is_reported(path));
        evidence
            .silent
            .extend(silent.map(|path| format!("{host}: {path}")));
    }
    Ok(evidence)
}

fn judge(row: &Row, before: &Cluster, compared: &Compared, evidence: &mut Evidence) {
    for difference in &compared.differences {
        if difference.step == "registry images" {
            continue;
        }
        let place = format!("{}: {}", difference.host, difference.step);
        match &difference.found {
            Found::Reported(text) => {
                evidence.details.push(format!("{place}: {text}"));
                if row.is_named_in(text) || text.starts_with(FORMER) {
                    evidence.outcomes.insert(Outcome::Reported);
                }
            }
            Found::Needed(text) if text.contains(STORED) => {
                evidence.outcomes.insert(Outcome::Later);
            }
            Found::Needed(_) => {
                let created =
                    |path: &String| READ_AT_CREATION.iter().any(|at| path.starts_with(at));
                if difference.files.iter().any(created) {
                    evidence.outcomes.insert(Outcome::Later);
                    continue;
                }
                let read = compared.read.get(&difference.host);
                let is_unread = |path: &&String| {
                    READ_ANEW
                        .iter()
                        .all(|(prefix, _)| !path.starts_with(prefix))
                        && read.is_none_or(|read| !read.contains(*path))
                };
                // Programs of a new node start after their files exist.
                let is_node = before.is_node(&difference.host);
                let files = difference.files.iter().filter(|_| is_node);
                let unread = files.filter(is_unread);
                let known = evidence.unread.len();
                evidence.unread.extend(unread.cloned());
                if evidence.unread.len() == known {
                    evidence.outcomes.insert(Outcome::Applied);
                }
                evidence.details.push(place);
            }
        }
    }
    if evidence.outcomes.contains(&Outcome::Reported) {
        evidence.unread.clear();
    }
}

/// Reduces what was found to what a user sees.
fn outcome(row: &Row, mut evidence: Evidence, is_taken_back: bool) -> Vec<Outcome> {
    let found = &mut evidence.outcomes;
    let visible = [Outcome::Applied, Outcome::Refused, Outcome::Reported];
    if found.iter().any(|one| visible.contains(one)) {
        found.remove(&Outcome::Later);
        return found.iter().cloned().collect();
    }
    let reasons = [
        (&row.connection, Outcome::Connection, found.is_empty()),
        (&row.controller, Outcome::Controller, found.is_empty()),
        (&row.later, Outcome::Later, true),
        (&row.kept, Outcome::Kept, is_taken_back),
    ];
    let mut reasons = reasons.into_iter();
    let stated = reasons.find(|(reason, _, fits)| reason.is_some() && *fits);
    vec![stated.map_or(Outcome::Ignored, |(_, outcome, _)| outcome)]
}

/// Returns the results of one row with one type of deployment, there and back.
async fn run(site: &Site, row: &Row, kind: &str, folder: &Path) -> (String, Vec<String>) {
    let cluster = |is_changed| {
        let text = row.document(kind, folder, is_changed);
        let parsed = parse_cluster("cluster.yaml", &text);
        parsed.map_err(|problems| format!("{} with {kind}: {problems}", row.field))
    };
    let (before, after) = match (cluster(false), cluster(true)) {
        (Ok(before), Ok(after)) => (before, after),
        (before, after) => {
            let problems = [before.err(), after.err()].into_iter().flatten();
            return (String::new(), problems.collect());
        }
    };
    let mut problems = Vec::new();
    let mut cells = Vec::new();
    for (from, to, is_taken_back) in [(&before, &after, false), (&after, &before, true)] {
        let evidence = match changed(site, row, from, to).await {
            Ok(evidence) => evidence,
            Err(error) => {
                problems.push(format!("{} with {kind}: {error}", row.field));
                continue;
            }
        };
        let way = if is_taken_back {
            "taken back"
        } else {
            "changed"
        };
        let place = format!("{} with {kind}, {way}", row.field);
        for path in &evidence.unread {
            problems.push(format!("{place}: nothing reads {path} again"));
        }
        for step in &evidence.unstable {
            problems.push(format!("{place}: a second install runs '{step}' again"));
        }
        for path in &evidence.silent {
            problems.push(format!("{place}: nothing reports {path}, which stays"));
        }
        let details = evidence.details.join("\n    ");
        let outcomes = outcome(row, evidence, is_taken_back);
        if outcomes.contains(&Outcome::Ignored) {
            problems.push(format!("{place}: ignored\n    {details}"));
        }
        let words: Vec<String> = outcomes.iter().map(ToString::to_string).collect();
        cells.push(words.join(", "));
    }
    let text = match &cells[..] {
        [one, other] if one == other => one.clone(),
        [one, other] => format!("{one}; taken back: {other}"),
        _ => String::new(),
    };
    (text, problems)
}

/// Each field of the schema has at least one row, and each row a field.
#[test]
fn every_field_of_the_schema_has_a_change() {
    let schema: Value = serde_json::from_str(&kubexm_config::schema::cluster()).unwrap();
    let fields = fields::of(&schema);
    let rows = table::rows();
    let changed: BTreeSet<String> = rows.iter().map(|row| row.field.clone()).collect();
    let missing: Vec<&String> = fields.difference(&changed).collect();
    assert!(
        missing.is_empty(),
        "changed_fields/table.yaml has no change of these fields: {missing:#?}"
    );
    let unknown: Vec<&String> = changed.difference(&fields).collect();
    assert!(unknown.is_empty(), "the schema does not have {unknown:#?}");
}

#[tokio::test]
async fn change_of_every_field_is_applied_refused_or_reported() {
    let sites = [Site::new(), Site::new()];
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        std::fs::write(path.with_extension("yaml"), format!("a: {name}")).unwrap();
        // kubexm refuses a password that other users can read.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }
    let store = CertificateStore::new(folder.path());
    for name in ["ca-one", "ca-two"] {
        Ca::load_or_create(&store, name).unwrap();
    }
    let mut problems = Vec::new();
    let mut lines = Vec::new();
    for row in table::rows() {
        let mut cells = Vec::new();
        for (kind, site) in ["kubeadm", "systemd"].into_iter().zip(&sites) {
            if row.only.as_deref().is_some_and(|only| only != kind) {
                cells.push("–".to_owned());
                continue;
            }
            let (text, found) = run(site, &row, kind, folder.path()).await;
            problems.extend(found);
            cells.push(text);
        }
        lines.push(table::Line {
            field: row.field.clone(),
            cells,
            reason: row.reason().map(str::to_owned),
        });
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    table::compare_page(&lines);
}
