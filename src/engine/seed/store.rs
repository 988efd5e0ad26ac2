//! Steps that change the content of a registry.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Garbage, RegistryContent, missing, seed};
use crate::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use crate::steps::{run_check, run_command};
use kubexm_bundle::Blobs;
use kubexm_host::{Command, Host, Input, Limit};
use kubexm_scripts::registry as scripts;
use kubexm_types::HostPath;

/// Uploads images into the storage of a registry.
pub struct StoreImages {
    /// A name that is unique within the host.
    pub id: String,
    /// What the step does, for the user.
    pub title: String,
    pub content: RegistryContent,
    pub data_dir: HostPath,
    /// Where the blobs come from.
    pub blobs: Arc<dyn Blobs>,
}

impl Describe for StoreImages {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl From<StoreImages> for Step {
    fn from(step: StoreImages) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for StoreImages {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let missing = missing(host, &self.data_dir, &self.content).await?;
        Ok(if missing.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(format!("{} blobs are missing", missing.blobs()))
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let missing = missing(context.host, &self.data_dir, &self.content).await?;
        let blobs = Arc::clone(&self.blobs);
        seed(context.host, &self.data_dir, missing, blobs, context.events).await?;
        Ok(())
    }
}

/// Removes tags and manifests from the storage of a registry. Blobs stay.
pub struct RemoveImages {
    /// What the step does, for the user.
    pub title: String,
    pub data_dir: HostPath,
    /// Directories of manifests and then of tags, below the registry's root.
    pub paths: Vec<String>,
}

impl RemoveImages {
    fn command(&self, verb: &'static str) -> Command {
        let lines: String = self.paths.iter().map(|path| format!("{path}\n")).collect();
        Command::from_script(scripts::REMOVE.verb(verb), [self.data_dir.to_string()])
            .input(Input::Bytes(lines.into_bytes()))
            .limit(Limit::CHANGE)
    }
}

impl Describe for RemoveImages {
    fn id(&self) -> String {
        "registry tags".to_owned()
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl From<RemoveImages> for Step {
    fn from(step: RemoveImages) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for RemoveImages {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let title = format!("check: {}", self.title);
        run_check(host, title, self.command("check")).await
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let command = self.command("apply");
        run_command(context.host, &self.title, command).await?;
        Ok(())
    }
}

/// Removes the blobs that no manifest of a registry needs.
pub struct CollectGarbage {
    /// What the step does, for the user.
    pub title: String,
    pub data_dir: HostPath,
}

impl Describe for CollectGarbage {
    fn id(&self) -> String {
        "registry garbage".to_owned()
    }

    fn describe(&self) -> String {
        self.title.clone()
    }
}

impl From<CollectGarbage> for Step {
    fn from(step: CollectGarbage) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for CollectGarbage {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let garbage = Garbage::read(host, &self.data_dir).await?;
        Ok(if garbage.is_empty() {
            Check::Satisfied
        } else {
            Check::needed(format!("no image needs {} blobs", garbage.blobs.len()))
        })
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let directory = [self.data_dir.to_string()];
        let command =
            Command::from_script(scripts::GARBAGE.verb("remove"), directory).limit(Limit::CHANGE);
        run_command(context.host, &self.title, command).await?;
        Ok(())
    }
}
