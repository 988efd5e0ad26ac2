//! Releases: what an install does with revisions of others, and what its messages show.

use serde_json::json;

use super::release::{release, release_with, revisions};
use super::*;
use crate::fake_host::{FakeApi, NoUndo};
use kubexm_engine::plan::{Ensure, StepContext};
use kubexm_engine::{Command, HostError, Output};
use kubexm_types::event::Events;

/// It can be `helm uninstall` of an administrator.
#[tokio::test]
async fn release_that_helm_removes_is_not_changed() {
    let refused = applied(&revisions(&[("1", "uninstalling", Some("x"))])).await;
    insta::assert_snapshot!(refused.unwrap_err(), @"
    cannot change the release shop: another program works on it, or was killed: revision 1 is uninstalling
    hint: wait until it ends, or run `helm uninstall shop -n one`; then run the same command again
    ");
}

/// Its labels are those of the revision of kubexm.
#[tokio::test]
async fn revision_on_which_an_administrator_works_is_not_deleted() {
    let items = json!({"items": [
        {"secret": "a", "release": "shop", "namespace": "one", "revision": "1", "status": "deployed", "content": "x", "applied": "1"},
        {"secret": "b", "release": "shop", "namespace": "one", "revision": "2", "status": "pending-upgrade", "content": "x", "applied": "1"},
    ]});
    let refused = applied(&FakeApi::new([("secrets", items)])).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("another program works on it"), "{refused}");
}

pub(super) async fn applied(host: &FakeApi) -> Result<String, String> {
    let applied = crate::fake_host::apply(&release("{}"), host).await;
    applied.map(|()| host.changes().join("\n"))
}

#[tokio::test]
async fn revision_that_a_killed_run_left_is_replaced_and_that_of_others_is_not() {
    let killed = revisions(&[
        ("1", "deployed", Some("x")),
        ("2", "pending-upgrade", Some("y")),
    ]);
    let words = applied(&killed).await.unwrap();
    assert!(
        words.contains("pending=sh.helm.release.v1.shop.v2"),
        "{words}"
    );
    // Helm gives the number of the revision that is deleted again.
    assert!(words.contains("kubexm.io/revision=2,"), "{words}");
    let first = applied(&revisions(&[])).await.unwrap();
    assert!(
        first.contains("kubexm.io/revision=1,kubexm.io/secrets=none"),
        "{first}"
    );
    assert!(
        !first.contains("pending=sh.helm") && first.contains("namespace=one"),
        "{first}"
    );
    let labels = ",kubexm.io/chart=shop,kubexm.io/chart-version=1.2.0";
    assert!(first.contains(labels), "{first}");
    let other = applied(&revisions(&[("3", "pending-install", None)])).await;
    insta::assert_snapshot!(other.unwrap_err(), @"
    cannot change the release shop: another program works on it, or was killed: revision 3 is pending-install
    hint: wait until it ends, or run `helm rollback shop -n one`; then run the same command again
    ");
}

/// A host on which a helm of a killed run creates a revision until it ends.
struct WithHelm {
    before: FakeApi,
    after: FakeApi,
    has_ended: std::sync::atomic::AtomicBool,
}

#[async_trait::async_trait]
impl kubexm_engine::Host for WithHelm {
    fn name(&self) -> &kubexm_types::HostName {
        self.after.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        use std::sync::atomic::Ordering;

        if command.description().starts_with("End a helm") {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        if self.has_ended.load(Ordering::Relaxed) {
            self.after.run(command).await
        } else {
            self.before.run(command).await
        }
    }
}

#[tokio::test]
async fn number_of_a_revision_is_that_after_the_end_of_a_helm_that_a_killed_run_left() {
    let host = WithHelm {
        before: revisions(&[("1", "deployed", Some("x"))]),
        after: revisions(&[("1", "superseded", Some("x")), ("2", "deployed", Some("x"))]),
        has_ended: false.into(),
    };
    crate::fake_host::apply(&release("{}"), &host)
        .await
        .unwrap();
    let [end, words] = &host.after.changes()[..] else {
        panic!("it ends a helm, and runs another")
    };
    assert!(end.starts_with("end "), "{end}");
    assert!(words.contains("kubexm.io/revision=3,"), "{words}");
}

/// Keeps warnings.
#[derive(Default)]
struct Said(std::sync::Mutex<Vec<String>>);

impl kubexm_types::event::Listener for Said {
    fn on(&self, event: &kubexm_types::event::Event) {
        if let kubexm_types::event::Event::Warning { message, .. } = event {
            self.0.lock().unwrap().push(message.clone());
        }
    }
}

/// `install` and `upgrade` do not print why a step is needed.
#[tokio::test]
async fn change_of_helm_that_kubexm_undoes_is_a_warning() {
    let items = json!({"items": [{
        "secret": "sh.helm.release.v1.shop.v3", "release": "shop", "namespace": "one", "revision": "3", "status": "deployed",
        "content": "x", "applied": "2",
    }]});
    let stored = json!({"release": stored::packed("{}")});
    let host = FakeApi::new([("secrets", items), ("secret ", stored)]);
    let step = release("{}");
    let said = Arc::new(Said::default());
    let events = Events::new(said.clone());
    let context = StepContext {
        host: &host,
        undo: &NoUndo,
        events: &events,
    };
    step.apply(&context).await.unwrap();
    let said = said.0.lock().unwrap().join("\n");
    insta::assert_snapshot!(said, @"
    node1: helm created revision 3 of the release shop: kubexm applies the chart and the values of the cluster file again
    ");
}

/// A host on which helm quotes a value that it refuses.
struct Quoting(FakeApi);

#[async_trait::async_trait]
impl kubexm_engine::Host for Quoting {
    fn name(&self) -> &kubexm_types::HostName {
        self.0.name()
    }

    async fn run(&self, command: Command) -> Result<Output, HostError> {
        let is_helm = command.description().starts_with("Install");
        // Its output is not in the log of the host.
        let ends = command.description().starts_with("End a helm");
        assert!(command.has_secret_output() || ends);
        let mut output = self.0.run(command).await?;
        if is_helm {
            output.status = 1;
            output.stderr =
                b"invalid value: \"sesame-open\"; it was \"former-value\" and \"former-object\""
                    .to_vec();
        }
        Ok(output)
    }
}

#[tokio::test]
async fn messages_of_helm_have_no_secret() {
    let release = release_with(json!({"a": "sesame-open"}), json!({"a": "hidden"}));
    let revision = json!({"items": [{
        "secret": "sh.helm.release.v1.shop.v1", "release": "shop", "namespace": "one",
        "revision": "1", "status": "deployed", "content": "other",
    }]});
    let manifest =
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: former-object}}";
    let former = json!({"config": {"a": "former-value"}, "manifest": manifest});
    let stored = stored::packed(&former.to_string());
    let question = "secret sh.helm.release.v1.shop.v1";
    let host = Quoting(FakeApi::new([
        ("secrets", revision),
        (question, json!({"release": stored})),
    ]));
    let error = crate::fake_host::apply(&release, &host).await.unwrap_err();
    assert!(
        error.contains("invalid value: \"[redacted]\"; it was \"[redacted]\" and \"[redacted]\""),
        "{error}"
    );
}
