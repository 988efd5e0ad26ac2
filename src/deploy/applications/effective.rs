//! The values with which a chart is rendered: its own ones, and those of the cluster file.

use std::io::Read;

use serde_json::{Map, Value};

use super::values::{self, Secrets};
use crate::DeployError;
use kubexm_bundle::archive::each_member;
use kubexm_bundle::{Blobs, Lock};
use kubexm_config::cluster::Application;
use kubexm_render::RenderError;

/// The largest size of `values.yaml`, in bytes. Helm has the same limit.
const LARGEST: u64 = 5 * 1024 * 1024;
/// The largest size of an unpacked chart, in bytes. Helm has the same limit.
const LARGEST_CHART: u64 = 100 * 1024 * 1024;

/// The values of an application.
pub struct EffectiveValues {
    /// The chart, with its version.
    pub chart: String,
    /// `values.yaml` of the chart, with its comments.
    pub defaults: String,
    /// The values of the chart, with those of the cluster file. Secrets of other places are left out.
    pub values: Value,
}

/// Returns the values with which the chart of an application is rendered.
///
/// # Errors
/// The application consists of manifests, the bundle does not have the chart, or values cannot be read.
pub fn effective_values(
    lock: &Lock,
    blobs: &dyn Blobs,
    application: &Application,
) -> Result<EffectiveValues, DeployError> {
    let name = &application.name;
    if application.content.chart().is_none() {
        let missing = format!("a chart of the application {name}, which consists of manifests");
        return Err(DeployError::Incomplete(vec![missing]));
    }
    let parts = super::content(lock, application).map_err(DeployError::Incomplete)?;
    let Some(chart) = parts.first() else {
        return Err(DeployError::Incomplete(Vec::new()));
    };
    let failed = |error: &dyn std::fmt::Display| {
        RenderError::new("values of a chart", format!("{}: {error}", chart.name))
    };
    let archive = blobs.open_content(&chart.digest);
    let archive = archive.map_err(|error| failed(&error))?;
    let mut defaults = String::new();
    each_member(archive.take(LARGEST_CHART), |path, content| {
        if path.ends_with("/values.yaml") && path.matches('/').count() == 1 {
            defaults.clear();
            content.take(LARGEST).read_to_string(&mut defaults)?;
        }
        Ok(())
    })
    .map_err(|error| failed(&error))?;
    let own = serde_saphyr::from_str::<Option<Map<String, Value>>>(&defaults);
    let mut merged = own.map_err(|error| failed(&error))?.unwrap_or_default();
    let given = serde_json::from_str(&super::values_of(application, Secrets::LeftOut)?);
    values::merge(&mut merged, given.unwrap_or_default());
    without_nulls(&mut merged);
    Ok(EffectiveValues {
        chart: chart.describe(),
        defaults,
        values: Value::Object(merged),
    })
}

/// Removes the fields without a value: with a null, Helm removes the value of a chart.
fn without_nulls(values: &mut Map<String, Value>) {
    values.retain(|_, value| !value.is_null());
    for value in values.values_mut() {
        if let Value::Object(inner) = value {
            without_nulls(inner);
        }
    }
}
