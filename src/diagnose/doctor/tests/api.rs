//! What answers of the API lead to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::status::{About, Problem, ProblemKind, Subject};

#[test]
fn answers_of_the_api_lead_to_their_cause() {
    const CREATED: &str = "2026-01-02T03:00:00Z";
    type Change = fn(&mut Api);
    let changes: [(Change, &str); 7] = [
        (|api| api.services = Ok(Vec::new()), "webhooks"),
        (
            |api| api.api_services = api_service(json!({"type": "Available", "status": "False"})),
            "api-services",
        ),
        (
            |api| {
                let spec = json!({"signerName": "kubernetes.io/kubelet-serving", "username": "system:node:node2"});
                let metadata = json!({"name": "csr-1", "creationTimestamp": CREATED});
                api.requests = objects(json!([{"metadata": metadata, "spec": spec}]));
            },
            "kubelet-requests",
        ),
        (
            |api| {
                let state = json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}});
                let containers = json!([{"ready": false, "image": "x:1", "state": state}]);
                let status = json!({"phase": "Pending", "containerStatuses": containers});
                api.pods = pod("web-1", CREATED, status);
            },
            "images",
        ),
        (
            |api| api.pods = pod("web-1", CREATED, json!({"phase": "Pending"})),
            "pods",
        ),
        (|api| api.dns = dns("False"), "dns"),
        (
            |api| {
                let metadata = json!({"name": "old", "deletionTimestamp": "2026-01-02T02:00:00Z"});
                let status =
                    json!({"conditions": [{"type": "x", "status": "True", "message": "m"}]});
                api.namespaces = objects(json!([{"metadata": metadata, "status": status}]));
            },
            "namespaces",
        ),
    ];
    for (change, check) in changes {
        assert_eq!(causes(&judge(&seen_with(change))), [check]);
    }
    let mut seen = seen(HOST, RUNTIME);
    seen.nodes = nodes("10.0.2.15");
    assert_eq!(causes(&judge(&seen)), ["node-address"]);
}

/// Returns a bootstrap token, as the template prints it.
fn token(id: &str, end: &str, created: &str) -> Value {
    let [end, signs] = [end, "true"].map(|text| STANDARD.encode(text));
    let metadata = json!({"name": format!("bootstrap-token-{id}"), "creationTimestamp": created});
    let data = json!({"expiration": end, "usage-bootstrap-signing": signs});
    json!({"metadata": metadata, "data": data})
}

#[test]
fn tokens_that_no_node_can_join_with_are_found() {
    let (past, future) = ("2026-01-02T02:00:00Z", "2026-01-03T02:00:00Z");
    let mut without_end = token("signed", "", past);
    without_end["data"]["expiration"] = "<no value>".into();
    let mut without_data = token("old", past, past);
    without_data["data"] = json!({});
    for (tokens, what) in [
        (
            json!([token("old", past, past)]),
            "tokens for joins have expired, and still exist",
        ),
        (
            json!([token("new", future, past)]),
            "the ConfigMap cluster-info has no signature for tokens that are valid",
        ),
        // The controller manager signs for a new token within seconds, and a token may have no end.
        (json!([token("new", future, "2026-01-02T03:03:55Z")]), ""),
        (
            json!([token("signed", future, past), without_end, without_data]),
            "",
        ),
    ] {
        let seen = seen_with(|api| {
            let data = json!({"kubeconfig": "", "jws-kubeconfig-signed": "x"});
            api.cluster_info = objects(json!([{"data": data}]));
            api.tokens = objects(tokens.clone());
        });
        let report = judge(&seen);
        let found = report
            .findings
            .iter()
            .find(|found| found.check == "join-tokens");
        assert_eq!(found.map_or("", |found| &found.what), what, "{tokens}");
    }
}

#[test]
fn controller_manager_that_is_stopped_explains_old_tokens() {
    let mut seen = seen_with(|api| {
        let old = token("old", "2026-01-02T02:00:00Z", "2026-01-02T01:00:00Z");
        api.tokens = objects(json!([old]));
    });
    let what = "kube-controller-manager does not run: its manifest does not exist";
    let problem = Problem::new(About::Program, what, "").on(&name("node1"));
    let program = Subject::Program("kube-controller-manager".to_owned());
    let problems = &mut seen.report.problems;
    problems.push(problem.of_kind(ProblemKind::Stopped).of(program));
    assert_eq!(causes(&judge(&seen)), ["control-plane"]);
}

#[test]
fn questions_that_failed_are_no_finding() {
    let report = judge(&seen_with(|api| {
        let cause = || "Unable to connect".to_owned();
        (api.dns, api.cluster_info) = (Err(cause()), Err(cause()));
        (api.services, api.webhooks) = (Err(cause()), Err(cause()));
    }));
    assert_eq!(report.findings, []);
}

/// Returns the finding about an API whose backend has not been available since this time.
fn unavailable(since: Value) -> crate::doctor::Finding {
    let condition = json!({"type": "Available", "status": "False", "message": "m", "lastTransitionTime": since});
    let report = judge(&seen_with(|api| api.api_services = api_service(condition)));
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "api-services");
    found.unwrap().clone()
}

#[test]
fn backend_may_be_starting_for_some_minutes() {
    for (since, certainty) in [
        (Value::Null, Certainty::Certain),
        ("2026-01-02T03:00:00Z".into(), Certainty::Certain),
        ("2026-01-02T03:03:00Z".into(), Certainty::Possible),
    ] {
        assert_eq!(unavailable(since).certainty, certainty);
    }
    for (namespace, time, certainty) in [
        ("default", "2026-01-02T03:03:00Z", Certainty::Possible),
        ("default", "2026-01-02T03:00:00Z", Certainty::Certain),
        ("shop", "2026-01-02T03:03:00Z", Certainty::Certain),
    ] {
        let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": time});
        let status = json!({"phase": "Running", "conditions": [ready]});
        let mut pods = pod("policy-1", "2026-01-01T00:00:00Z", status).unwrap();
        pods[0].metadata.namespace = namespace.to_owned();
        let report = judge(&seen_with(|api| {
            (api.services, api.pods) = (Ok(Vec::new()), Ok(pods));
        }));
        let mut found = report.findings.iter();
        let found = found.find(|found| found.check == "webhooks").unwrap();
        assert_eq!(found.certainty, certainty, "{namespace} {time}");
    }
}

#[test]
fn commands_never_delete_webhooks_and_apis() {
    let found = unavailable(Value::Null);
    assert_eq!(
        found.commands,
        [
            "kubexm exec -f cluster.yaml --host node1 -- kubectl --kubeconfig /etc/kubernetes/admin.conf -n shop get services,endpointslices,pods -o wide"
        ]
    );
    assert!(found.fix.contains("last resort"), "{}", found.fix);
}

#[test]
fn patch_names_each_webhook_without_a_backend() {
    let hooks = webhooks(&["absent", "policy", "gone"]);
    let report = judge(&seen_with(|api| api.webhooks = hooks));
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "webhooks").unwrap();
    let change = |at: usize| {
        format!(
            "{{\"op\": \"replace\", \"path\": \"/webhooks/{at}/failurePolicy\", \"value\": \"Ignore\"}}"
        )
    };
    let patch = format!("'[{}, {}]'", change(0), change(2));
    let patch = format!("patch validatingwebhookconfiguration policy --type json -p {patch}");
    assert!(found.commands[0].ends_with(&patch), "{:?}", found.commands);
    assert_eq!(found.commands.len(), 1, "{:?}", found.commands);
}
