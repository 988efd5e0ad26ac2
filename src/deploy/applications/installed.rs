//! The releases of Helm that a cluster has.

use std::collections::BTreeMap;

use kubexm_config::cluster::Application;
use kubexm_engine::plan::StepError;
use kubexm_types::{Namespace, ReleaseName, Version};
use serde::Deserialize;

use super::secret_values::SecretValues;
use super::stored::stored;
use crate::kubernetes::system_pods::troubles;
use crate::objects::{Pod, Server};

/// Prints of each revision of a release what its labels say. The content of a Secret does not leave the host.
const REVISIONS: &str = r#"go-template={"items":[{{range $at, $one := .items}}{{if $at}},{{end}}{"secret":"{{.metadata.name}}","release":"{{.metadata.labels.name}}","namespace":"{{.metadata.namespace}}",{{with index .metadata.labels "kubexm.io/content"}}"content":"{{.}}",{{end}}{{with index .metadata.labels "kubexm.io/revision"}}"applied":"{{.}}",{{end}}{{with index .metadata.labels "kubexm.io/secrets"}}"secrets":"{{.}}",{{end}}{{with index .metadata.labels "kubexm.io/chart"}}"chart":"{{.}}",{{end}}{{with index .metadata.labels "kubexm.io/chart-version"}}"chartVersion":"{{.}}",{{end}}"revision":"{{.metadata.labels.version}}","status":"{{.metadata.labels.status}}"}{{end}}]}"#;
/// The most characters of the value of a label.
const LONGEST_LABEL: usize = 63;

/// A revision of a release, as the labels of its Secret describe it
/// (<https://helm.sh/docs/topics/advanced/#storage-backends>).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Revision {
    pub(super) secret: String,
    release: String,
    namespace: String,
    /// The digest of chart and values, if kubexm created the revision.
    #[serde(default)]
    pub(super) content: Option<String>,
    /// The number that kubexm gave to the revision. Helm hands labels on to the revisions that it creates without kubexm: then it is
    /// another one. `None` if an earlier version of kubexm created the revision.
    #[serde(default)]
    applied: Option<String>,
    /// Which of its values are secret.
    #[serde(default)]
    secrets: Option<String>,
    #[serde(default)]
    chart: Option<String>,
    #[serde(default)]
    chart_version: Option<String>,
    pub(super) revision: String,
    /// As in `deployed` or `pending-upgrade`.
    pub(super) status: String,
    /// Whether kubexm has not created the revision: see [`judged`].
    #[serde(skip)]
    is_of_helm: bool,
}

impl Revision {
    pub(super) fn number(&self) -> u64 {
        self.revision.parse().unwrap_or(0)
    }

    /// Returns the version of a chart; `None` if the revision has another chart, or a version that is not one of Helm.
    ///
    /// # Errors
    /// Helm created the revision, and it cannot be read.
    pub(super) async fn version_of(
        &self,
        chart: &str,
        server: Server<'_>,
    ) -> Result<Option<Version>, StepError> {
        let stored;
        let found = if self.is_of_helm {
            stored = stored_chart(server, self).await?;
            stored.as_ref().map(|(name, version)| (name, version))
        } else {
            self.chart.as_ref().zip(self.chart_version.as_ref())
        };
        let version = found.filter(|(name, _)| *name == chart);
        Ok(version.and_then(|(_, version)| Version::parse(&version.replace('_', "+")).ok()))
    }

    /// Returns whether kubexm has not created the revision.
    pub(super) fn is_of_helm(&self) -> bool {
        self.is_of_helm
    }

    /// Returns which of its values are secret. Helm can have given it any others.
    pub(super) fn secret_values(&self) -> SecretValues {
        let label = self.secrets.as_deref().filter(|_| !self.is_of_helm());
        SecretValues::parse(label)
    }

