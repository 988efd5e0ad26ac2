//! The end of the secrets with which nodes join.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use serde::Deserialize;

use crate::objects::{METADATA, Metadata, Object, Server, checked, delete};

/// The description of tokens that kubexm creates.
const DESCRIPTION: &str = "kubexm install";
/// The description of the token whose expiry limits the lifetime of the uploaded certificates.
const PROXY: &str = "Proxy for managing TTL for the kubeadm-certs secret";

/// Prints of bootstrap tokens what they are for: the part of a token that is secret does not leave the host.
const TOKENS: &str = r#"go-template={"items":[{{range $at, $one := .items}}{{if $at}},{{end}}{"metadata":{"name":"{{.metadata.name}}"},"data":{ {{with .data}}"description":"{{.description}}"{{end}} }}{{end}}]}"#;

/// Removes the tokens of all runs of kubexm, the uploaded certificates, and the token whose expiry limits their lifetime.
pub(crate) struct JoinSecrets;

#[derive(Deserialize)]
struct Token {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Token {
    fn is_for_joins(&self) -> bool {
        let description = self.data.get("description");
        let description = description.and_then(|text| STANDARD.decode(text).ok());
        let ours = [DESCRIPTION.as_bytes(), PROXY.as_bytes()];
        description.is_some_and(|text| ours.contains(&text.as_slice()))
    }
}

impl JoinSecrets {
    async fn names(&self, host: &dyn Host) -> Result<Vec<String>, StepError> {
        let (server, title) = (Server::of(host), self.describe());
        let of_type = "--field-selector=type=bootstrap.kubernetes.io/token";
        let words = ["secrets", "-n", "kube-system", of_type, "-o", TOKENS];
        let tokens = server.list::<Token>(&title, &words).await?;
        let tokens = tokens.into_iter().filter(Token::is_for_joins);
        let mut names: Vec<String> = tokens.map(|token| token.metadata.name).collect();
        let of_name = "--field-selector=metadata.name=kubeadm-certs";
        let words = ["secrets", "-n", "kube-system", of_name, "-o", METADATA];
        let certificates = server.list::<Object>(&title, &words).await?;
        names.extend(certificates.into_iter().map(|secret| secret.metadata.name));
        Ok(names)
    }
}

impl Describe for JoinSecrets {
    fn id(&self) -> String {
        "join secrets".to_owned()
    }

    fn describe(&self) -> String {
        "Remove join tokens".to_owned()
    }
}

impl From<JoinSecrets> for Step {
    fn from(step: JoinSecrets) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for JoinSecrets {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let names = self.names(host).await;
        checked(names.map(|names| {
            if names.is_empty() {
                Check::Satisfied
            } else {
                Check::needed("the cluster has secrets for joins")
            }
        }))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let names = self.names(context.host).await?;
        let title = self.describe();
        if names.is_empty() {
            return Ok(());
        }
        let words = ["secret", "-n", "kube-system"].map(str::to_owned);
        delete(context.host, &title, words.into_iter().chain(names)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, NO_CLUSTER, apply};
    use serde_json::json;

    const OF_TOKENS: &str = "secrets -n kube-system --field-selector=type";
    const OF_CERTIFICATES: &str = "secrets -n kube-system --field-selector=metadata.name";

    #[tokio::test]
    async fn secrets_of_kubexm_and_no_others_are_deleted() {
        let token = |name: &str, description: &str| {
            let description = STANDARD.encode(description);
            json!({"metadata": {"name": name}, "data": {"description": description, "token-id": "YQ=="}})
        };
        let tokens = [
            token("bootstrap-token-a", "kubexm install"),
            token("bootstrap-token-b", "theirs"),
            token("bootstrap-token-c", PROXY),
            json!({"metadata": {"name": "bootstrap-token-d"}}),
        ];
        let host = FakeApi::new([
            (OF_TOKENS, json!({"items": tokens})),
            (
                OF_CERTIFICATES,
                json!({"items": [{"metadata": {"name": "kubeadm-certs"}}]}),
            ),
        ]);
        assert_ne!(JoinSecrets.check(&host).await.unwrap(), Check::Satisfied);
        apply(&JoinSecrets, &host).await.unwrap();
        let deleted = "secret -n kube-system bootstrap-token-a bootstrap-token-c kubeadm-certs";
        assert_eq!(host.changes(), [deleted]);
        let none = FakeApi::new([
            (OF_TOKENS, json!({"items": [tokens[1]]})),
            (OF_CERTIFICATES, json!({"items": []})),
        ]);
        assert_eq!(JoinSecrets.check(&none).await.unwrap(), Check::Satisfied);
        let before = Check::needed(NO_CLUSTER);
        let absent = FakeApi::without_cluster();
        assert_eq!(JoinSecrets.check(&absent).await.unwrap(), before);
        let silent = FakeApi::silent();
        assert!(JoinSecrets.check(&silent).await.is_err());
        assert!(apply(&JoinSecrets, &silent).await.is_err());
    }
}
