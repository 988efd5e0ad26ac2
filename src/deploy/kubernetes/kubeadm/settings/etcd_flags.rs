//! The flags of a member of etcd, which an install compares and does not change: flags can break the cluster, and the
//! manifests of members differ.

use std::collections::BTreeSet;

use async_trait::async_trait;

use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::Message;

use super::look::Generated;

/// The id of the step that compares the flags of etcd.
pub(crate) const ETCD_SETTINGS: &str = "etcd settings";
const MANIFEST: &str = "etcd.yaml";

/// Compares the flags of the member on a host with those of a configuration of `kubeadm init`.
pub(super) struct EtcdFlags(pub(super) String);

impl Describe for EtcdFlags {
    fn id(&self) -> String {
        ETCD_SETTINGS.to_owned()
    }

    fn describe(&self) -> String {
        "Compare the flags of etcd".to_owned()
    }
}

#[async_trait]
impl Ensure for EtcdFlags {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let (etcd, title) = (Generated::ETCD, self.describe());
        let look = etcd.look(host, &title, &self.0, String::new()).await?;
        let path = format!("{}/{MANIFEST}", etcd.folder);
        let difference = difference(look.content(MANIFEST), look.content(&path));
        Ok(difference.map_or(Check::Satisfied, |text| {
            let hint = format!("change the flags in {path}, on one host after another");
            Check::Reported(Message::quoting(text).hint(hint))
        }))
    }

    async fn apply(&self, _: &StepContext<'_>) -> Result<(), StepError> {
        Ok(())
    }
}

/// Returns how flags of a manifest differ, without those that are different for each member.
fn difference(wanted: &str, present: &str) -> Option<String> {
    let (wanted, present) = (flags(wanted), flags(present));
    let list = |title: &str, one: &BTreeSet<&str>, other: &BTreeSet<&str>| {
        let own: Vec<&str> = one.difference(other).copied().collect();
        (!own.is_empty()).then(|| format!("{title} {}", own.join(" ")))
    };
    let missing = list("it does not have", &wanted, &present);
    let other = list("it has", &present, &wanted);
    let all: Vec<String> = missing.into_iter().chain(other).collect();
    (!all.is_empty()).then(|| {
        let all = all.join(", ");
        format!("etcd.extraArgs is not applied to the member of etcd on this host: {all}")
    })
}

fn flags(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- "));
    lines
        .filter(|flag| flag.starts_with("--") && !flag.starts_with("--initial-cluster"))
        .collect()
}

impl From<EtcdFlags> for Step {
    fn from(step: EtcdFlags) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_flags_of_a_member_are_named() {
        let manifest = |quota: &str, cluster: &str| {
            format!(
                "  - command:\n    - etcd\n    - --initial-cluster={cluster}\n    - --name=node1\n    - --quota={quota}\n"
            )
        };
        assert_eq!(difference(&manifest("1", "a"), &manifest("1", "b")), None);
        assert_eq!(
            difference(&manifest("2", "a"), &manifest("1", "b")).unwrap(),
            "etcd.extraArgs is not applied to the member of etcd on this host: it does not have --quota=2, it has --quota=1"
        );
    }
}
