//! The versions of the programs on the hosts, for which no API server must answer.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;

use super::super::ask::ask;
use kubexm_config::Cluster;
use kubexm_host::Host;
use kubexm_scripts::kubernetes::VERSIONS;
use kubexm_session::CommandError;
use kubexm_session::session::Hosts;
use kubexm_types::{HostName, Version};

/// What runs on the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::upgrade) struct Programs {
    /// All versions that a node has.
    pub(in crate::upgrade) versions: BTreeMap<HostName, Vec<Version>>,
    /// The nodes that kubexm has cordoned.
    pub(in crate::upgrade) cordoned: BTreeSet<HostName>,
}

impl Programs {
    /// Asks all nodes.
    ///
    /// # Errors
    /// A host was lost, or its answer has another form.
    pub(in crate::upgrade) async fn read(
        cluster: &Cluster,
        hosts: &Hosts,
    ) -> Result<Self, CommandError> {
        let nodes = cluster.nodes().into_iter().map(|host| &host.name);
        let nodes = nodes.filter_map(|name| Some((name, hosts.get(name)?)));
        let asked = nodes.map(async |(name, host)| {
            Ok::<_, CommandError>((name.clone(), answer(host.as_ref()).await?))
        });
        let mut found = Self::default();
        for (name, (versions, cordoned)) in try_join_all(asked).await? {
            found.versions.insert(name, versions);
            found.cordoned.extend(cordoned);
        }
        Ok(found)
    }
}

type Answer = (Vec<Version>, Vec<HostName>);

async fn answer(host: &dyn Host) -> Result<Answer, CommandError> {
    ask(
        host,
        "read the versions of the programs",
        VERSIONS,
        [],
        parse,
    )
    .await
}

/// Parses the output of the script. The error is the line that has another form.
fn parse(text: &str) -> Result<Answer, String> {
    let (mut versions, mut cordoned, mut is_complete) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        let refused = || line.to_owned();
        match line.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["program" | "running" | "pod", _, said] => {
                versions.push(Version::printed(said).ok_or_else(refused)?);
            }
            ["cordoned", node] => cordoned.push(node.parse().map_err(|_| refused())?),
            ["end"] => is_complete = true,
            _ => return Err(refused()),
        }
    }
    if is_complete {
        Ok((versions, cordoned))
    } else {
        Err(text.lines().last().unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_and_other_answers_are_refused() {
        let text = "program kubeadm v1.35.4\npod kube-apiserver     image: r/kube-apiserver:v1.34.4\n\
                    running kubelet Kubernetes v1.34.4\ncordoned node2\nend\n";
        let (versions, cordoned) = parse(text).unwrap();
        let texts: Vec<String> = versions.iter().map(Version::to_string).collect();
        assert_eq!(texts, ["1.35.4", "1.34.4", "1.34.4"]);
        assert_eq!(cordoned, ["node2".parse::<HostName>().unwrap()]);
        for wrong in [
            "program kubeadm x\nend\n",
            "surprise\nend\n",
            "program kubeadm 1.35.4\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
