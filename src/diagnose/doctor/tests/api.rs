//! What answers of the API lead to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::status::{About, Problem, ProblemKind, Subject};

#[test]
fn answers_of_the_api_lead_to_their_cause() {
    let pod = "default/web-1\tnode2\tPending\t2026-01-02T03:00:00Z\t[]\t";
    let image = format!(
        "pod={pod}[{{\"ready\":false,\"image\":\"x:1\",\"state\":{{\"waiting\":{{\"reason\":\"ErrImagePull\",\"message\":\"not found\"}}}}}}]\t"
    );
    for (old, new, check) in [
        ("slice=", "slice=default/policy\tfalse", "webhooks"),
        (
            "apiservice=",
            "apiservice=v1.x\tdefault/x\t[{\"type\":\"Available\",\"status\":\"False\",\"message\":\"m\"}]",
            "api-services",
        ),
        (
            "node=",
            "node=node2\t[{\"address\":\"10.0.2.15\",\"type\":\"InternalIP\"}]\t",
            "node-address",
        ),
        (
            "",
            "request=csr-1\tkubernetes.io/kubelet-serving\tsystem:node:node2\t2026-01-02T03:00:00Z\t",
            "kubelet-requests",
        ),
        ("", image.as_str(), "images"),
        ("", &format!("pod={pod}\t"), "pods"),
        ("dns=", "dns=coredns-1\tnode1\t10.244.0.2\tFalse", "dns"),
        (
            "",
            "terminating=old\t2026-01-02T02:00:00Z\t[{\"status\":\"True\",\"message\":\"m\"}]",
            "namespaces",
        ),
    ] {
        let report = judge(&seen(HOST, RUNTIME, &changed(API, old, new)));
        assert_eq!(causes(&report), [check], "{new}");
    }
}

/// Returns a row about a bootstrap token.
fn token(id: &str, end: &str, created: &str) -> String {
    let [end, signs] = [end, "true"].map(|text| STANDARD.encode(text));
    format!("token=bootstrap-token-{id}\t{end}\t{signs}\t{created}")
}

#[test]
fn tokens_that_no_node_can_join_with_are_found() {
    let (past, future) = ("2026-01-02T02:00:00Z", "2026-01-03T02:00:00Z");
    let info = "cluster_info={\"kubeconfig\":\"\",\"jws-kubeconfig-signed\":\"x\"}";
    for (rows, what) in [
        (
            vec![token("old", past, past)],
            "tokens for joins have expired, and still exist",
        ),
        (
            vec![token("new", future, past)],
            "the ConfigMap cluster-info has no signature for tokens that are valid",
        ),
        // The controller manager signs for a new token within seconds, and a token may have no end.
        (vec![token("new", future, "2026-01-02T03:03:55Z")], ""),
        (
            vec![token("signed", future, past), token("signed", "", past)],
            "",
        ),
    ] {
        let api = changed(API, "", &format!("{info}\n{}", rows.join("\n")));
        let report = judge(&seen(HOST, RUNTIME, &api));
        let found = report
            .findings
            .iter()
            .find(|found| found.check == "join-tokens");
        assert_eq!(found.map_or("", |found| &found.what), what, "{rows:?}");
    }
}

#[test]
fn controller_manager_that_is_stopped_explains_old_tokens() {
    let api = changed(
        API,
        "",
        &token("old", "2026-01-02T02:00:00Z", "2026-01-02T01:00:00Z"),
    );
    let mut seen = seen(HOST, RUNTIME, &api);
    let what = "kube-controller-manager does not run: its manifest does not exist";
    let problem = Problem::new(About::Program, what, "").on(&name("node1"));
    let program = Subject::Program("kube-controller-manager".to_owned());
    let problems = &mut seen.report.problems;
    problems.push(problem.of_kind(ProblemKind::Stopped).of(program));
    assert_eq!(causes(&judge(&seen)), ["control-plane"]);
}

#[test]
fn questions_that_failed_are_no_finding() {
    let mut api = changed(API, "dns=", "failed=dns\nfailed=cluster_info ");
    for (old, new) in [("slice=", "failed=slice"), ("webhook=", "failed=webhook x")] {
        api = format!("{}{api}", changed(&api, old, new));
    }
    let report = judge(&seen(HOST, RUNTIME, &api));
    assert_eq!(report.findings, []);
}

/// Returns the finding about an API whose backend has not been available since this time.
fn unavailable(since: &str) -> crate::doctor::Finding {
    let row = format!(
        "apiservice=v1.x\tshop/x\t[{{\"type\":\"Available\",\"status\":\"False\",\"message\":\"m\"{since}}}]"
    );
    let report = judge(&seen(HOST, RUNTIME, &changed(API, "apiservice=", &row)));
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "api-services");
    found.unwrap().clone()
}

#[test]
fn backend_may_be_starting_for_some_minutes() {
    for (since, certainty) in [
        ("", Certainty::Certain),
        (
            ",\"lastTransitionTime\":\"2026-01-02T03:00:00Z\"",
            Certainty::Certain,
        ),
        (
            ",\"lastTransitionTime\":\"2026-01-02T03:03:00Z\"",
            Certainty::Possible,
        ),
    ] {
        assert_eq!(unavailable(since).certainty, certainty, "{since}");
    }
    for (namespace, time, certainty) in [
        ("default", "2026-01-02T03:03:00Z", Certainty::Possible),
        ("default", "2026-01-02T03:00:00Z", Certainty::Certain),
        ("shop", "2026-01-02T03:03:00Z", Certainty::Certain),
    ] {
        let ready = format!(
            "[{{\"type\":\"Ready\",\"status\":\"False\",\"lastTransitionTime\":\"{time}\"}}]"
        );
        let pod =
            format!("pod={namespace}/policy-1\tnode2\tRunning\t2026-01-01T00:00:00Z\t{ready}\t");
        let api = changed(
            API,
            "slice=",
            &format!("slice=default/policy\tfalse\n{pod}"),
        );
        let report = judge(&seen(HOST, RUNTIME, &api));
        let mut found = report.findings.iter();
        let found = found.find(|found| found.check == "webhooks").unwrap();
        assert_eq!(found.certainty, certainty, "{namespace} {time}");
    }
}

#[test]
fn commands_never_delete_webhooks_and_apis() {
    let found = unavailable("");
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
    let hook = |name: &str| {
        format!(
            "{{\"name\":\"{name}.example.com\",\"failurePolicy\":\"Fail\",\"clientConfig\":{{\"service\":{{\"namespace\":\"default\",\"name\":\"{name}\"}}}}}}"
        )
    };
    let hooks = ["absent", "policy", "gone"].map(hook).join(",");
    let row = format!("webhook=validatingwebhookconfigurations\tpolicy\t[{hooks}]");
    let report = judge(&seen(HOST, RUNTIME, &changed(API, "webhook=", &row)));
    let mut causes = report.causes();
    let found = causes.find(|found| found.check == "webhooks").unwrap();
    let change = |at: usize| {
        format!(
            "{{\"op\": \"replace\", \"path\": \"/webhooks/{at}/failurePolicy\", \"value\": \"Ignore\"}}"
        )
    };
    let patch = format!("'[{}, {}]'", change(0), change(2));
    assert!(found.commands[0].ends_with(&patch), "{:?}", found.commands);
    assert_eq!(found.commands.len(), 1, "{:?}", found.commands);
}
