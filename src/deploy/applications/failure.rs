//! Why the objects of an application do not become ready: Helm knows only that they do not.

use std::collections::BTreeSet;
use std::time::Duration;

use kubexm_engine::Host;
use kubexm_engine::plan::StepError;
use kubexm_engine::steps::LONGEST_REASON;
use kubexm_types::{Namespace, ReleaseName, Untrusted};
use serde::Deserialize;

use super::hidden::Hidden;
use super::installed::{newest, revisions};
use super::object::ManifestObject;
use super::resources::Resources;
use super::stored::{StoredHook, StoredRelease, stored};
use crate::kubernetes::system_pods::troubles;
use crate::objects::event::{OF_CONTROLLERS, failures};
use crate::objects::{Condition, Event, Pod, Server, condition};

/// The most lines about controllers, and about hooks.
const MOST: usize = 5;
/// The most namespaces besides that of the application.
const MOST_NAMESPACES: usize = 4;
/// How much earlier an event of this run can be: events have whole seconds, and the clocks of control planes differ.
const SKEW: Duration = Duration::from_secs(5);
const CLAIM: &str = "PersistentVolumeClaim";

/// A Job.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Job {
    status: JobStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobStatus {
    conditions: Vec<Condition>,
}

/// An application that failed.
pub(super) struct Failure<'a> {
    pub(super) name: &'a ReleaseName,
    pub(super) namespace: &'a Namespace,
    /// How long Helm waits for the objects, and for each hook.
    pub(super) timeout: Duration,
    /// The number of the last revision before Helm worked.
    pub(super) before: u64,
    pub(super) hidden: &'a Hidden,
}

