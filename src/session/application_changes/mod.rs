//! Which objects of applications the next install creates, changes or removes.

mod compare;
mod hidden;
#[cfg(test)]
mod tests;

use std::fmt;

use kubexm_config::cluster::Application;
use kubexm_deploy::{
    ChartContent, Inputs, ManifestObject, PlannedApplication, PlannedChange, Resources,
    StoredRelease,
};
use kubexm_fetch::FetchError;
use kubexm_fetch::artifacts::{self, Helm, Rendered, Rendering};
use kubexm_host::Host;
use kubexm_sandbox::SandboxError;
use kubexm_types::Version;
use serde::Serialize;

pub use compare::{Change, ObjectChange};

use crate::CommandError;
use crate::program_settings::Programs;

/// What the next install makes of an application.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationChange {
    pub name: String,
    pub namespace: String,
    /// Why the install changes the release, as in `revision 2 of shop has another chart or other values`; `None` if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the objects are not compared; `None` if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
    /// The objects that differ: those of the chart in its order, and then those that it does not have any more.
    pub objects: Vec<ObjectChange>,
}

impl fmt::Display for ApplicationChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, namespace, ..
        } = self;
        let reason = self.reason.as_deref().unwrap_or("nothing to change");
        writeln!(f, "{name} in the namespace {namespace}: {reason}")?;
        match &self.not_compared {
            Some(why) => writeln!(f, "  its objects are not compared: {why}")?,
            None if self.reason.is_some() && self.objects.is_empty() => {
                writeln!(f, "  none of its objects changes")?;
            }
            None => {}
        }
        self.objects.iter().try_for_each(|object| object.fmt(f))
    }
}

/// Renders the charts of these applications by the helm of the bundle, in a sandbox of this machine, and compares their objects with
/// those of the releases in the cluster. Changes nothing.
///
/// # Errors
/// The bundle does not have a part of them, a file with values cannot be read, or the API server does not answer.
pub async fn changes(
    programs: &Programs<'_>,
    inputs: &Inputs<'_>,
    host: &dyn Host,
    applications: impl IntoIterator<Item = &Application>,
) -> Result<Vec<ApplicationChange>, CommandError> {
    let renderer = Renderer::new(programs, &inputs.cluster.kubernetes.version)?;
    let mut resources = None;
    let mut all = Vec::new();
    for application in applications {
        let mut change = ApplicationChange {
            name: application.name.to_string(),
            namespace: application.namespace.to_string(),
            reason: None,
            not_compared: None,
            objects: Vec::new(),
        };
        if let Some(parts) = kubexm_deploy::absent_parts(inputs, application) {
            let parts = parts.join(", ");
            change.not_compared = Some(format!(
                "the application stays as it is, because the bundle does not have it: {parts}"
            ));
            all.push(change);
            continue;
        }
        let planned = PlannedApplication::of(inputs, application)?;
        match planned.change(host).await? {
            None => {}
            Some(PlannedChange::Kept(message)) => change.not_compared = Some(message.text),
            Some(PlannedChange::Needed { reason, stored }) => {
                change.reason = Some(reason);
                let resources = match &mut resources {
                    Some(resources) => resources,
                    None => resources.insert(Resources::read(host).await?),
                };
                let rendered = renderer.objects(&planned, stored.is_some(), resources);
                let hidden = planned.hidden(stored.as_deref());
                match rendered.await? {
                    Ok(new) => match stored_objects(&planned, stored.as_deref(), resources) {
                        Ok(old) => change.objects = compare::compare(&old, &new, &hidden)?,
                        Err(error) => change.not_compared = Some(error.to_string()),
                    },
                    Err(why) => change.not_compared = Some(hidden.text(&why)),
                }
            }
        }
        all.push(change);
    }
    Ok(all)
}

fn stored_objects(
    planned: &PlannedApplication<'_>,
    stored: Option<&StoredRelease>,
    resources: &Resources,
) -> Result<Vec<ManifestObject>, kubexm_deploy::DeployError> {
    let manifest = stored.map_or("", |stored| stored.manifest.as_str());
    let namespace = planned.application.namespace.as_str();
    Ok(ManifestObject::parse(manifest, namespace, resources)?)
}

/// Renders applications by the helm of a bundle.
pub struct Renderer<'a> {
    programs: &'a Programs<'a>,
    /// `None` if the bundle has none for this machine.
    helm: Option<Helm>,
    kubernetes: &'a Version,
}

impl<'a> Renderer<'a> {
    /// Unpacks helm. Charts are rendered for a version of Kubernetes.
    ///
    /// # Errors
    /// The archive is damaged, or a temporary file cannot be written.
    pub fn new(programs: &'a Programs<'a>, kubernetes: &'a Version) -> Result<Self, CommandError> {
        Ok(Self {
            programs,
            helm: Helm::unpack(programs.blobs.as_ref(), &programs.lock.files)?,
            kubernetes,
        })
    }

    /// Returns the objects that an application has with its values, or why they cannot be rendered. `exists` says whether the
    /// cluster has a release of it.
    ///
    /// # Errors
    /// The bundle, or what helm has rendered, cannot be read.
    pub async fn objects(
        &self,
        planned: &PlannedApplication<'_>,
        exists: bool,
        resources: &Resources,
    ) -> Result<Result<Vec<ManifestObject>, String>, CommandError> {
        let Some(helm) = &self.helm else {
            return Ok(Err("the bundle has no helm for this machine".to_owned()));
        };
        let application = planned.application;
        let (name, namespace) = (application.name.as_str(), application.namespace.as_str());
        let api_versions = resources.api_versions();
        let rendering = Rendering {
            content: match &planned.chart {
                ChartContent::Packed(digest) => {
                    artifacts::ChartContent::Packed(self.programs.blobs.as_ref(), digest)
                }
                ChartContent::Files(files) => artifacts::ChartContent::Files(files),
            },
            title: name.to_owned(),
            helm: Some(helm),
            values: &[],
            own: Some(&planned.values.to_string()),
            kubernetes: Some(self.kubernetes),
            release: Some(artifacts::Release {
                name,
                namespace,
                exists,
                api_versions: &api_versions,
            }),
        };
        let rendered = match rendering.run(&self.programs.sandbox).await {
            Ok(Rendered::Text(text)) => text,
            // Helm can quote values.
            Ok(Rendered::No(reason)) => {
                let hidden = planned.hidden(None);
                return Ok(Err(hidden.text(&reason)));
            }
            Err(FetchError::Program {
                source: SandboxError::Unavailable(why),
                ..
            }) => return Ok(Err(format!("this machine cannot isolate programs: {why}"))),
            Err(error) => return Err(error.into()),
        };
        Ok(ManifestObject::parse(&rendered, namespace, resources)
            .map_err(|error| error.to_string()))
    }
}
