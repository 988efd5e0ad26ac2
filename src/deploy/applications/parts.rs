//! The charts and manifests of a bundle that an application consists of.

use kubexm_bundle::Lock;
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_config::cluster::{AddonContent, Application, ApplicationContent};
use kubexm_types::artifact::ArtifactKind;

use crate::DeployError;

/// Why a bundle has no content of an application.
pub(crate) enum Missing {
    /// Parts that it does not have.
    Parts(Vec<String>),
    /// It has several versions of the chart, and the application does not name one.
    Choice(String),
}

impl Missing {
    pub(super) fn texts(self) -> Vec<String> {
        match self {
            Self::Parts(parts) => parts,
            Self::Choice(choice) => vec![choice],
        }
    }
}

impl From<Missing> for DeployError {
    fn from(missing: Missing) -> Self {
        Self::Incomplete(missing.texts())
    }
}

/// Returns the artifacts of the bundle that an application consists of.
///
/// # Errors
/// What the bundle does not have.
pub(crate) fn content<'a>(
    lock: &'a Lock,
    application: &Application,
) -> Result<Vec<&'a LockedArtifact>, Missing> {
    let name = &application.name;
    match &application.content {
        ApplicationContent::Chart {
            name: chart,
            version,
            ..
        } => {
            let wanted = version
                .as_ref()
                .map_or(String::new(), |version| format!(" {version}"));
            let missing = format!("chart {chart}{wanted} of the application {name}");
            one_chart(lock, (chart, version.as_deref()), missing)
        }
        ApplicationContent::Addon { kind, version, .. } => {
            let missing = format!("add-on {}, a field of spec.addons", kind.name());
            match kind.properties().content {
                AddonContent::Chart(chart) => one_chart(lock, (chart, version.as_deref()), missing),
                AddonContent::Manifest { name, .. } => {
                    let found = of_kind(lock, ArtifactKind::Manifest).find(|one| one.name == name);
                    found
                        .map(|one| vec![one])
                        .ok_or_else(|| Missing::Parts(vec![missing]))
                }
            }
        }
        ApplicationContent::AddonObjects(_) => Ok(Vec::new()),
        ApplicationContent::Manifests(names) => {
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for wanted in names {
                match of_kind(lock, ArtifactKind::Manifest).find(|one| one.name == *wanted) {
                    Some(artifact) => found.push(artifact),
                    None => missing.push(format!("manifest {wanted} of the application {name}")),
                }
            }
            if missing.is_empty() {
                Ok(found)
            } else {
                Err(Missing::Parts(missing))
            }
        }
    }
}

/// Returns the artifacts of a kind in the bundle.
pub(super) fn of_kind(lock: &Lock, kind: ArtifactKind) -> impl Iterator<Item = &LockedArtifact> {
    let artifacts = lock.artifacts.iter();
    artifacts.filter(move |artifact| artifact.kind == kind)
}

/// Returns the only chart of the bundle with a name, and with a version if the application has one. `missing` names it in the error.
///
/// # Errors
/// The bundle does not have it, or has several.
fn one_chart<'a>(
    lock: &'a Lock,
    (chart, version): (&str, Option<&str>),
    missing: String,
) -> Result<Vec<&'a LockedArtifact>, Missing> {
    // Some projects write a `v` before the version of a chart, and manifests of bundles do not.
    let bare = |text: &str| text.trim_start_matches('v').to_owned();
    let found: Vec<_> = of_kind(lock, ArtifactKind::Chart)
        .filter(|artifact| artifact.name == chart)
        .filter(|artifact| {
            version.is_none() || artifact.version.as_deref().map(bare) == version.map(bare)
        })
        .collect();
    match found[..] {
        [one] => Ok(vec![one]),
        [] => Err(Missing::Parts(vec![missing])),
        _ => {
            let versions = found.iter().filter_map(|one| one.version.as_deref());
            let versions = versions.collect::<Vec<_>>().join(", ");
            Err(Missing::Choice(format!(
                "one {missing}: it has {versions}, and the application does not name one"
            )))
        }
    }
}
