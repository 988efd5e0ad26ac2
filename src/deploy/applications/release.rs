//! A release of Helm.

mod difference;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kubexm_config::cluster::{Application, ApplicationContent};
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_engine::steps::RunScript;
use kubexm_engine::{Host, Limit};
use kubexm_scripts::applications;
use kubexm_types::{Digest, Message, Namespace, ReleaseName, Version, WarningKind};
use serde_json::Value;

use super::chart::{Chart, ChartContent, FOLDER};
use super::failure::Failure;
use super::hidden::Hidden;
use super::installed::{Revision, changed_by_helm, compared, label, newest, revisions};
use super::object::ManifestObject;
use super::resources::Resources;
use super::secret_values::SecretValues;
use super::stored::{StoredRelease, stored};
use crate::objects::{Server, checked};
pub(super) use difference::{Difference, OTHER_VALUES};

/// How long definitions of custom resources and the start of Helm may take, besides the time limit of an application.
const BESIDES: Duration = Duration::from_secs(120);
/// How long Helm may take to remove a release.
const REMOVAL: Duration = Duration::from_secs(600);
/// The number of hexadecimal digits of the label with the digest of a content: a label has at most 63 characters.
const DIGITS: usize = 32;

/// Installs an application as a release, or upgrades the release if chart or values have changed.
pub(super) struct Release {
    name: ReleaseName,
    namespace: Namespace,
    chart: String,
    /// The files of a chart that kubexm writes, relative to its directory.
    files: String,
    /// The name of the chart as a label; empty for manifests.
    chart_name: String,
    /// The version of the chart, if the application names none: it follows the newest bundle.
    follows: Option<Version>,
    /// The manifests with Secrets, as Helm stores them.
    manifests: Option<String>,
    /// What these Secrets contain.
    secrets: Value,
    /// The digest of chart and values without secrets.
    pub(super) content: String,
    /// Labels of all its revisions, as Helm reads them.
    labels: String,
    /// Values for the templates. They may have secrets.
    values: Value,
    /// The values without those that are secret.
    plain: Value,
    /// Whether objects that exist become part of the release.
    adopts: bool,
    waits: bool,
    timeout: Duration,
}

/// Returns a step that removes a release, and its chart on the host, unless another application of this name has it. Definitions of
/// custom resources stay.
pub fn removal(name: &ReleaseName, namespace: &str, keeps_chart: bool) -> RunScript {
    let arguments = applications::Release {
        name: name.to_string(),
        namespace: namespace.to_owned(),
        chart: if keeps_chart {
            String::new()
        } else {
            format!("{FOLDER}/{name}")
        },
        seconds: REMOVAL.as_secs().to_string(),
        ..Default::default()
    };
    let title = format!("Remove the application {name} from the namespace {namespace}");
    // The caller knows that the release exists.
    RunScript::new(
        &format!("remove {name}"),
        title,
        "false",
        applications::RELEASE.verb("remove"),
    )
    .arguments(arguments)
    .limit(Limit::new(
        REMOVAL.saturating_add(BESIDES),
        "an application",
    ))
}

