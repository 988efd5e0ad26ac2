//! The CAs that objects of the cluster name.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_pki::same_certificates;
use kubexm_types::Message;
use serde_json::json;

use crate::kubernetes::kubeconfig::with_field;
use crate::objects::{ConfigMap, Polls, Server, patch};

/// How long the controller manager may take to write its CAs to all namespaces.
const WRITTEN: Duration = Duration::from_secs(120);
/// The field of a kubeconfig with the CAs.
const FIELD: &str = "certificate-authority-data";

/// Stores the CAs that clients trust for nodes that join, and waits until the controller manager has written them to the
/// ConfigMap of each namespace.
pub(crate) struct TrustedCas(pub(crate) String);

impl TrustedCas {
    /// Returns the kubeconfig for joins if it has other CAs. A cluster without kubeadm has none.
    async fn former_joins(&self, host: &dyn Host) -> Result<Option<String>, StepError> {
        let words = [
            "configmap",
            "cluster-info",
            "-n",
            "kube-public",
            "--ignore-not-found",
        ];
        let found: Option<ConfigMap> = Server::of(host).find(&self.describe(), &words).await?;
        let joins = found.and_then(|mut found| found.data.remove("kubeconfig"));
        Ok(joins.filter(|joins| with_cas(joins, &self.0) != *joins))
    }

    /// Returns the namespaces whose pods get other CAs, each with an end of the sentence.
    async fn others(&self, host: &dyn Host, end: &str) -> Result<Option<String>, StepError> {
        let words = [
            "configmaps",
            "-A",
            "--field-selector=metadata.name=kube-root-ca.crt",
        ];
        let found: Vec<ConfigMap> = Server::of(host).list(&self.describe(), &words).await?;
        let differs = |found: &&ConfigMap| {
            let cas = found.data.get("ca.crt").map_or("", String::as_str);
            !same_certificates(cas, &self.0)
        };
        let lines = found.iter().filter(differs);
        let lines: Vec<String> = lines
            .map(|found| format!("{}: {end}", found.metadata.namespace))
            .collect();
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }
}

/// Returns a kubeconfig with these CAs. Other lines stay as they are.
fn with_cas(kubeconfig: &str, cas: &str) -> String {
    let has_cas = |value: &str| {
        let text = STANDARD.decode(value).ok();
        let text = text.and_then(|text| String::from_utf8(text).ok());
        text.is_some_and(|text| same_certificates(&text, cas))
    };
    with_field(kubeconfig, FIELD, has_cas, &STANDARD.encode(cas))
}

impl Describe for TrustedCas {
    fn id(&self) -> String {
        "trusted cas".to_owned()
    }

    fn describe(&self) -> String {
        "Store the CAs for nodes that join and for the pods of every namespace".to_owned()
    }
}

impl From<TrustedCas> for Step {
    fn from(step: TrustedCas) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for TrustedCas {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        if self.former_joins(host).await?.is_some() {
            return Ok(Check::needed(
                "the ConfigMap kube-public/cluster-info has other CAs",
            ));
        }
        let others = self.others(host, "kube-root-ca.crt has other CAs").await?;
        Ok(others.map_or(Check::Satisfied, Check::needed))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let (host, title) = (context.host, self.describe());
        if let Some(joins) = self.former_joins(host).await? {
            let fields = json!({"data": {"kubeconfig": with_cas(&joins, &self.0)}});
            let words = ["configmap", "cluster-info", "-n", "kube-public"];
            patch(host, &title, &words, &fields).await?;
        }
        let end = "the controller manager does not write kube-root-ca.crt with the present CAs";
        let missing = async || {
            let others = self.others(host, end).await?;
            Ok(others.map(|lines| Message::quoting(lines).within(&title)))
        };
        let polls = Polls::at_most(WRITTEN);
        while polls.go_on(missing().await).await? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};
    use serde_json::Value;

    fn pem(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    fn joins(cas: &str) -> Value {
        let cas = STANDARD.encode(cas);
        let text = format!("clusters:\n- cluster:\n    {FIELD}: {cas}\n    server: https://b\n");
        json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": text, "jws": "a"}})
    }

    fn of_namespaces(cas: &str) -> Value {
        let one = |name| json!({"metadata": {"namespace": name}, "data": {"ca.crt": cas}});
        json!({"items": [one("default"), one("web")]})
    }

    const JOINS: &str = "configmap cluster-info -n kube-public --ignore-not-found";

    #[tokio::test(start_paused = true)]
    async fn cluster_has_the_cas_for_joins_and_in_every_namespace() {
        let (old, both) = (pem("QUFB"), pem("QUFB") + &pem("QUJD"));
        let step = TrustedCas(both.clone());
        let host = FakeApi::new([
            (JOINS, joins(&old)),
            ("configmaps -A", of_namespaces(&old)),
            ("configmaps -A", of_namespaces(&both)),
        ]);
        let needed = Check::needed("the ConfigMap kube-public/cluster-info has other CAs");
        assert_eq!(step.check(&host).await.unwrap(), needed);
        apply(&step, &host).await.unwrap();
        let fields = json!({"data": {"kubeconfig": joins(&both)["data"]["kubeconfig"]}});
        let change = format!("configmap cluster-info -n kube-public --patch {fields}");
        assert_eq!(host.changes(), [change]);
        let turned = pem("QUJD") + &old;
        let host = FakeApi::new([
            (JOINS, joins(&turned)),
            ("configmaps -A", of_namespaces(&turned)),
        ]);
        assert_eq!(step.check(&host).await.unwrap(), Check::Satisfied);
        apply(&step, &host).await.unwrap();
        assert_eq!(host.changes(), [""; 0]);
    }

    /// A cluster without kubeadm has no kubeconfig for joins.
    #[tokio::test(start_paused = true)]
    async fn namespaces_without_the_cas_are_named() {
        let step = TrustedCas(pem("QUFB"));
        let host = FakeApi::new([("configmaps -A", of_namespaces(&pem("QUJD")))]);
        let lines = "default: kube-root-ca.crt has other CAs\nweb: kube-root-ca.crt has other CAs";
        assert_eq!(step.check(&host).await.unwrap(), Check::needed(lines));
        let error = apply(&step, &host).await.unwrap_err();
        let lines = "default: the controller manager does not write kube-root-ca.crt with the present CAs\n\
                     web: the controller manager does not write kube-root-ca.crt with the present CAs";
        assert_eq!(error, format!("{}: {lines}", step.describe()));
        let silent = FakeApi::new([]);
        assert!(step.check(&silent).await.is_err());
        let error = apply(&step, &silent).await.unwrap_err();
        assert!(error.ends_with("refused"), "{error}");
    }
}
