//! Releases of Helm. helm and kubectl are stand-ins.

use super::machine::Machine;
use crate::Parameters;
use crate::applications::{RELEASE, Release};

fn arguments(pending: &str, yes: &str) -> Vec<String> {
    Release {
        name: "shop".to_owned(),
        namespace: "one".to_owned(),
        chart: "/var/lib/kubexm/applications/shop.tgz".to_owned(),
        files: String::new(),
        labels: "kubexm.io/content=876a".to_owned(),
        pending: pending.to_owned(),
        adopts: yes.to_owned(),
        waits: yes.to_owned(),
        seconds: "600".to_owned(),
    }
    .arguments()
}

/// Returns the calls of a run, and what helm read.
fn run(machine: &Machine, arguments: &[String]) -> Vec<String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = machine.run_after(":", RELEASE.verb("apply"), &arguments, "{\"a\":1}");
    assert_eq!(ended.status, 0, "{}", ended.complained);
    machine.calls()
}

#[test]
fn helm_gets_the_values_on_its_standard_input() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", ":");
        machine.fake("helm", "case $1 in show) ;; *) cat >/root/values ;; esac");
        let calls = run(machine, &arguments("", ""));
        let upgrade = "helm upgrade --install shop /var/lib/kubexm/applications/shop.tgz --namespace one \
                       --create-namespace --skip-crds --reset-values --force-conflicts --labels kubexm.io/content=876a \
                       --timeout 600s --values -";
        let show = "helm show crds /var/lib/kubexm/applications/shop.tgz";
        assert_eq!(calls, [show, upgrade]);
        assert_eq!(machine.read("/root/values"), "{\"a\":1}");
        let calls = run(machine, &arguments("sh.helm.release.v1.shop.v2", "yes"));
        assert!(
            calls[0].contains("delete secret --ignore-not-found -n one sh.helm.release.v1.shop.v2")
        );
        assert!(calls[2].ends_with("--take-ownership --wait=watcher --wait-for-jobs --values -"));
    });
}

#[test]
fn removal_waits_for_the_end_of_the_objects() {
    Machine::with_each_shell(|machine| {
        machine.fake("helm", ":");
        let folder = "/var/lib/kubexm/applications";
        for file in ["text/Chart.yaml", "text.tgz", "texts/Chart.yaml"] {
            machine.write(&format!("{folder}/{file}"), "content");
        }
        let arguments = of_folder(folder);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        machine.done(RELEASE.verb("remove"), &arguments);
        let expected =
            "helm uninstall shop --namespace one --ignore-not-found --wait --timeout 600s";
        assert_eq!(machine.calls(), [expected]);
        let is_left =
            ["text", "text.tgz", "texts"].map(|name| machine.has(&format!("{folder}/{name}")));
        assert_eq!(is_left, [false, false, true]);
    });
}

fn of_folder(folder: &str) -> Vec<String> {
    let chart = format!("{folder}/text");
    let files = "Chart.yaml templates/manifests.yaml".to_owned();
    let (name, namespace, seconds) = ("shop".to_owned(), "one".to_owned(), "600".to_owned());
    let release = Release {
        name,
        namespace,
        chart,
        files,
        seconds,
        ..Default::default()
    };
    release.arguments()
}

