//! How a release differs from the cluster file and the bundle.

use kubexm_engine::Host;
use kubexm_engine::plan::StepError;
use kubexm_types::Message;

use super::Release;
use crate::applications::chart::MANIFESTS;
use crate::applications::installed::{Revision, changed_by_helm, compared, newest};
use crate::applications::stored::has_values;
use crate::objects::Server;

/// What a message says of an application that stays, if its values in the cluster file are others.
pub(in crate::applications) const OTHER_VALUES: &str =
    "; changed values of the cluster file do not apply";

/// How a release differs from the cluster file and the bundle.
pub(in crate::applications) enum Difference {
    /// It has a newer chart, which stays.
    Kept(Message),
    /// Why an install is needed.
    Needed(String),
}

impl Release {
    /// Returns whether a revision has these values, and Secrets of these manifests.
    async fn has_same_secrets(
        &self,
        host: &dyn Host,
        revision: &Revision,
    ) -> Result<bool, StepError> {
        let stored = self.stored(host, revision).await?;
        let manifests = self.manifests.as_deref();
        Ok(has_values(&stored, &self.values)
            && manifests.is_none_or(|text| stored.has_file(MANIFESTS, text)))
    }

    /// Returns how the newest revision differs; `None` if it has this content.
    ///
    /// # Errors
    /// The API server does not answer, or the revision cannot be read.
    pub(in crate::applications) async fn difference(
        &self,
        host: &dyn Host,
        revisions: &[Revision],
    ) -> Result<Option<Difference>, StepError> {
        let needed = |reason: String| Ok(Some(Difference::Needed(reason)));
        let Some(newest) = newest(revisions) else {
            return needed(format!("the release {} does not exist", self.name));
        };
        if let Some(message) = self.kept(host, revisions).await? {
            return Ok(Some(Difference::Kept(message)));
        }
        if let Some(changed) = changed_by_helm(revisions) {
            return needed(format!(
                "the release {} was changed by helm since kubexm applied it, revision {}: kubexm applies the chart and the values of \
                 the cluster file again",
                self.name, changed.revision
            ));
        }
        let (name, revision) = (&self.name, &newest.revision);
        let is_other = newest.content.as_ref() != Some(&self.content)
            || self.has_secrets() && !self.has_same_secrets(host, newest).await?;
        if is_other {
            return needed(format!(
                "revision {revision} of {name} has another chart or other values"
            ));
        }
        if newest.status != "deployed" {
            return needed(format!(
                "revision {revision} of {name} is {}",
                newest.status
            ));
        }
        Ok(None)
    }

    /// Returns which version of the chart stays, if the cluster has a newer one than the bundle: an install with an older bundle
    /// does not undo an `app apply`. The text says whether values of the cluster file are not applied.
    ///
    /// # Errors
    /// The revision cannot be read.
    async fn kept(
        &self,
        host: &dyn Host,
        revisions: &[Revision],
    ) -> Result<Option<Message>, StepError> {
        let deployed = compared(revisions).filter(|one| one.status == "deployed");
        let (Some(deployed), Some(of_bundle)) = (deployed, &self.follows) else {
            return Ok(None);
        };
        let version = deployed.version_of(&self.chart_name, Server::of(host));
        let Some(version) = version.await? else {
            return Ok(None);
        };
        // The build part does not count.
        if version.semver().cmp_precedence(of_bundle.semver()).is_le() {
            return Ok(None);
        }
        let mut text = format!(
            "the application {} keeps version {version} of its chart: that of the bundle, {of_bundle}, is older",
            self.name
        );
        if !has_values(&self.stored(host, deployed).await?, &self.values) {
            text.push_str(OTHER_VALUES);
        }
        let hint = format!(
            "run kubexm app apply --bundle BUNDLE -f CLUSTER with a bundle that has {version}, or set `version: {of_bundle}` in \
             spec.applications to go back"
        );
        Ok(Some(Message::new(text).hint(hint)))
    }
}
