//! The chart of an application on the first control plane.

use std::sync::Arc;

use serde_json::{Value, json};

use super::secret_values::decoded;

use crate::{DeployError, Inputs, manifest};
use kubexm_bundle::lock::user_content::LockedArtifact;
use kubexm_config::cluster::{AddonContent, Application, ApplicationContent};
use kubexm_engine::plan::{Step, Task};
use kubexm_engine::steps::{InstallFiles, Payload, Source, WriteFile};
use kubexm_render::objects::Objects;
use kubexm_types::{Digest, HostPath};

/// The directory of charts on the first control plane.
pub(super) const FOLDER: &str = "/var/lib/kubexm/applications";
/// The file with manifests in the directory of a chart.
pub(super) const MANIFESTS: &str = "manifests.yaml";
/// Prints the manifests as they are: Helm does not search files beside the templates for its own syntax.
const TEMPLATE: &str = "{{ .Files.Get \"manifests.yaml\" }}\n";
/// The annotation by which Helm keeps an object when its release goes (<https://helm.sh/docs/howto/charts_tips_and_tricks/>).
pub(super) const POLICY: &str = "helm.sh/resource-policy";

/// What a chart consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChartContent {
    /// An archive of the bundle.
    Packed(Digest),
    /// Files by their paths in the directory of the chart. They may have secrets.
    Files(Vec<(String, String)>),
}

/// The Secrets in the manifests of an application.
pub(super) struct ManifestSecrets {
    /// The manifests as Helm stores them with the chart, in the file [`MANIFESTS`].
    pub(super) manifests: String,
    /// What the Secrets contain. Values in base64 are also decoded.
    pub(super) content: Value,
}

impl ManifestSecrets {
    fn of(manifests: &str, mut content: Vec<Value>) -> Option<Self> {
        let encoded = content.iter().filter_map(Value::as_object);
        let encoded = encoded.flat_map(|fields| fields.values());
        let decoded = encoded.filter_map(|value| decoded(value.as_str()?));
        let decoded: Vec<Value> = decoded.map(Value::from).collect();
        content.extend(decoded);
        let manifests = manifests.to_owned();
        (!content.is_empty()).then(|| Self {
            manifests,
            content: content.into(),
        })
    }
}

/// A chart, and the steps that bring it to the host.
pub(super) struct Chart {
    /// The archive or the directory.
    pub(super) path: HostPath,
    /// The digest of its content without that of Secrets, by which it could be guessed.
    pub(super) digest: Digest,
    /// What Secrets of manifests have.
    pub(super) secrets: Option<ManifestSecrets>,
    /// The version of a chart of the bundle.
    pub(super) version: Option<String>,
    pub(super) content: ChartContent,
    steps: Vec<Step>,
}

impl Chart {
    /// Returns the chart of an application that consists of these artifacts.
    ///
    /// # Errors
    /// The bundle cannot be read, or a manifest has no Kubernetes objects.
    pub(super) fn of(
        inputs: &Inputs<'_>,
        application: &Application,
        parts: &[&LockedArtifact],
    ) -> Result<Self, DeployError> {
        let packed = || match parts {
            [chart] => Self::packed(inputs, application, chart),
            _ => Err(DeployError::Incomplete(vec![format!(
                "chart of {}",
                application.name
            )])),
        };
        match &application.content {
            ApplicationContent::Chart { .. } => packed(),
            ApplicationContent::Addon { kind, .. } => match kind.properties().content {
                AddonContent::Chart(_) => packed(),
                AddonContent::Manifest { template, .. } => {
                    Self::wrapped(inputs, application, parts, template)
                }
            },
            ApplicationContent::Manifests(_) => Self::wrapped(inputs, application, parts, TEMPLATE),
            ApplicationContent::AddonObjects(objects) => {
                let objects = objects.addon().properties().objects;
                let template = objects.map_or("", |objects| objects.template);
                let files = vec![("templates/objects.yaml", template.to_owned())];
                Self::written(application, files, None, None)
            }
        }
    }