    /// Returns whether Helm works on the revision, or was killed meanwhile.
    pub(super) fn is_pending(&self) -> bool {
        is_pending(&self.status)
    }

    /// Returns whether Helm removes the release, or was killed meanwhile.
    pub(super) fn is_uninstalling(&self) -> bool {
        self.status == UNINSTALLING
    }
}

/// Returns the chart that Helm stores with a revision, and its version, with the characters of labels. The labels of a revision of
/// Helm are those of another one.
async fn stored_chart(
    server: Server<'_>,
    revision: &Revision,
) -> Result<Option<(String, String)>, StepError> {
    let stored = stored(server, &revision.namespace, revision).await?;
    let chart = stored.chart_and_version();
    Ok(chart.map(|(name, version)| (label(name), label(version))))
}

/// Sorts the revisions of one release by their number, and decides which ones kubexm has created. Helm hands labels on to its own
/// revisions: there, the number in the label is another one. A rollback to a revision of an earlier version of kubexm has no number
/// at all; then an earlier revision has one.
fn judged(mut revisions: Vec<Revision>) -> Vec<Revision> {
    revisions.sort_by_key(Revision::number);
    let mut have_numbers = false;
    for one in &mut revisions {
        one.is_of_helm = match (&one.content, &one.applied) {
            (None, _) => true,
            (Some(_), Some(number)) => *number != one.revision,
            (Some(_), None) => have_numbers,
        };
        have_numbers |= one.applied.is_some();
    }
    revisions
}

/// Returns the revision with whose objects Helm compares those of the next one: the newest that is deployed, otherwise the
/// newest that is not pending.
pub(super) fn compared(revisions: &[Revision]) -> Option<&Revision> {
    let ended = revisions.iter().filter(|one| !one.is_pending());
    ended.max_by_key(|one| (one.status == "deployed", one.number()))
}

/// Returns the newest revision.
pub(super) fn newest(revisions: &[Revision]) -> Option<&Revision> {
    revisions.iter().max_by_key(|one| one.number())
}

/// Returns the newest revision if kubexm has not created it, and has created an earlier one.
pub(super) fn changed_by_helm(revisions: &[Revision]) -> Option<&Revision> {
    let is_of_kubexm = revisions.iter().any(|one| one.content.is_some());
    newest(revisions).filter(|newest| is_of_kubexm && newest.is_of_helm())
}

/// Returns the revisions of a release.
///
/// # Errors
/// The API server does not answer.
pub(super) async fn revisions(
    server: Server<'_>,
    name: &ReleaseName,
    namespace: &Namespace,
) -> Result<Vec<Revision>, StepError> {
    let selector = format!("owner=helm,name={name}");
    let namespace = namespace.as_str();
    let words = ["secrets", "-n", namespace, "-l", &selector, "-o", REVISIONS];
    let what = format!("read the release {name}");
    let found = server.list::<Revision>(&what, &words).await?;
    Ok(judged(found))
}

/// The status of a release that Helm removes.
const UNINSTALLING: &str = "uninstalling";

fn is_pending(status: &str) -> bool {
    status.starts_with("pending-") || status == UNINSTALLING
}

/// A release of Helm in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstalledRelease {
    pub namespace: String,
    pub name: String,
    /// The number of its newest revision.
    pub revision: u64,
    /// The number of the revision with whose objects Helm compares those of the next one.
    pub compared: u64,
    /// The status of the newest revision, as in `deployed`.
    pub status: String,
    /// The chart of this revision; `None` for manifests, and if kubexm did not create it.
    pub chart: Option<String>,
    /// The version of this chart, in which `_` replaces characters that a label cannot have, as `+`.
    pub chart_version: Option<String>,
    /// Whether kubexm created a revision.
    pub is_of_kubexm: bool,
    /// Whether Helm created the newest revision without kubexm, and kubexm an earlier one.
    pub is_changed_by_helm: bool,
}