impl Release {
    /// Creates a step with the values of an application, and these without those that are secret.
    pub(super) fn new(
        application: &Application,
        chart: &Chart,
        (values, plain): (Value, Value),
    ) -> Self {
        // Arguments and labels have no digest of a secret, by which it could be guessed.
        let content = Digest::of(format!("{}\n{plain}", chart.digest).as_bytes());
        let content: String = content.hex().chars().take(DIGITS).collect();
        // Helm keeps the labels of the last revision: those of manifests are empty.
        let chart_name = label(application.content.chart().unwrap_or_default());
        let of_bundle = chart.version.as_deref();
        let version = label(of_bundle.unwrap_or_default());
        let names_version = matches!(
            &application.content,
            ApplicationContent::Chart {
                version: Some(_),
                ..
            } | ApplicationContent::Addon {
                version: Some(_),
                ..
            }
        );
        let follows = of_bundle.filter(|_| !names_version);
        let secrets = chart.secrets.as_ref();
        Self {
            labels: format!(
                "kubexm.io/content={content},kubexm.io/chart={chart_name},kubexm.io/chart-version={version}"
            ),
            name: application.name.clone(),
            namespace: application.namespace.clone(),
            chart: chart.path.to_string(),
            files: match &chart.content {
                ChartContent::Packed(_) => String::new(),
                ChartContent::Files(files) => {
                    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
                    names.join(" ")
                }
            },
            chart_name,
            follows: follows.and_then(|version| Version::parse(version).ok()),
            content,
            values,
            plain,
            manifests: secrets.map(|secrets| secrets.manifests.clone()),
            secrets: secrets.map_or(Value::Null, |secrets| secrets.content.clone()),
            // Helm creates the namespace before manifests do.
            adopts: application.content.chart().is_none(),
            waits: application.waits,
            timeout: application.timeout,
        }
    }

    /// Returns the revisions that the cluster has.
    pub(super) async fn revisions(&self, host: &dyn Host) -> Result<Vec<Revision>, StepError> {
        revisions(Server::of(host), &self.name, &self.namespace).await
    }

    fn has_secrets(&self) -> bool {
        self.values != self.plain || self.manifests.is_some()
    }

    /// Returns what Helm stores of a revision.
    pub(super) async fn stored(
        &self,
        host: &dyn Host,
        revision: &Revision,
    ) -> Result<StoredRelease, StepError> {
        stored(Server::of(host), self.namespace.as_str(), revision).await
    }

    /// Returns the labels of the revision after that with the number `last`: also its number, because Helm hands them on.
    fn labels(&self, last: u64) -> String {
        format!(
            "{},kubexm.io/revision={},kubexm.io/secrets={}",
            self.labels,
            last + 1,
            SecretValues::of(&self.values, &self.plain).label()
        )
    }

    /// Returns the Secret of a revision that a killed run of kubexm has left.
    ///
    /// # Errors
    /// Another program works on the release.
    fn left(&self, newest: Option<&Revision>) -> Result<String, StepError> {
        match newest.filter(|newest| newest.is_pending()) {
            None => Ok(String::new()),
            Some(ours) if !ours.is_of_helm() && !ours.is_uninstalling() => Ok(ours.secret.clone()),
            Some(other) => {
                let Self {
                    name, namespace, ..
                } = self;
                let message = format!(
                    "cannot change the release {name}: another program works on it, or was killed: revision {} is {}",
                    other.revision, other.status
                );
                // `kubexm app remove` refuses an application of the cluster file.
                let verb = if other.is_uninstalling() {
                    "uninstall"
                } else {
                    "rollback"
                };
                let hint = format!(
                    "wait until it ends, or run `helm {verb} {name} -n {namespace}`; then run the same command again"
                );
                Err(StepError::Other(Message::new(message).hint(hint)))
            }
        }
    }

    /// Ends a Helm of a run that was killed: it would still create a revision.
    async fn end(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let arguments = applications::Release {
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            ..Default::default()
        };
        let title = format!("End a helm that a killed run left with {}", self.name);
        let script = applications::RELEASE.verb("end");
        let run = RunScript::new(&format!("end {}", self.name), title, script, script);
        Ensure::apply(&run.arguments(arguments), context).await
    }

    /// Warns that kubexm undoes what helm has changed.
    fn warn_of_helm(&self, revisions: &[Revision], context: &StepContext<'_>) {
        let Some(changed) = changed_by_helm(revisions) else {
            return;
        };
        let text = format!(
            "helm created revision {} of the release {}: kubexm applies the chart and the values of the cluster file again",
            changed.revision, self.name
        );
        let hint =
            "to keep a change, write it into the cluster file; `helm history` shows the revisions";
        let message = Message::new(text).hint(hint).within(context.host.name());
        context.events.warn(WarningKind::HelmChanges, message);
    }