    fn packed(
        inputs: &Inputs<'_>,
        application: &Application,
        chart: &LockedArtifact,
    ) -> Result<Self, DeployError> {
        let path = HostPath::parse(&format!("{FOLDER}/{}.tgz", application.name))?;
        let payload = Payload {
            source: Source::Blob,
            digest: chart.digest,
            size: chart.size,
            path: path.clone(),
            mode: 0o600,
        };
        let install = InstallFiles {
            title: chart.describe(),
            payloads: vec![payload],
            blobs: Arc::clone(&inputs.blobs),
        };
        Ok(Self {
            path,
            // As it is in the labels of releases.
            digest: Digest::of(chart.digest.to_string().as_bytes()),
            secrets: None,
            version: chart.version.clone(),
            content: ChartContent::Packed(chart.digest),
            steps: vec![install.into()],
        })
    }

    /// Returns a chart with the objects of manifests. Definitions of custom resources are apart, because Helm asks the API
    /// server for the kinds of all other objects before it creates one.
    fn wrapped(
        inputs: &Inputs<'_>,
        application: &Application,
        parts: &[&LockedArtifact],
        template: &str,
    ) -> Result<Self, DeployError> {
        let (mut objects, mut definitions) = (String::new(), String::new());
        let (mut plain, mut secrets) = (String::new(), Vec::new());
        for part in parts {
            let text = manifest::of_bundle(inputs, "manifest of an application", &part.digest)?;
            let mut read = Objects::parse("manifest of an application", &text)?;
            // Helm reads the annotation of a whole document.
            read.flatten();
            // With a namespace, everything in it would go, and the Secrets of the release before Helm has removed it.
            read.annotate("Namespace", POLICY, "keep");
            // An earlier version had definitions in lists among the templates: with them, their objects would go.
            read.annotate("CustomResourceDefinition", POLICY, "keep");
            definitions.push_str(&read.take("CustomResourceDefinition").text()?);
            objects.push_str(&read.text()?);
            let (shown, content) = read.without_secrets();
            plain.push_str(&shown.text()?);
            secrets.extend(content);
        }
        let secrets = ManifestSecrets::of(&objects, secrets);
        let mut files = vec![
            ("templates/manifests.yaml", template.to_owned()),
            (MANIFESTS, objects),
        ];
        // kubectl refuses to apply a file without objects.
        if !definitions.is_empty() {
            files.push(("crds/crds.yaml", definitions));
        }
        Self::written(application, files, Some(&plain), secrets)
    }

    /// Returns a chart with these files. `plain` is the text of manifests without that of Secrets.
    fn written(
        application: &Application,
        mut files: Vec<(&str, String)>,
        plain: Option<&str>,
        secrets: Option<ManifestSecrets>,
    ) -> Result<Self, DeployError> {
        let folder = HostPath::parse(&format!("{FOLDER}/{}", application.name))?;
        let about = json!({
            "apiVersion": "v2",
            "name": application.name,
            "version": "0.0.0",
            "description": "Manifests of a bundle, which kubexm applies",
        });
        files.insert(0, ("Chart.yaml", about.to_string()));
        let digested = files.iter().map(|(name, text)| match plain {
            Some(plain) if *name == MANIFESTS => plain,
            _ => text,
        });
        let digest = Digest::of(digested.collect::<String>().as_bytes());
        let steps = files.iter().map(|(name, text)| {
            let path = HostPath::parse(&format!("{folder}/{name}"))?;
            // Manifests can have Secrets.
            Ok(WriteFile::secret(path, text.clone()).into())
        });
        let steps = steps.collect::<Result<_, DeployError>>()?;
        let files = files.into_iter();
        let files = files.map(|(name, text)| (name.to_owned(), text)).collect();
        Ok(Self {
            steps,
            content: ChartContent::Files(files),
            path: folder,
            digest,
            secrets,
            version: None,
        })
    }

    /// Adds the steps to the task of the application.
    pub(super) fn add_to(self, task: Task) -> Task {
        self.steps.into_iter().fold(task, Task::step)
    }
}
