//! What joins need: a token, the key of the uploaded certificates, the pin of the cluster's CA.

use std::sync::Arc;

use super::{BIND_PORT, etcd};
use crate::deploy::{BIN, DeployError, Inputs, id};
use crate::pki;
use crate::plan::{Slot, Task};
use crate::render::kubeadm as template;
use crate::render::{self, RenderError};
use crate::spec::cluster::HostSpec;
use crate::steps::Produce;

/// What a node needs to join. Secret.
#[derive(Clone)]
pub(super) struct JoinSecrets {
    pub(super) token: String,
    pub(super) certificate_key: String,
    pub(super) ca_hash: String,
}

pub(super) fn mint(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    slot: &Slot<JoinSecrets>,
) -> Result<Task, DeployError> {
    let token = format!("{}.{}", random_word(6)?, random_word(16)?);
    let certificate_key = random_hex()?;
    let cluster = inputs.cluster;
    let (api, _) = template::api_of(&cluster.kubernetes.version);
    let config = render::text(
        "join secrets",
        &template::Secrets {
            api,
            token: token.clone(),
            certificate_key: certificate_key.clone(),
            advertise_address: first.internal_address.to_string(),
            bind_port: BIND_PORT,
            version: format!("v{}", cluster.kubernetes.version),
            external_etcd: etcd::external(cluster),
        },
    )?;
    let upload = if cluster.roles.control_plane.len() > 1 {
        "kubeadm init phase upload-certs --upload-certs --config \"$config\" >/dev/null 2>&1"
    } else {
        ":"
    };
    let script = format!(
        "export PATH={BIN}:$PATH KUBECONFIG=/etc/kubernetes/admin.conf\numask 077\nmkdir -p /run/kubexm\n\
         config=$(mktemp /run/kubexm/secrets-XXXXXX)\ntrap 'rm -f \"$config\"' EXIT\ncat >\"$config\"\n\
         kubeadm token create --config \"$config\" >/dev/null\n{upload}\ncat /etc/kubernetes/pki/ca.crt\n"
    );
    let produce = Produce {
        title: "Mint a join token for this run".to_owned(),
        script,
        input: Some(Arc::new(move || Ok(config.clone().into_bytes()))),
        parse: Box::new(move |certificate| {
            let ca_hash = pki::public_key_pin(certificate).map_err(|error| error.to_string())?;
            Ok(JoinSecrets {
                token: token.clone(),
                certificate_key: certificate_key.clone(),
                ca_hash,
            })
        }),
        slot: slot.clone(),
    };
    let mut task = Task::new("control-plane", "secrets", &first.name)
        .after([id("control-plane", "init", &first.name)])
        .step(produce);
    task.gives.push(slot.name());
    Ok(task)
}

fn random_bytes<const N: usize>() -> Result<[u8; N], RenderError> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes).map_err(|error| RenderError::new("a random token", error))?;
    Ok(bytes)
}

/// Random letters and digits; 256 is no multiple of 36, so the few values beyond are not used.
fn random_word(length: usize) -> Result<String, RenderError> {
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

fn random_hex() -> Result<String, RenderError> {
    Ok(hex::encode(random_bytes::<32>()?))
}