impl InstalledRelease {
    /// Returns whether it is that of an application.
    pub fn is_of(&self, application: &Application) -> bool {
        (self.namespace.as_str(), self.name.as_str())
            == (application.namespace.as_str(), application.name.as_str())
    }

    /// Returns whether it is that of one of these applications.
    pub fn is_of_any(&self, applications: &[Application]) -> bool {
        applications.iter().any(|one| self.is_of(one))
    }

    /// Returns whether it has objects. `helm uninstall --keep-history` leaves its revisions alone.
    pub fn is_installed(&self) -> bool {
        self.status != "uninstalled"
    }

    /// Returns whether Helm works on it, or was killed meanwhile.
    pub fn is_pending(&self) -> bool {
        is_pending(&self.status)
    }

    /// Returns whether Helm removes it, or was killed meanwhile.
    pub fn is_uninstalling(&self) -> bool {
        self.status == UNINSTALLING
    }
}

/// Returns the releases of Helm in a cluster, by namespace and name.
///
/// # Errors
/// The API server does not answer.
pub async fn releases(server: Server<'_>) -> Result<Vec<InstalledRelease>, StepError> {
    let words = ["secrets", "-A", "-l", "owner=helm", "-o", REVISIONS];
    let revisions = server.list::<Revision>("read the releases", &words).await?;
    let mut releases: BTreeMap<(String, String), Vec<Revision>> = BTreeMap::new();
    for one in revisions {
        let name = (one.namespace.clone(), one.release.clone());
        releases.entry(name).or_default().push(one);
    }
    let mut found = Vec::new();
    for ((namespace, name), revisions) in releases {
        let mut revisions = judged(revisions);
        let is_of_kubexm = revisions.iter().any(|one| one.content.is_some());
        let is_changed_by_helm = changed_by_helm(&revisions).is_some();
        let compared = compared(&revisions).map(Revision::number);
        let Some(mut newest) = revisions.pop() else {
            continue;
        };
        if is_changed_by_helm && newest.chart.is_some() {
            // A revision that kubexm cannot read does not hide the other releases.
            let chart = stored_chart(server, &newest).await.ok().flatten();
            (newest.chart, newest.chart_version) = chart.unzip();
        }
        found.push(InstalledRelease {
            namespace,
            name,
            revision: newest.number(),
            compared: compared.unwrap_or(newest.number()),
            status: newest.status,
            chart: newest.chart,
            chart_version: newest.chart_version,
            is_of_kubexm,
            is_changed_by_helm,
        });
    }
    Ok(found)
}

/// Returns a line for each pod of a namespace that is not ready, of at most five: where it is, and why. A pod that has ended does
/// not count.
///
/// # Errors
/// The API server does not answer, or the host was lost.
pub async fn unready_pods(server: Server<'_>, namespace: &str) -> Result<Vec<String>, StepError> {
    let words = ["pods", "-n", namespace];
    let mut pods = server
        .list::<Pod>("read the pods of applications", &words)
        .await?;
    pods.retain(|pod| !pod.is_ready() && !pod.has_ended());
    troubles(server.host(), &pods, str::to_owned).await
}

/// Returns the releases of kubexm that are none of these applications.
pub fn former<'a>(
    installed: &'a [InstalledRelease],
    applications: &'a [Application],
) -> impl Iterator<Item = &'a InstalledRelease> {
    let ours = installed.iter().filter(|one| one.is_of_kubexm);
    ours.filter(move |one| !one.is_of_any(applications))
}

/// Returns a text as the value of a label, with `_` for characters that it cannot have.
pub(super) fn label(text: &str) -> String {
    let is_permitted = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
    let permitted = text.chars().take(LONGEST_LABEL);
    let permitted: String = permitted
        .map(|one| if is_permitted(one) { one } else { '_' })
        .collect();
    let ends = |one: char| !one.is_ascii_alphanumeric();
    permitted.trim_matches(ends).to_owned()
}
