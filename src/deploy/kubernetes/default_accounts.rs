//! The default service accounts of namespaces.

use std::time::Duration;

use async_trait::async_trait;
use kubexm_engine::Host;
use kubexm_engine::plan::{Check, Describe, Ensure, Step, StepContext, StepError};
use kubexm_types::Message;
use serde::Deserialize;
use serde_json::json;

use crate::objects::{Metadata, Object, Polls, Server, checked, patch};

/// How long after a namespace the controller manager may create its account.
const CREATED: Duration = Duration::from_secs(60);

/// States in the service accounts `default` of these namespaces that pods do not get their tokens. Keeps a value that is
/// there. Skips namespaces that do not exist.
pub(crate) struct DefaultAccounts(pub(super) Vec<&'static str>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    metadata: Metadata,
    automount_service_account_token: Option<bool>,
}

impl DefaultAccounts {
    /// Returns the namespaces whose accounts state nothing, and whether the account exists.
    async fn open(&self, host: &dyn Host) -> Result<Vec<(&'static str, bool)>, StepError> {
        let (server, title) = (Server::of(host), self.describe());
        let namespaces: Vec<Object> = server.list(&title, &["namespaces"]).await?;
        let words = [
            "serviceaccounts",
            "-A",
            "--field-selector=metadata.name=default",
        ];
        let accounts: Vec<Account> = server.list(&title, &words).await?;
        let exists = |name: &&str| namespaces.iter().any(|one| one.metadata.name == *name);
        let open = |name: &'static str| {
            let mut accounts = accounts.iter();
            let account = accounts.find(|one| one.metadata.namespace == name);
            let states = account.is_some_and(|one| one.automount_service_account_token.is_some());
            (!states).then_some((name, account.is_some()))
        };
        Ok(self
            .0
            .iter()
            .copied()
            .filter(exists)
            .filter_map(open)
            .collect())
    }

    /// Changes the accounts that exist. Returns what to wait for.
    async fn missing(&self, host: &dyn Host) -> Result<Option<Message>, StepError> {
        let mut missing = None;
        for (namespace, exists) in self.open(host).await? {
            if exists {
                let words = ["serviceaccount", "default", "-n", namespace];
                let fields = json!({"automountServiceAccountToken": false});
                patch(host, &self.describe(), &words, &fields).await?;
            } else {
                missing = missing.or(Some(namespace));
            }
        }
        let text = |name| format!("the namespace {name} has no service account default");
        Ok(missing.map(|name| Message::new(text(name)).within(self.describe())))
    }
}

impl Describe for DefaultAccounts {
    fn id(&self) -> String {
        "default service accounts".to_owned()
    }

    fn describe(&self) -> String {
        "Give no tokens of the default service accounts to pods".to_owned()
    }
}

impl From<DefaultAccounts> for Step {
    fn from(step: DefaultAccounts) -> Self {
        Self::Ensure(Box::new(step))
    }
}

#[async_trait]
impl Ensure for DefaultAccounts {
    async fn check(&self, host: &dyn Host) -> Result<Check, StepError> {
        let text =
            |name: &str| format!("the default service account of {name} gives its token to pods");
        let open = self.open(host).await;
        let first = open.map(|open| open.first().map(|(name, _)| text(name)));
        checked(first.map(|first| first.map_or(Check::Satisfied, Check::needed)))
    }

    async fn apply(&self, context: &StepContext<'_>) -> Result<(), StepError> {
        let polls = Polls::at_most(CREATED);
        while polls.go_on(self.missing(context.host).await).await? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_host::{FakeApi, NO_CLUSTER, apply};
    use serde_json::Value;

    fn namespaces(names: &[&str]) -> (&'static str, Value) {
        let names = names.iter().map(|name| json!({"metadata": {"name": name}}));
        ("namespaces", json!({"items": names.collect::<Vec<_>>()}))
    }

    fn accounts(states: &[(&str, Option<bool>)]) -> (&'static str, Value) {
        let one = |(name, state): &(&str, Option<bool>)| {
            let mut account = json!({"metadata": {"namespace": name, "name": "default"}});
            if let Some(state) = state {
                account["automountServiceAccountToken"] = json!(state);
            }
            account
        };
        let all: Vec<Value> = states.iter().map(one).collect();
        ("serviceaccounts -A", json!({"items": all}))
    }

    /// The account of a namespace appears some time after it.
    #[tokio::test(start_paused = true)]
    async fn default_accounts_give_no_tokens_unless_a_user_wants_them() {
        let step = DefaultAccounts(vec!["default", "site", "absent", "young"]);
        let all = namespaces(&["default", "site", "young", "theirs"]);
        let first = [("default", None), ("site", Some(true)), ("theirs", None)];
        let states = |young| {
            let own = [
                ("default", Some(false)),
                ("site", Some(true)),
                ("young", young),
            ];
            accounts(&own)
        };
        let host = FakeApi::new([
            all.clone(),
            accounts(&first),
            accounts(&first),
            states(None),
            states(Some(false)),
        ]);
        let needed =
            Check::needed("the default service account of default gives its token to pods");
        assert_eq!(step.check(&host).await.unwrap(), needed);
        apply(&step, &host).await.unwrap();
        let change = |name| {
            format!(
                "serviceaccount default -n {name} --patch {{\"automountServiceAccountToken\":false}}"
            )
        };
        assert_eq!(host.changes(), [change("default"), change("young")]);
        assert_eq!(step.check(&host).await.unwrap(), Check::Satisfied);
        let without = FakeApi::new([
            all,
            accounts(&[("default", Some(true)), ("site", Some(true))]),
        ]);
        let needed = Check::needed("the default service account of young gives its token to pods");
        assert_eq!(step.check(&without).await.unwrap(), needed);
        let error = apply(&step, &without).await.unwrap_err();
        let missing = "the namespace young has no service account default";
        assert_eq!(error, format!("{}: {missing}", step.describe()));
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_that_does_not_exist_yet_needs_the_step() {
        let step = DefaultAccounts(vec!["default"]);
        let absent = FakeApi::without_cluster();
        let needed = Check::needed(NO_CLUSTER);
        assert_eq!(step.check(&absent).await.unwrap(), needed);
        let silent = FakeApi::silent();
        assert!(step.check(&silent).await.is_err());
        assert!(apply(&step, &silent).await.is_err());
    }
}