    /// Returns what messages hide: secret values, and Secrets of the manifests and of the former revision.
    fn hidden(&self, former: Option<&StoredRelease>) -> Hidden {
        let hidden = Hidden::of(&self.values, &self.plain, former).and(&self.secrets);
        let manifest = former.map_or("", |former| former.manifest.as_str());
        let namespace = self.namespace.as_str();
        let objects = ManifestObject::parse(manifest, namespace, &Resources::default());
        hidden.with_secrets(objects.unwrap_or_default().iter())
    }

    /// Adds to the error of Helm which objects do not become ready, and why. `before` is the number of the last revision before.
    async fn explained(
        &self,
        host: &dyn Host,
        error: StepError,
        (hidden, before): (&Hidden, u64),
    ) -> StepError {
        if !matches!(error, StepError::Command { .. }) {
            return error;
        }
        let failure = Failure {
            name: &self.name,
            namespace: &self.namespace,
            timeout: self.timeout,
            before,
            hidden,
        };
        let found = failure.reasons(host).await;
        if found.is_empty() {
            return error;
        }
        let message = Message::from(&error);
        let text = format!("{}\n{}", message.text, found.join("\n"));
        let hint = format!(
            "correct the application, and run the same command again; `helm history {} -n {}` shows its revisions",
            self.name, self.namespace
        );
        StepError::Other(Message::quoting(text).hint(hint))
    }
}

impl Describe for Release {
    fn id(&self) -> String {
        format!("release {}", self.name)
    }

    fn describe(&self) -> String {
        format!(
            "Install the application {} in the namespace {}",
            self.name, self.namespace
        )
    }
}

impl From<Release> for Step {
    fn from(step: Release) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for Release {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let difference = async {
            let revisions = self.revisions(host).await?;
            self.difference(host, &revisions).await
        };
        checked(difference.await.map(|difference| match difference {
            None => Check::Satisfied,
            Some(Difference::Kept(message)) => Check::Reported(message),
            Some(Difference::Needed(reason)) => Check::needed(reason),
        }))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let host = context.host;
        self.end(context).await?;
        let revisions = self.revisions(host).await?;
        let left = self.left(newest(&revisions))?;
        self.warn_of_helm(&revisions, context);
        let stay = revisions.iter().filter(|one| one.secret != left);
        let last = stay.map(Revision::number).max().unwrap_or(0);
        // Helm can quote former values and objects, too.
        let former = match compared(&revisions) {
            Some(revision) => {
                let has_secrets = self.has_secrets() || !revision.secret_values().is_empty();
                match self.stored(host, revision).await {
                    Ok(stored) => Some(stored),
                    Err(error) if has_secrets => return Err(error),
                    Err(_) => None,
                }
            }
            None => None,
        };
        let hidden = Arc::new(self.hidden(former.as_ref()));
        let yes = |is: bool| if is { "yes" } else { "" }.to_owned();
        let arguments = applications::Release {
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            chart: self.chart.clone(),
            files: self.files.clone(),
            labels: self.labels(last),
            pending: left,
            adopts: yes(self.adopts),
            waits: yes(self.waits),
            seconds: self.timeout.as_secs().to_string(),
        };
        let values = self.values.to_string();
        let hiding = Arc::clone(&hidden);
        let script = applications::RELEASE.verb("apply");
        let run = RunScript::new(&self.id(), self.describe(), script, script)
            .arguments(arguments)
            .input(Arc::new(move || Ok(values.clone().into_bytes())))
            .hiding(Arc::new(move |text| hiding.text(text)))
            .limit(Limit::new(self.timeout + BESIDES, "an application"));
        match Ensure::apply(&run, context).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explained(host, error, (&hidden, last)).await),
        }
    }
}
