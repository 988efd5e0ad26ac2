//! What an API server serves.

use std::collections::{BTreeMap, BTreeSet};

use kubexm_engine::plan::StepError;
use kubexm_engine::{Command, Host};
use kubexm_scripts::kubernetes::RESOURCES;

/// The API versions and kinds that an API server serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    versions: BTreeSet<String>,
    /// Whether objects of an API version and kind have a namespace.
    kinds: BTreeMap<(String, String), bool>,
}

impl Resources {
    /// Asks the API server of a host.
    ///
    /// # Errors
    /// The API server does not answer, or the host was lost.
    pub async fn read(host: &dyn Host) -> Result<Self, StepError> {
        let what = "read the resources of the API server";
        let command = Command::from_script(RESOURCES, [""; 0]).describe(what);
        let output = StepError::unless_done(what, host.run(command).await?)?;
        Ok(Self::parse(&output.text()))
    }

    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [version] => _ = found.versions.insert(version.to_owned()),
                // Short names stand before, if there are any.
                [_, .., version, namespaced, kind] => {
                    let key = (version.to_owned(), kind.to_owned());
                    found.kinds.insert(key, namespaced == "true");
                }
                _ => {}
            }
        }
        found
    }

    /// Returns the API versions, as in `apps/v1`, and those of kinds, as in `apps/v1/Deployment`.
    pub fn api_versions(&self) -> Vec<String> {
        let kinds = self.kinds.keys();
        let kinds = kinds.map(|(version, kind)| format!("{version}/{kind}"));
        self.versions.iter().cloned().chain(kinds).collect()
    }

    /// Returns what is left without API versions of kinds that are gone. An API version without a kind is gone if it is for some
    /// kinds, and no other kind has it.
    #[must_use]
    pub fn without(mut self, is_gone: impl Fn(&str, Option<&str>) -> bool) -> Self {
        let kinds = &mut self.kinds;
        kinds.retain(|(version, kind), _| !is_gone(version, Some(kind)));
        self.versions
            .retain(|one| !is_gone(one, None) || kinds.keys().any(|(version, _)| version == one));
        self
    }

    /// Returns whether objects of a kind have a namespace, as far as the API server serves them.
    pub fn is_namespaced(&self, version: &str, kind: &str) -> bool {
        let key = (version.to_owned(), kind.to_owned());
        self.kinds.get(&key).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_and_kinds_are_read() {
        let text = "apps/v1\nv1\nconfigmaps   cm   v1   true   ConfigMap\nbindings   v1   true   Binding\nnodes  no v1 false Node\n";
        let found = Resources::parse(text);
        let versions = ["apps/v1", "v1", "v1/Binding", "v1/ConfigMap", "v1/Node"];
        assert_eq!(found.api_versions(), versions);
        assert!(found.is_namespaced("v1", "ConfigMap") && !found.is_namespaced("v1", "Node"));
    }
}