/// Helm prints the definitions of all parts, and installs those of the parts that the values switch on.
#[test]
fn definitions_of_parts_are_rendered_with_the_values() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "case \"$*\" in *\" get \"*) echo '{\"gitVersion\": \"v1.36.3\"}' ;; *) cat >>/root/applied ;; esac");
        machine.fake(
            "helm",
            "case $1 in\nshow) echo 'kind: All' ;;\ntemplate) echo 'kind: X'; cat >/root/given; (cd \"$3\" && find . -type f) | sort >/root/files ;;\n\
             *) cat >/root/values ;;\nesac",
        );
        let chart = machine.at("/chart");
        let folder = chart.join("shop");
        for (name, text) in [
            ("Chart.yaml", "name: shop"),
            ("templates/a.yaml", "{{ fail }}"),
            ("charts/one/Chart.yaml", "name: one"),
            ("charts/one/templates/a.yaml", ""),
            ("charts/one/crds/templates/x.yaml", "kind: X"),
            ("charts/two/Chart.yaml", "name: two"),
            ("charts/two/templates/a.yaml", ""),
            ("charts/two/charts/three/Chart.yaml", "name: three"),
            ("charts/two/charts/three/templates/a.yaml", ""),
        ] {
            machine.write(&format!("/chart/shop/{name}"), text);
        }
        std::os::unix::fs::symlink("/etc", folder.join("link")).unwrap();
        let pack = |inside: &std::path::Path, name: &str, to: &std::path::Path| {
            let mut tar = std::process::Command::new("tar");
            tar.arg("-czf").arg(to).arg("-C").arg(inside).arg(name);
            assert!(tar.status().unwrap().success());
            std::fs::remove_dir_all(inside.join(name)).unwrap();
        };
        let charts = folder.join("charts");
        // Helm does not load archives whose names begin with `_`.
        std::fs::write(charts.join("_four-1.tgz"), "no archive").unwrap();
        let three = charts.join("two/charts");
        pack(&three, "three", &three.join("three-1.tgz"));
        pack(&charts, "two", &charts.join("two-1.tgz"));
        let place = "/var/lib/kubexm/applications/shop.tgz";
        machine.write(place, "");
        pack(&chart, "shop", &machine.at(place));
        let calls = run(machine, &arguments("", ""));
        let copy = "/var/lib/kubexm/applications/shop.parts";
        let template = format!(
            "helm template shop {copy} --namespace one --kube-version v1.36.3 --include-crds --values -"
        );
        assert!(calls.contains(&template), "{calls:?}");
        assert!(!machine.has(copy));
        let files = machine.read("/root/files");
        let expected = [
            "./Chart.yaml",
            "./charts/_four-1.tgz",
            "./charts/one/Chart.yaml",
            "./charts/one/crds/templates/x.yaml",
            "./charts/two-1.tgz.d/Chart.yaml",
            "./charts/two-1.tgz.d/charts/three-1.tgz.d/Chart.yaml",
        ];
        assert_eq!(files.lines().collect::<Vec<_>>(), expected);
        assert_eq!(machine.read("/root/given"), "{\"a\":1}");
        assert_eq!(machine.read("/root/values"), "{\"a\":1}");
        assert_eq!(machine.read("/root/applied"), "kind: X\nkind: X\n");
    });
}

/// Helm would apply former definitions of custom resources again.
#[test]
fn files_that_a_chart_does_not_have_any_more_are_removed() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", ":");
        machine.fake("helm", ":");
        let chart = "/var/lib/kubexm/applications/text";
        let files = ["Chart.yaml", "templates/manifests.yaml", "crds/crds.yaml"];
        let files = files.map(|name| format!("{chart}/{name}"));
        files.iter().for_each(|file| machine.write(file, "content"));
        run(machine, &of_folder("/var/lib/kubexm/applications"));
        assert_eq!(files.map(|file| machine.has(&file)), [true, true, false]);
    });
}

#[test]
fn definitions_of_custom_resources_are_applied_before() {
    Machine::with_each_shell(|machine| {
        machine.fake("kubectl", "cat >>/root/applied");
        machine.fake(
            "helm",
            "case $1 in show) echo 'kind: X' ;; *) cat >/root/values ;; esac",
        );
        let calls = run(machine, &arguments("", ""));
        let programs: Vec<String> = calls
            .iter()
            .map(|call| {
                call.split(' ')
                    .filter(|word| {
                        ["helm", "kubectl", "apply", "wait", "show", "upgrade"].contains(word)
                    })
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(
            programs,
            ["helm show", "kubectl apply", "kubectl wait", "helm upgrade"]
        );
        assert_eq!(machine.read("/root/applied"), "kind: X\nkind: X\n");
        assert_eq!(machine.read("/root/values"), "{\"a\":1}");
        machine.fake("kubectl", "exit 1");
        let arguments = arguments("", "");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_ne!(
            machine
                .run_after(":", RELEASE.verb("apply"), &arguments, "{}")
                .status,
            0
        );
        assert!(
            !machine
                .calls()
                .iter()
                .any(|call| call.starts_with("helm upgrade"))
        );
    });
}
