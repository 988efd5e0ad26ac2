use super::*;
use kubexm_session::example::cluster_with;

fn release(namespace: &str, name: &str, status: &str) -> InstalledRelease {
    InstalledRelease {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        revision: 3,
        compared: 3,
        status: status.to_owned(),
        chart: Some("shop".to_owned()),
        chart_version: Some("1.2.0".to_owned()),
        is_of_kubexm: true,
        is_changed_by_helm: false,
    }
}

fn judged(releases: Vec<InstalledRelease>) -> (Vec<ApplicationState>, String) {
    let cluster = cluster_with(
        "applications: [{name: shop, chart: shop}, {name: text, namespace: one, manifests: [a.yaml]}]",
    );
    let unready = [(
        "one".to_owned(),
        vec!["one/web-1 on node2: ImagePullBackOff".to_owned()],
    )];
    let installed = Installed {
        releases,
        unready: unready.into(),
    };
    let mut problems = Vec::new();
    let states = judge(&cluster, &installed, &mut problems);
    let problems = problems
        .iter()
        .map(|problem| format!("{:?}: {problem}\n", problem.kind));
    (states, problems.collect())
}

#[test]
fn applications_that_are_not_deployed_are_problems() {
    let (states, problems) = judged(vec![
        release("default", "shop", "failed"),
        release("one", "old", "pending-upgrade"),
        release("two", "gone", "uninstalling"),
    ]);
    insta::assert_snapshot!(problems, @"
    ReleaseFailed: revision 3 of the release default/shop is failed
      hint: `helm history shop -n default` on a control plane shows why; correct the application, and run `kubexm app apply`
    ApplicationMissing: the application text is not installed in the namespace one
      hint: `kubexm app apply` installs it from a bundle, and so does `kubexm install`
    ReleaseFormer: the release one/old is not in the cluster file
      hint: add it to spec.applications again, or run `kubexm app remove old --namespace one`
    ReleasePending: revision 3 of the release one/old is pending-upgrade
      hint: wait until Helm ends; if it was killed, `kubexm app apply` continues
    ReleaseFormer: the release two/gone is not in the cluster file
      hint: add it to spec.applications again, or run `kubexm app remove gone --namespace two`
    ReleasePending: revision 3 of the release two/gone is uninstalling
      hint: wait until Helm ends; if it was killed, `helm uninstall gone -n two` on a control plane continues
    PodNotReady: a pod is not ready: one/web-1 on node2: ImagePullBackOff
      hint: `kubexm doctor` looks for the cause
    ");
    let shown = |state: &ApplicationState| {
        let release = state.release.as_ref().map(|one| one.status.clone());
        (state.name.clone(), state.is_in_cluster_file, release)
    };
    let states: Vec<_> = states.iter().map(shown).collect();
    let of = |name: &str, is_known, status: Option<&str>| {
        (name.to_owned(), is_known, status.map(str::to_owned))
    };
    assert_eq!(
        states,
        [
            of("shop", true, Some("failed")),
            of("text", true, None),
            of("old", false, Some("pending-upgrade")),
            of("gone", false, Some("uninstalling")),
        ]
    );
}

#[test]
fn release_that_helm_has_changed_is_a_problem() {
    let changed = InstalledRelease {
        is_changed_by_helm: true,
        ..release("default", "shop", "deployed")
    };
    let (states, problems) = judged(vec![changed, release("one", "text", "deployed")]);
    insta::assert_snapshot!(problems, @"
    ReleaseChanged: the release default/shop was changed by helm since kubexm applied it, revision 3
      hint: `kubexm app apply` applies the values of the cluster file again, and `kubexm app diff` shows what that changes; write into the cluster file what is to stay
    PodNotReady: a pod is not ready: one/web-1 on node2: ImagePullBackOff
      hint: `kubexm doctor` looks for the cause
    ");
    let is_changed =
        |state: &ApplicationState| state.release.as_ref().map(|one| one.is_changed_by_helm);
    assert_eq!(
        states.iter().map(is_changed).collect::<Vec<_>>(),
        [Some(true), Some(false)]
    );
}

#[test]
fn deployed_application_has_its_pods() {
    let (states, problems) = judged(vec![
        release("default", "shop", "deployed"),
        release("one", "text", "deployed"),
    ]);
    insta::assert_snapshot!(problems, @"
    PodNotReady: a pod is not ready: one/web-1 on node2: ImagePullBackOff
      hint: `kubexm doctor` looks for the cause
    ");
    let [shop, text] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!((shop.unready_pods.len(), text.unready_pods.len()), (0, 1));
    let version = |state: &ApplicationState| state.release.as_ref()?.version.clone();
    assert_eq!(version(shop).as_deref(), Some("1.2.0"));
}

#[test]
fn uninstalled_release_is_no_application() {
    let (_, problems) = judged(vec![
        release("default", "shop", "uninstalled"),
        release("one", "text", "deployed"),
    ]);
    let first = problems.lines().next().unwrap();
    assert_eq!(
        first,
        "ApplicationMissing: the application shop is not installed in the namespace default"
    );
}
