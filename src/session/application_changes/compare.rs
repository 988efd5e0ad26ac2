//! Compares the objects of two revisions of a release.

use std::fmt;

use kubexm_deploy::{Hidden, ManifestObject};
use kubexm_engine::steps::unified_and_redacted;
use serde::Serialize;
use serde_json::Value;

use super::hidden::hide;
use crate::CommandError;

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Created,
    Changed,
    Removed,
}

/// An object that the next install creates, changes or removes.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    pub change: Change,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The difference of a changed object in the format of `diff -u`, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl ObjectChange {
    fn new(change: Change, object: &ManifestObject) -> Self {
        Self {
            change,
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            diff: None,
        }
    }
}

impl fmt::Display for ObjectChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, .. } = self;
        let sign = match self.change {
            Change::Created => '+',
            Change::Changed => '~',
            Change::Removed => '-',
        };
        match &self.namespace {
            Some(namespace) => writeln!(f, "  {sign} {kind} {namespace}/{name}")?,
            None => writeln!(f, "  {sign} {kind} {name}")?,
        }
        let mut lines = self.diff.iter().flat_map(|diff| diff.lines());
        lines.try_for_each(|line| writeln!(f, "      {line}"))
    }
}

/// Returns the objects that differ.
///
/// # Errors
/// An object cannot be written as YAML.
pub(super) fn compare(
    old: &[ManifestObject],
    new: &[ManifestObject],
    hidden: &Hidden,
) -> Result<Vec<ObjectChange>, CommandError> {
    let hidden = &hidden.with_secrets(old.iter().chain(new));
    let mut all = Vec::new();
    for object in new {
        match old.iter().find(|former| former.is(object)) {
            None => all.push(ObjectChange::new(Change::Created, object)),
            Some(former) if former.value == object.value => {}
            Some(former) => all.push(ObjectChange {
                diff: Some(difference(&former.value, &object.value, hidden)?),
                ..ObjectChange::new(Change::Changed, object)
            }),
        }
    }
    let is_gone = |former: &&ManifestObject| !new.iter().any(|object| former.is(object));
    let removed = old.iter().filter(is_gone).filter(|one| !one.is_kept());
    all.extend(removed.map(|object| ObjectChange::new(Change::Removed, object)));
    Ok(all)
}

fn difference(old: &Value, new: &Value, hidden: &Hidden) -> Result<String, CommandError> {
    let yaml = |object: &Value, former: Option<&Value>| {
        let mut shown = object.clone();
        hide(hidden, &mut shown, former);
        // Another order of fields is not a difference.
        shown.sort_all_objects();
        serde_saphyr::to_string(&shown).map_err(CommandError::defect)
    };
    Ok(unified_and_redacted(
        &yaml(old, None)?,
        &yaml(new, Some(old))?,
    ))
}
