//! `app values`: the values with which a chart is installed, without a cluster.

use serde::Serialize;
use serde_json::Value;

use kubexm_config::Cluster;
use kubexm_config::cluster::Application;
use kubexm_deploy::{ApplicationParts, DeployError, Secrets};
use kubexm_fetch::artifacts::Chart;
use kubexm_session::{ClusterSource, CommandError};
use kubexm_types::ReleaseName;
use kubexm_types::event::Events;

/// Which values to show.
#[derive(Debug, Clone)]
pub struct ValuesOptions {
    /// The cluster file, and the bundle with the chart.
    pub source: ClusterSource,
    pub name: ReleaseName,
}

/// The values of an application.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationValues {
    /// The application.
    pub name: String,
    /// The chart in the bundle, with its version.
    pub chart: String,
    /// `values.yaml` of the chart, with its comments.
    pub defaults: String,
    /// The values of the chart, with those of the cluster file. `hidden` takes the place of each of `secretValues`; those of
    /// encrypted files are left out.
    pub values: Value,
}

impl ApplicationValues {
    /// Returns the values as YAML.
    ///
    /// # Errors
    /// They cannot be written as YAML.
    pub fn yaml(&self) -> Result<String, CommandError> {
        serde_saphyr::to_string(&self.values).map_err(CommandError::defect)
    }
}

/// Returns the application of a cluster file with a name.
///
/// # Errors
/// There is none.
pub(super) fn named<'a>(
    cluster: &'a Cluster,
    name: &ReleaseName,
) -> Result<&'a Application, CommandError> {
    let mut applications = cluster.applications.iter();
    if let Some(found) = applications.find(|one| one.name == *name) {
        return Ok(found);
    }
    let names: Vec<&str> = cluster
        .applications
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let text = format!("spec.applications of the cluster file has no {name}");
    Err(CommandError::configuration(text).hint(match names[..] {
        [] => "add the application to the cluster file".to_owned(),
        _ => format!("name one of {}", names.join(", ")),
    }))
}

/// Reads the chart of an application, and the values of the cluster file.
///
/// # Errors
/// The cluster file does not have the application, the bundle does not have its chart, or one of them cannot be read.
pub fn values(options: &ValuesOptions, events: &Events) -> Result<ApplicationValues, CommandError> {
    let (bundle, cluster) = options.source.read_at_any_version(events)?;
    let name = &options.name;
    let application = named(&cluster, name)?;
    let part = ApplicationParts::of(application, bundle.lock(), Secrets::LeftOut)?;
    let (Some(given), [artifact]) = (part.values, part.artifacts.as_slice()) else {
        let missing = format!("a chart of the application {name}, which consists of manifests");
        return Err(DeployError::Incomplete(vec![missing]).into());
    };
    let chart = Chart::open(bundle.as_ref(), &artifact.digest);
    let chart = chart.map_err(|reason| {
        let text = format!("{} {}", artifact.describe(), reason.text);
        CommandError::configuration(text).hint("build the bundle with another chart")
    })?;
    let defaults = chart.own_values().unwrap_or_default();
    Ok(ApplicationValues {
        name: name.to_string(),
        chart: artifact.describe(),
        defaults: defaults.to_owned(),
        values: kubexm_deploy::effective_values(defaults, given)?,
    })
}