impl Failure<'_> {
    /// Returns lines for the user: hooks that failed, pods that are not ready, and what controllers cannot create. Those of the
    /// release come first. They have no secrets. What the API server does not answer is left out, and without a revision of this run
    /// there are none.
    pub(super) async fn reasons(&self, host: &dyn Host) -> Vec<String> {
        let server = Server::of(host);
        let Ok(Some(stored)) = self.newest(server).await else {
            return Vec::new();
        };
        let parse = |manifest: &str| {
            let own = self.namespace.as_str();
            let objects = ManifestObject::parse(manifest, own, &Resources::default());
            objects.unwrap_or_default()
        };
        let mut objects = parse(&stored.manifest);
        let namespaces = self.namespaces(&objects);
        objects.extend(stored.hooks.iter().flat_map(|hook| parse(&hook.manifest)));
        let hidden = self.hidden.with_secrets(objects.iter());
        // A reason is cut when its secrets are hidden.
        let line = |text: String| {
            let text = hidden.text(&text);
            Untrusted::one_line(&text, LONGEST_REASON).to_string()
        };
        let mut reasons = Vec::new();
        for hook in stored.hooks.iter().filter(|hook| !hook.has_succeeded()) {
            if reasons.len() < MOST {
                reasons.extend(self.hook(server, hook).await.map(line));
            }
        }
        let (mut pods, mut events) = (Vec::new(), Vec::new());
        let is_of_release = |namespace: &str, kind: &str, name: &str| {
            let own = self.namespace.as_str();
            let is_there =
                |one: &&ManifestObject| one.namespace.as_deref().unwrap_or(own) == namespace;
            let mut objects = objects.iter().filter(is_there);
            objects.any(|one| is_of(one, kind, name))
        };
        for namespace in &namespaces {
            let is_own = namespace == self.namespace.as_str();
            let belongs = |kind: &str, name: &str| is_own || is_of_release(namespace, kind, name);
            let words = ["pods", "-n", namespace];
            let found = server.list::<Pod>("read the pods of the application", &words);
            let found = found.await.unwrap_or_default().into_iter();
            pods.extend(found.filter(|pod| belongs("Pod", &pod.metadata.name)));
            let words = [&OF_CONTROLLERS[..], &["-n", namespace]].concat();
            let found = server.list::<Event>("read the events of the application", &words);
            let found = found.await.unwrap_or_default().into_iter();
            events.extend(found.filter(|event| {
                let object = &event.involved_object;
                belongs(&object.kind, &object.name) && self.is_new(event, &stored)
            }));
        }
        pods.sort_by_key(|pod| !is_of_release(&pod.metadata.namespace, "Pod", &pod.metadata.name));
        let found = troubles(host, &pods, |text| hidden.text(text)).await;
        reasons.extend(found.unwrap_or_default());
        let mut failures = failures(events);
        failures.sort_by_key(|event| {
            let object = &event.involved_object;
            !is_of_release(&object.namespace, &object.kind, &object.name)
        });
        reasons.extend(failures.into_iter().take(MOST).map(|event| {
            let object = &event.involved_object;
            line(format!(
                "{} {}/{}: {}: {}",
                object.kind, object.namespace, object.name, event.reason, event.message
            ))
        }));
        reasons
    }

    /// Returns the revision that Helm has created in this run.
    async fn newest(&self, server: Server<'_>) -> Result<Option<StoredRelease>, StepError> {
        let all = revisions(server, self.name, self.namespace).await?;
        match newest(&all).filter(|newest| newest.number() > self.before) {
            Some(newest) => {
                let stored = stored(server, self.namespace.as_str(), newest).await;
                stored.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Returns whether an event has happened since Helm created the revision.
    fn is_new(&self, event: &Event, stored: &StoredRelease) -> bool {
        match (event.time(), stored.began()) {
            (Some(time), Some(began)) => time + SKEW >= began,
            _ => true,
        }
    }

    /// Returns the namespaces of the application, its own first.
    fn namespaces(&self, objects: &[ManifestObject]) -> Vec<String> {
        let own = self.namespace.as_str();
        let others = objects.iter().filter_map(|one| one.namespace.as_deref());
        let others: BTreeSet<&str> = others.filter(|other| *other != own).collect();
        let others = others.into_iter().take(MOST_NAMESPACES);
        let all = [own].into_iter().chain(others);
        all.map(str::to_owned).collect()
    }

    /// Returns why a hook failed, or that it did not end in time.
    async fn hook(&self, server: Server<'_>, hook: &StoredHook) -> Option<String> {
        let own = self.namespace.as_str();
        let objects = ManifestObject::parse(&hook.manifest, own, &Resources::default());
        let object = objects.ok()?.into_iter().next()?;
        let namespace = object.namespace.as_deref().unwrap_or(own);
        let why = match self.job(server, &object, namespace).await {
            Some(failed) => format!("{}: {}", failed.reason, failed.message),
            None if hook.seconds()? >= self.timeout.as_secs() => format!(
                "it has not ended within {} seconds, the time limit of the application (timeoutSeconds)",
                self.timeout.as_secs()
            ),
            None => "it failed".to_owned(),
        };
        Some(format!(
            "hook {} {namespace}/{} ({}): {why}",
            object.kind,
            object.name,
            hook.events.join(", ")
        ))
    }

    /// Returns the condition of the Job of a hook that failed.
    async fn job(
        &self,
        server: Server<'_>,
        object: &ManifestObject,
        namespace: &str,
    ) -> Option<Condition> {
        if object.kind != "Job" {
            return None;
        }
        let words = ["job", &object.name, "-n", namespace, "--ignore-not-found"];
        let found = server.find::<Job>("read the Job of a hook", &words).await;
        let job = found.ok()??;
        let failed = condition(&job.status.conditions, "Failed")?;
        (failed.status == "True").then(|| failed.clone())
    }
}

/// Returns whether an object is this one of the release, or one that a controller created for it: its name begins with that of the
/// object of the release. The claims of a StatefulSet have a name before.
fn is_of(one: &ManifestObject, kind: &str, name: &str) -> bool {
    let rest = name.strip_prefix(one.name.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        || kind == CLAIM && name.contains(&format!("-{}-", one.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::stored::packed;
    use crate::fake_host::FakeApi;
    use serde_json::{Value, json};

    fn event(kind: &str, namespace: &str, name: &str, message: &str) -> Value {
        json!({
            "involvedObject": {"kind": kind, "namespace": namespace, "name": name},
            "reason": "FailedCreate", "message": message, "lastTimestamp": "2026-01-02T03:00:00Z",
        })
    }

    fn pod(namespace: &str, name: &str) -> Value {
        let waiting = json!({"reason": "ImagePullBackOff", "message": "not found"});
        json!({
            "metadata": {"namespace": namespace, "name": name},
            "status": {"containerStatuses": [{"ready": false, "state": {"waiting": waiting}}]},
        })
    }

    async fn reasons(manifest: &str, hooks: Value, others: Vec<(&'static str, Value)>) -> String {
        reasons_after(0, manifest, hooks, others).await
    }

    /// Returns the reasons of a run before which the release had so many revisions.
    async fn reasons_after(
        before: u64,
        manifest: &str,
        hooks: Value,
        others: Vec<(&'static str, Value)>,
    ) -> String {
        let revision = json!({"items": [{
            "secret": "sh.helm.release.v1.shop.v1", "release": "shop", "namespace": "one",
            "revision": "1", "status": "failed",
        }]});
        let info = json!({"last_deployed": "2026-01-02T04:00:00.5+01:00"});
        let content = json!({"manifest": manifest, "hooks": hooks, "info": info}).to_string();
        let host = FakeApi::new(
            [
                ("secrets", revision),
                (
                    "secret sh.helm.release.v1.shop.v1",
                    json!({"release": packed(&content)}),
                ),
            ]
            .into_iter()
            .chain(others),
        );
        let (name, namespace) = (ReleaseName::parse("shop"), Namespace::parse("one"));
        let failure = Failure {
            name: &name.unwrap(),
            namespace: &namespace.unwrap(),
            timeout: Duration::from_secs(600),
            before,
            hidden: &Hidden::new(BTreeSet::from(["sesame-open-the-door".to_owned()])),
        };
        failure.reasons(&host).await.join("\n")
    }

    #[tokio::test]
    async fn controllers_that_create_nothing_and_pods_elsewhere_are_named() {
        let manifest = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}\n---\n\
            {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: kube-system}}\n";
        let quota = "pods \"web-1-x\" is forbidden: exceeded quota: pods";
        let account =
            "pods \"agent-\" is forbidden: error looking up service account kube-system/agent";
        let found = reasons(
            manifest,
            json!(null),
            vec![
                ("pods -n one", json!({"items": []})),
                (
                    "pods -n kube-system",
                    json!({"items": [pod("kube-system", "agent-x7k2p"), pod("kube-system", "agents-1")]}),
                ),
                (
                    "events --field-selector involvedObject.kind!=Pod -n one",
                    json!({"items": [event("ReplicaSet", "one", "web-1", quota)]}),
                ),
                (
                    "events --field-selector involvedObject.kind!=Pod -n kube-system",
                    json!({"items": [
                        event("DaemonSet", "kube-system", "agent", account),
                        event("DaemonSet", "kube-system", "other", "not of the release"),
                    ]}),
                ),
            ],
        );
        insta::assert_snapshot!(found.await, @r#"
        kube-system/agent-x7k2p: ImagePullBackOff: not found
        DaemonSet kube-system/agent: FailedCreate: pods "agent-" is forbidden: error looking up service account kube-system/agent
        ReplicaSet one/web-1: FailedCreate: pods "web-1-x" is forbidden: exceeded quota: pods
        "#);
    }

    #[tokio::test]
    async fn failures_of_the_release_come_first_and_those_of_earlier_runs_not_at_all() {
        let manifest = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}";
        let mut former = event("ReplicaSet", "one", "web-0", "of an earlier run");
        former["lastTimestamp"] = json!("2026-01-02T02:59:00Z");
        let mut others: Vec<Value> = (1..9)
            .map(|at| event("ReplicaSet", "one", &format!("other-{at}"), "of another"))
            .collect();
        others.extend([
            former,
            event("ReplicaSet", "one", "web-1", "of the release"),
        ]);
        let pods: Vec<Value> = (1..9)
            .map(|at| pod("one", &format!("other-{at}")))
            .chain([pod("one", "web-1-x")])
            .collect();
        let said = || {
            vec![
                ("pods -n one", json!({"items": pods.clone()})),
                ("events", json!({"items": others.clone()})),
            ]
        };
        let hooks = json!([{"manifest": "{kind: Job, metadata: {name: a}}", "last_run": {"phase": "Failed"}}]);
        let found = reasons(manifest, json!(null), said()).await;
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 10, "{found}");
        assert!(lines[0].starts_with("one/web-1-x: "), "{found}");
        assert!(
            lines[5].ends_with("web-1: FailedCreate: of the release"),
            "{found}"
        );
        assert!(!found.contains("earlier run"), "{found}");
        // Helm refused the values, and has created no revision.
        let found = reasons_after(1, manifest, hooks, said()).await;
        assert_eq!(found, "");
    }

    /// Nothing finds a part of a secret.
    #[tokio::test]
    async fn secrets_are_hidden_before_a_reason_is_cut() {
        for length in LONGEST_REASON - 60..LONGEST_REASON {
            let message = format!("{} sesame-open-the-door", "x".repeat(length));
            let events = json!({"items": [event("ReplicaSet", "one", "web-1", &message)]});
            let pods = json!({"items": [{
                "metadata": {"namespace": "one", "name": "web-1"},
                "status": {"containerStatuses": [{"state": {"waiting": {"reason": "A", "message": message}}}]},
            }]});
            let others = vec![("pods -n one", pods), ("events", events)];
            let found = reasons("", json!(null), others).await;
            assert_eq!(found.lines().count(), 2, "{found}");
            assert!(!found.contains("sesa"), "{found}");
        }
    }

    #[tokio::test]
    async fn hooks_that_failed_or_did_not_end_are_named() {
        let hook = |name: &str, phase: &str, end: &str| {
            let manifest =
                format!("{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}}}");
            let run = json!({"phase": phase, "started_at": "2026-01-02T03:00:00.5+02:00", "completed_at": end});
            json!({"manifest": manifest, "events": ["pre-install", "pre-upgrade"], "last_run": run})
        };
        let failed = json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has failed twice"});
        let found = reasons(
            "",
            json!([
                hook("prepare", "Succeeded", ""),
                hook("migrate", "Failed", "2026-01-02T03:00:20+02:00"),
                hook("wait", "Failed", "2026-01-02T03:10:00.6+02:00"),
                hook("refused", "Failed", "2026-01-02T03:00:01+02:00"),
                {"manifest": "{kind: Job, metadata: {name: later}}", "last_run": {"phase": ""}},
            ]),
            vec![(
                "job migrate -n one",
                json!({"status": {"conditions": [failed]}}),
            )],
        );
        insta::assert_snapshot!(found.await, @"
        hook Job one/migrate (pre-install, pre-upgrade): BackoffLimitExceeded: it has failed twice
        hook Job one/wait (pre-install, pre-upgrade): it has not ended within 600 seconds, the time limit of the application (timeoutSeconds)
        hook Job one/refused (pre-install, pre-upgrade): it failed
        ");
    }
}
