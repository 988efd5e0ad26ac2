//! Add-ons: values of kubexm with those of the user, and objects of the site.

use serde_json::{Map, Value, json};

use super::values::{HIDDEN, Secrets, merge, merged};
use crate::{DeployError, controller_file};
use kubexm_config::cluster::{Addon, ApplicationValues, SiteObjects};
use kubexm_render::RenderError;

/// The largest size of a file with a certificate or a key, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Returns the values of an add-on. They may have secrets.
///
/// # Errors
/// A file cannot be read, or its content is not a mapping.
pub(super) fn values(
    addon: Addon,
    values: &ApplicationValues,
    secrets: Secrets,
) -> Result<Map<String, Value>, DeployError> {
    let parsed = serde_saphyr::from_str::<Map<String, Value>>(addon.properties().values);
    let mut all = parsed.map_err(|error| RenderError::new("values of an add-on", error))?;
    merge(&mut all, merged(values, secrets)?);
    Ok(all)
}

/// Returns the values for the objects of the site. They may have secrets.
///
/// # Errors
/// A file cannot be read.
pub(super) fn site_values(objects: &SiteObjects, secrets: Secrets) -> Result<Value, DeployError> {
    Ok(match objects {
        SiteObjects::Addresses(addresses) => json!({"addresses": addresses}),
        SiteObjects::Issuer { certificate, key } => json!({
            "certificate": controller_file::read_at_most(certificate, LARGEST)?,
            "key": match secrets {
                Secrets::Read => controller_file::read_at_most(key, LARGEST)?,
                Secrets::LeftOut => HIDDEN.to_owned(),
            },
        }),
    })
}
