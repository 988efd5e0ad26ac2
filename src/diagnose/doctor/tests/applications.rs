//! Releases, and objects that need what the cluster does not have.

use super::*;
use crate::doctor::Finding;
use crate::doctor::needs::Need;

/// Objects in the form of `kubectl get storageclasses,…,jobs --all-namespaces -o json`, written by hand: a class, a claim of each
/// kind, Ingresses and Services, and the hook of a release.
const OBJECTS: &str = include_str!("needs.json");

/// Returns the objects that checks look at, without those of these names.
fn needs(without: &[&str]) -> Answer<Need> {
    let list: Value = serde_json::from_str(OBJECTS).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let items = items.filter(|one| {
        let name = one["metadata"]["name"].as_str();
        !without.iter().any(|other| Some(*other) == name)
    });
    let objects: Answer<Need> = objects(items.cloned().collect());
    Ok(objects.unwrap().into_iter().filter(Need::counts).collect())
}

fn report_of(needs: Answer<Need>) -> DoctorReport {
    judge(&seen_with(|api| api.needs = needs))
}

fn findings(report: &DoctorReport, check: &str) -> Vec<Finding> {
    let all = report.findings.iter();
    all.filter(|found| found.check == check).cloned().collect()
}

#[test]
fn claims_without_a_class_are_found() {
    let report = report_of(needs(&[]));
    let [default, unknown] = &findings(&report, "storage-class")[..] else {
        panic!("{report:#?}")
    };
    assert_eq!(
        default.what,
        "claims get no volume: the cluster has no default StorageClass"
    );
    assert_eq!(default.evidence, ["shop/data"]);
    assert_eq!(default.certainty, Certainty::Certain);
    assert!(
        default.commands[0].ends_with("annotate storageclass slow storageclass.kubernetes.io/is-default-class=true --overwrite"),
        "{:?}",
        default.commands
    );
    assert_eq!(
        unknown.what,
        "claims get no volume: the StorageClass fast does not exist"
    );
    assert_eq!(unknown.evidence, ["shop/cache"]);
    assert!(
        unknown.fix.contains("the cluster has slow"),
        "{}",
        unknown.fix
    );

    let bare = report_of(needs(&["slow"]));
    let found = &findings(&bare, "storage-class")[0];
    assert!(
        found.fix.contains("{addon: local-path-provisioner}"),
        "{}",
        found.fix
    );
    assert_eq!(
        found.commands,
        ["kubexm app apply --bundle BUNDLE -f cluster.yaml"]
    );
}

#[test]
fn ingresses_without_a_class_are_found() {
    let report = report_of(needs(&[]));
    let found = findings(&report, "ingress-class");
    let whats: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "Ingresses have no class, and the cluster has no default one",
            "Ingresses have the class absent, which does not exist",
        ]
    );
    assert_eq!(found[0].evidence, ["shop/plain"]);
    assert_eq!(found[0].certainty, Certainty::Likely);
    assert_eq!(found[1].certainty, Certainty::Certain);
    assert!(
        found[1].commands[0].ends_with(
            "-n shop patch ingress named -p '{\"spec\": {\"ingressClassName\": \"traefik\"}}'"
        ),
        "{:?}",
        found[1].commands
    );
    let bare = report_of(needs(&["traefik"]));
    for found in findings(&bare, "ingress-class") {
        assert!(found.fix.contains("{addon: traefik}"), "{}", found.fix);
    }
}

#[test]
fn services_without_an_address_are_found() {
    let found = |without: &[&str]| {
        let report = report_of(needs(without));
        let found = findings(&report, "service-address");
        found.into_iter().next()
    };
    let alone = found(&["served"]).unwrap();
    assert_eq!(alone.evidence, ["shop/web"]);
    assert_eq!(alone.certainty, Certainty::Likely);
    assert!(alone.commands[0].ends_with("-n shop describe service web"));
    // Something assigns addresses.
    assert_eq!(found(&[]).unwrap().certainty, Certainty::Possible);
    assert_eq!(found(&["web"]), None);
}

#[test]
fn metallb_without_addresses_is_found() {
    let mut seen = seen_with(|api| api.needs = needs(&["served"]));
    for (addresses, is_named) in [("", true), (", addresses: [10.0.0.8-10.0.0.9]", false)] {
        let text = format!("applications: [{{addon: metallb{addresses}}}]");
        seen.cluster.applications = kubexm_session::example::cluster_with(&text).applications;
        let found = &findings(&judge(&seen), "service-address")[0];
        assert_eq!(
            found.fix.contains("add addresses to its line"),
            is_named,
            "{}",
            found.fix
        );
        let apply = "kubexm app apply --bundle BUNDLE -f cluster.yaml";
        assert_eq!(found.commands.iter().any(|one| one == apply), is_named);
    }
}

