//! The secrets for joins: a token, the key of the uploaded certificates, and the pin of the cluster's CA.

use std::sync::{Arc, OnceLock};

use super::etcd;
use crate::{DeployError, Inputs, kubernetes};

use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_engine::plan::{FileContent, PlannedFile, StepError, Task, TaskValue};
use kubexm_engine::steps::{DeferredInput, Parse, ProvideValue};
use kubexm_render::RenderError;
use kubexm_render::kubeadm as template;
use kubexm_scripts::kubeadm;
use kubexm_types::HostPath;

/// The values that a node needs to join. Secret.
#[derive(Clone)]
pub(super) struct JoinSecrets {
    pub(super) token: String,
    pub(super) certificate_key: String,
    pub(super) ca_hash: String,
}

impl JoinSecrets {
    /// Returns placeholders.
    pub(super) fn placeholder() -> Self {
        Self {
            token: "<join token>".to_owned(),
            certificate_key: "<certificate key>".to_owned(),
            ca_hash: "<pin of the cluster's CA>".to_owned(),
        }
    }

    /// Returns random secrets. The pin of the CA is empty until the script prints the CA.
    fn random() -> Result<Self, RenderError> {
        Ok(Self {
            token: format!("{}.{}", random_text(6)?, random_text(16)?),
            certificate_key: hex::encode(random_bytes::<32>()?),
            ca_hash: String::new(),
        })
    }
}

/// Template of the configuration's path. The file exists on the control plane only while the script runs.
const CONFIG: &str = "/run/kubexm/secrets-XXXXXX";

/// Returns the task that creates the secrets on the first control plane. The task chooses the random values
/// when it runs, so that a plan depends only on its inputs.
pub(super) fn mint(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    secrets: &TaskValue<JoinSecrets>,
) -> Result<Task, DeployError> {
    let preview = PlannedFile {
        path: HostPath::parse(CONFIG)?,
        mode: 0o600,
        content: FileContent::Deferred(config(inputs.cluster, first, &JoinSecrets::placeholder())?),
    };
    let minted = Arc::new(OnceLock::new());
    let parse = parse(Arc::clone(&minted));
    let control_planes = inputs.cluster.roles.control_plane.len();
    let create = ProvideValue {
        title: "Create a join token for this run".to_owned(),
        script: kubeadm::JOIN_SECRETS,
        arguments: vec![CONFIG.to_owned(), control_planes.to_string()],
        input: Some(input(inputs.cluster, first, minted)),
        parse,
        value: secrets.clone(),
        only_reads: false,
        files: vec![preview],
    };
    let task = kubernetes::SECRETS
        .task(&first.name)
        .after([kubernetes::INIT.id(&first.name)]);
    let joining: Vec<&HostSpec> = inputs
        .nodes()
        .into_iter()
        .filter(|host| etcd::has_member(inputs.cluster, host) && host.name != first.name)
        .filter(|host| !inputs.host_facts(&host.name).is_node)
        .collect();
    // A new cluster has no former members.
    let is_old = inputs.host_facts(&first.name).is_node && !joining.is_empty();
    let sweep = crate::etcd::sweep_members(inputs.cluster, &joining).filter(|_| is_old);
    let task = sweep.into_iter().fold(task, Task::step);
    Ok(task.step(create))
}

/// Returns the script's input: a configuration with new random values, which it keeps in `minted`.
fn input(cluster: &Cluster, first: &HostSpec, minted: Arc<OnceLock<JoinSecrets>>) -> DeferredInput {
    let (cluster, first) = (cluster.clone(), first.clone());
    let text = move || {
        let random = JoinSecrets::random()?;
        config(&cluster, &first, minted.get_or_init(|| random))
    };
    Arc::new(move || {
        let text = text().map_err(|error| StepError::Other(error.to_string().into()))?;
        Ok(text.into_bytes())
    })
}

