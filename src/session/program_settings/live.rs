//! Whether a program accepts the settings of one that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::given::Given;
use super::{Programs, answer};
use crate::CommandError;
use kubexm_config::Cluster;
use kubexm_types::Arch;

/// The settings of a program that runs.
#[derive(Debug, Default)]
pub struct LiveSettings {
    program: &'static str,
    /// Flags, as in `--name=value`.
    pub flags: Vec<String>,
    /// The texts of its configurations.
    pub configs: BTreeSet<String>,
}

/// What a program refuses, with the reasons.
#[derive(Debug, Default)]
pub struct RefusedLive {
    /// By the flag.
    pub flags: BTreeMap<String, String>,
    /// By the text.
    pub configs: BTreeMap<String, String>,
}

impl LiveSettings {
    pub fn new(program: &'static str) -> Self {
        Self {
            program,
            ..Self::default()
        }
    }
}

impl Programs<'_> {
    /// Returns what a program of the cluster's version refuses; `None` if the bundle has no programs for the architecture of
    /// this machine.
    ///
    /// # Errors
    /// A program of the bundle cannot be read or run.
    pub async fn refused_live(
        &self,
        cluster: &Cluster,
        live: &LiveSettings,
    ) -> Result<Option<RefusedLive>, CommandError> {
        let mut refused = RefusedLive::default();
        if live.flags.is_empty() && live.configs.is_empty() {
            return Ok(Some(refused));
        }
        let here = Arch::of_this_machine().ok();
        let Some(arch) = here.filter(|arch| self.lock.architectures.contains(arch)) else {
            return Ok(None);
        };
        let given = Given::new(live.program, "");
        let Some((workspace, path)) = self.unpacked(cluster, &given, arch).await? else {
            return Ok(Some(refused));
        };
        for flag in &live.flags {
            let arguments = vec![flag.clone(), format!("--{}", answer::LAST)];
            let said = self.run(&given, &workspace, &path, arguments).await?;
            let mut reason = answer::to_flags(&said);
            if reason.is_none() && flag.starts_with("--feature-gates=") {
                let said = self
                    .run(&given, &workspace, &path, vec![flag.clone()])
                    .await?;
                reason = answer::to_settings(&said);
            }
            if let Some(reason) = reason {
                refused.flags.insert(flag.clone(), reason);
            }
        }
        for text in &live.configs {
            let file = workspace.put("live.yaml", text.as_bytes());
            let file = file.map_err(|error| super::failed(&given, error))?;
            let arguments = decoding(live.program, &file);
            let said = self.run(&given, &workspace, &path, arguments).await?;
            if let Some(reason) = answer::to_settings(&said) {
                refused.configs.insert(text.clone(), reason);
            }
        }
        Ok(Some(refused))
    }
}

/// Returns the arguments with which a program decodes a configuration strictly. All of them end in the sandbox before they do
/// anything else: they find neither a network nor their directories.
pub(super) fn decoding(program: &str, file: &Path) -> Vec<String> {
    match program {
        "kubeadm" => ["config", "validate", "--config"]
            .into_iter()
            .map(str::to_owned)
            .chain([file.display().to_string()])
            .collect(),
        _ => vec![format!("--config={}", file.display())],
    }
}
