//! What the next install makes of an application.

use kubexm_config::cluster::Application;
use kubexm_engine::Host;
use kubexm_engine::plan::StepError;
use kubexm_types::Message;
use serde_json::Value;

use super::chart::{Chart, ChartContent};
use super::hidden::Hidden;
use super::installed::compared;
use super::release::{Difference, Release};
use super::stored::StoredRelease;
use super::{content, values_of};
use crate::{DeployError, Inputs, Secrets};

/// How the next install changes a release.
pub enum PlannedChange {
    /// Not at all: the release has a newer chart than the bundle, which stays.
    Kept(Message),
    /// By another revision.
    Needed {
        reason: String,
        /// The revision with which Helm compares the objects.
        stored: Option<Box<StoredRelease>>,
    },
}

/// An application as the cluster file and the bundle have it.
pub struct PlannedApplication<'a> {
    pub application: &'a Application,
    pub chart: ChartContent,
    /// Values for the templates. They may have secrets.
    pub values: Value,
    /// The values without those of encrypted files and without `secretValues`.
    plain: Value,
    release: Release,
}

impl<'a> PlannedApplication<'a> {
    /// Returns what the bundle and the cluster file make of an application.
    ///
    /// # Errors
    /// The bundle does not have a part of it, or a file with values cannot be read.
    pub fn of(inputs: &Inputs<'_>, application: &'a Application) -> Result<Self, DeployError> {
        let parts = content(inputs.lock, application)?;
        let chart = Chart::of(inputs, application, &parts)?;
        let values = values_of(application, Secrets::Read)?;
        let plain = values_of(application, Secrets::LeftOut)?;
        Ok(Self {
            application,
            release: Release::new(application, &chart, (values.clone(), plain.clone())),
            chart: chart.content,
            plain,
            values,
        })
    }

    /// Returns how the next install changes the release; `None` if the release is as the cluster file says.
    ///
    /// # Errors
    /// The API server does not answer, or the revision cannot be read.
    pub async fn change(&self, host: &dyn Host) -> Result<Option<PlannedChange>, StepError> {
        let revisions = self.release.revisions(host).await?;
        let reason = match self.release.difference(host, &revisions).await? {
            None => return Ok(None),
            Some(Difference::Kept(message)) => return Ok(Some(PlannedChange::Kept(message))),
            Some(Difference::Needed(reason)) => reason,
        };
        let stored = match compared(&revisions) {
            Some(revision) => Some(Box::new(self.release.stored(host, revision).await?)),
            None => None,
        };
        Ok(Some(PlannedChange::Needed { reason, stored }))
    }

    /// Returns the values that are secret, and those that a revision has in their place.
    pub fn hidden(&self, stored: Option<&StoredRelease>) -> Hidden {
        Hidden::of(&self.values, &self.plain, stored)
    }
}