/// Adds the pin of the CA that the script printed to the random values.
fn parse(minted: Arc<OnceLock<JoinSecrets>>) -> Parse<JoinSecrets> {
    Box::new(move |certificate| {
        let ca_hash = kubexm_pki::public_key_pin(certificate).map_err(|error| error.to_string())?;
        let minted = minted.get().ok_or("the script ran without its input")?;
        Ok(JoinSecrets {
            ca_hash,
            ..minted.clone()
        })
    })
}

fn config(
    cluster: &Cluster,
    first: &HostSpec,
    secrets: &JoinSecrets,
) -> Result<String, RenderError> {
    let (api, _) = template::api_of(&cluster.kubernetes.version);
    kubexm_render::text(
        "join secrets",
        &template::Secrets {
            api,
            token: secrets.token.clone(),
            certificate_key: secrets.certificate_key.clone(),
            advertise_address: first.internal_address().to_string(),
            bind_port: cluster.api_server(first).port(),
            version: format!("v{}", cluster.kubernetes.version),
            external_etcd: etcd::external(cluster),
        },
    )
}

fn random_bytes<const N: usize>() -> Result<[u8; N], RenderError> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| RenderError::new("a random token", error))?;
    Ok(bytes)
}

/// Returns random lower-case letters and digits. 256 is not a multiple of 36, so it skips bytes from 252 on.
fn random_text(length: usize) -> Result<String, RenderError> {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut word = String::new();
    while word.len() < length {
        let [byte] = random_bytes::<1>()?;
        if byte < 252 {
            word.push(char::from(alphabet[usize::from(byte) % alphabet.len()]));
        }
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubexm_engine::plan::TaskId;

    #[test]
    fn random_values_are_made_when_the_task_runs() {
        let cluster = crate::example::cluster("", "");
        let first = &cluster.hosts[0];
        let text = |minted: &Arc<OnceLock<JoinSecrets>>| {
            let make = input(&cluster, first, Arc::clone(minted));
            assert!(minted.get().is_none(), "planning made a token");
            String::from_utf8(make().unwrap()).unwrap()
        };
        let (one, other) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let texts = [text(&one), text(&other)];
        let tokens = [one, other].map(|minted| minted.get().unwrap().token.clone());
        assert_ne!(tokens[0], tokens[1]);
        assert!(texts[0].contains(&tokens[0]) && texts[1].contains(&tokens[1]));
    }

    /// The clean-up of a failed join removes the data of its member, and does not ask etcd.
    #[test]
    fn members_of_joining_hosts_are_removed_before_any_join() {
        let roles = "control-plane: [c1, c2], worker: [w1], registry: [w1]";
        let endpoint = "controlPlaneEndpoint: {address: 192.0.2.99}";
        let cluster = kubexm_config::example::cluster_of(roles, "", endpoint);
        let steps = |nodes: &[&str]| {
            crate::example::with_inputs(&cluster, &[], "", |inputs| {
                let mut inputs = inputs.clone();
                for (name, facts) in &mut inputs.hosts {
                    facts.is_node = nodes.contains(&name.as_str());
                }
                let tasks = super::super::tasks(&inputs).unwrap();
                let find = |id: &TaskId| tasks.iter().find(|task| task.id() == *id).unwrap();
                let secrets = find(&kubernetes::SECRETS.id(&cluster.hosts[0].name));
                let join = find(&kubernetes::JOIN_CONTROL_PLANE.id(&cluster.hosts[1].name));
                let provided = secrets.provides.iter();
                assert!(provided.clone().count() == 1 && provided.eq(&join.requires));
                let steps = secrets.steps.iter().map(|step| step.id());
                steps.filter(|id| id == "etcd members").count()
            })
        };
        assert_eq!(steps(&["c1"]), 1);
        // A new cluster has no former members, and a worker has none.
        assert_eq!((steps(&[]), steps(&["c1", "c2"])), (0, 0));
    }
}