#[test]
fn objects_of_a_moment_ago_may_get_what_they_need() {
    let mut seen = seen_with(|api| api.needs = needs(&[]));
    seen.api.as_mut().unwrap().now -= 4000;
    let report = judge(&seen);
    for check in ["storage-class", "service-address"] {
        assert_eq!(findings(&report, check), [], "{check}");
    }
}

#[test]
fn cluster_that_has_everything_has_no_finding() {
    let needed = ["data", "cache", "plain", "named", "web", "shop-migrate"];
    assert_eq!(causes(&report_of(needs(&needed))), [""; 0]);
}

fn release(kind: ProblemKind) -> Problem {
    let problem = Problem::new(About::Application, "revision 2 of shop/shop is failed", "x");
    problem.of_kind(kind).of(Subject::Release {
        namespace: "shop".to_owned(),
        name: "shop".to_owned(),
    })
}

/// Returns the findings about the failed hook, and about a release.
fn about_release(problem: Option<Problem>) -> Vec<Finding> {
    let others = ["data", "cache", "plain", "named", "web"];
    let mut seen = seen_with(|api| api.needs = needs(&others));
    seen.report.problems.extend(problem);
    findings(&judge(&seen), "releases")
}

#[test]
fn failed_hook_explains_its_release() {
    let [found] = &about_release(Some(release(ProblemKind::ReleaseFailed)))[..] else {
        panic!("the hook and its release are one finding")
    };
    assert_eq!(
        found.evidence,
        [
            "Job shop/shop-migrate: BackoffLimitExceeded: Job has reached the specified backoff limit"
        ]
    );
    assert_eq!(found.certainty, Certainty::Certain);
    let [log, history] = &found.commands[..] else {
        panic!("{:?}", found.commands)
    };
    assert!(
        log.ends_with("-n shop logs job/shop-migrate --all-containers --tail 20"),
        "{log}"
    );
    assert!(history.ends_with("helm history -n shop shop"), "{history}");
}

#[test]
fn failed_hook_without_a_failed_release_is_found() {
    let [found] = &about_release(None)[..] else {
        panic!("the hook is a finding")
    };
    assert_eq!(found.what, "the hook shop/shop-migrate of a release failed");
}

#[test]
fn pods_of_a_release_explain_why_it_failed() {
    let mut seen = seen_with(|api| {
        let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "docker.io/library/app:2: not found"}});
        let containers =
            json!([{"ready": false, "image": "docker.io/library/app:2", "state": state}]);
        let status = json!({"phase": "Pending", "containerStatuses": containers});
        api.pods = pod("web-1", "2026-01-02T03:00:00Z", status);
    });
    seen.report
        .problems
        .push(release(ProblemKind::ReleaseFailed));
    let report = judge(&seen);
    assert_eq!(causes(&report), ["images"]);
    let found = findings(&report, "images");
    assert_eq!(
        found[0].what,
        "the image docker.io/library/app:2 cannot be pulled"
    );
    assert_eq!(
        found[0].commands,
        ["kubexm registry add --bundle BUNDLE -f cluster.yaml"]
    );
    let text = "[{name: shop, namespace: shop, chart: shop}]";
    let with = kubexm_session::example::cluster_with(&format!("applications: {text}"));
    seen.cluster.applications = with.applications;
    assert_eq!(
        findings(&judge(&seen), "images")[0].commands,
        ["kubexm app apply --bundle BUNDLE -f cluster.yaml"]
    );
}

#[test]
fn applications_that_are_not_installed_or_left_are_found() {
    let mut seen = seen(HOST, RUNTIME);
    let missing = Problem::new(
        About::Application,
        "the application shop is not installed",
        "x",
    );
    let problems = &mut seen.report.problems;
    problems.push(missing.of_kind(ProblemKind::ApplicationMissing));
    problems.push(release(ProblemKind::ReleaseFormer));
    let found = findings(&judge(&seen), "applications");
    let commands: Vec<&str> = found
        .iter()
        .flat_map(|one| &one.commands)
        .map(String::as_str)
        .collect();
    assert_eq!(
        commands,
        [
            "kubexm app apply --bundle BUNDLE -f cluster.yaml",
            "kubexm app remove shop --namespace shop -f cluster.yaml",
        ]
    );
}
