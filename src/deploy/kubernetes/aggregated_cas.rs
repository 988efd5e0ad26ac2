//! The CAs that kube-scheduler and aggregated API servers trust.

use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_pki::same_certificates;
use kubexm_types::Message;
use tokio::time::Instant;

use crate::objects::{ConfigMap, Polls, Server, delete};

/// How long API servers may take until they have read their files again.
const WRITTEN: Duration = Duration::from_secs(180);
/// An API server that has not read its files again yet can add the former CA once more.
const BETWEEN_DELETIONS: Duration = Duration::from_secs(20);
/// The words of the ConfigMap for kubectl.
const OBJECT: [&str; 4] = [
    "configmap",
    "extension-apiserver-authentication",
    "-n",
    "kube-system",
];

/// Gives kube-scheduler and aggregated API servers exactly these CAs: lets the API servers write their ConfigMap again. An API
/// server adds CAs to it, and removes only expired ones
/// (<https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/>).
pub(crate) struct AggregatedCas {
    /// Those of clients; empty to leave them as they are.
    pub(crate) clients: String,
    /// Those of front proxies; empty to leave them as they are.
    pub(crate) proxies: String,
}

impl AggregatedCas {
    /// Returns the fields with other CAs, each with an end of the sentence.
    async fn others(&self, host: &dyn Host, end: &str) -> Result<Option<String>, StepError> {
        let words = [&OBJECT[..], &["--ignore-not-found"]].concat();
        let found: Option<ConfigMap> = Server::of(host).find(&self.describe(), &words).await?;
        let data = found.unwrap_or_default().data;
        let fields = [
            ("client-ca-file", &self.clients),
            ("requestheader-client-ca-file", &self.proxies),
        ];
        let differs = |(field, cas): &(&str, &String)| {
            let found = data.get(*field).map_or("", String::as_str);
            !cas.is_empty() && !same_certificates(found, cas)
        };
        let fields = fields.into_iter().filter(differs);
        let lines: Vec<String> = fields
            .map(|(field, _)| format!("{field} in the ConfigMap {} has other CAs{end}", OBJECT[1]))
            .collect();
        Ok((!lines.is_empty()).then(|| lines.join("\n")))
    }

    async fn missing(
        &self,
        host: &dyn Host,
        deletion: &mut Instant,
    ) -> Result<Option<Message>, StepError> {
        let title = self.describe();
        let others = self.others(host, " than the API servers").await?;
        if others.is_some() && Instant::now() >= *deletion {
            delete(host, &title, OBJECT.map(str::to_owned)).await?;
            *deletion = Instant::now() + BETWEEN_DELETIONS;
        }
        let hint =
            "read the log of kube-apiserver on the control planes, then run the same command again";
        Ok(others.map(|lines| Message::new(lines).within(title).hint(hint)))
    }
}

impl Describe for AggregatedCas {
    fn id(&self) -> String {
        "authentication cas".to_owned()
    }

    fn describe(&self) -> String {
        "Let the API servers write the CAs again that kube-scheduler and aggregated API servers trust".to_owned()
    }
}

impl From<AggregatedCas> for Step {
    fn from(step: AggregatedCas) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for AggregatedCas {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let others = self.others(host, "").await?;
        Ok(others.map_or(Check::Satisfied, Check::needed))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let polls = Polls::at_most(WRITTEN);
        let mut deletion = Instant::now();
        while polls
            .go_on(self.missing(context.host, &mut deletion).await)
            .await?
        {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, apply};
    use serde_json::{Value, json};

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nQUFB\n-----END CERTIFICATE-----\n";
    const OTHER: &str = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n";
    const WORDS: &str = "configmap extension-apiserver-authentication -n kube-system";

    fn stored(cas: &str) -> (&'static str, Value) {
        let data = json!({"client-ca-file": cas, "requestheader-client-ca-file": OTHER});
        (WORDS, json!({"data": data}))
    }

    fn step(clients: &str, proxies: &str) -> AggregatedCas {
        AggregatedCas {
            clients: clients.to_owned(),
            proxies: proxies.to_owned(),
        }
    }

    /// An API server that has not read its files again yet adds the former CA once more.
    #[tokio::test(start_paused = true)]
    async fn api_servers_write_the_cas_of_aggregated_ones_again() {
        let (both, clients) = (format!("{OTHER}{ONE}"), step(ONE, ""));
        let host = FakeApi::new(std::iter::repeat_n(stored(&both), 13).chain([stored(ONE)]));
        let needed = |field| {
            Check::needed(format!(
                "{field} in the ConfigMap {} has other CAs",
                OBJECT[1]
            ))
        };
        assert_eq!(
            clients.check(&host).await.unwrap(),
            needed("client-ca-file")
        );
        apply(&clients, &host).await.unwrap();
        assert_eq!(host.changes(), [WORDS, WORDS]);
        assert_eq!(clients.check(&host).await.unwrap(), Check::Satisfied);
        assert_eq!(
            step(ONE, OTHER).check(&host).await.unwrap(),
            Check::Satisfied
        );
        let found = step("", ONE).check(&host).await.unwrap();
        assert_eq!(found, needed("requestheader-client-ca-file"));
        let error = apply(&step(OTHER, ""), &host).await.unwrap_err();
        assert!(
            error.contains("has other CAs than the API servers\nhint: read"),
            "{error}"
        );
        assert!(host.changes().len() > 8);
    }
}
