//! Tests of the script that lists pods and restarts workloads in a rotation.

use super::machine::Machine;
use crate::kubernetes::WORKLOADS;

#[test]
fn workloads_restart_once_in_their_namespace_and_are_waited_for() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n\
             *' get '*Deployment/a) echo '  2027-01-31T10:00:00Z' ;;\n\
             *' get '*Deployment/done) echo '  2027-01-31T14:00:00+02:00' ;;\n\
             *' get '*Deployment/paused) echo 'true  ' ;;\n\
             *' get '*DaemonSet/manual) echo ' OnDelete ' ;;\n\
             *' get '*) echo ' RollingUpdate ' ;;\n\
             esac",
        );
        machine.calls();
        let names = [
            "web/Deployment/a",
            "web/Deployment/done",
            "web/Deployment/paused",
            "db/DaemonSet/manual",
            "db/StatefulSet/b",
        ];
        let arguments: Vec<&str> = ["2027-01-31T11:30:00Z"].into_iter().chain(names).collect();
        assert_eq!(
            machine.done(WORKLOADS.verb("restart"), &arguments),
            "manual web/Deployment/paused\nmanual db/DaemonSet/manual\n"
        );
        let calls = machine.calls();
        let ends = |words: &str| {
            let found = calls.iter().filter(|call| call.contains(words));
            let last = |call: &String| call.rsplit(' ').next().unwrap_or_default().to_owned();
            found.map(last).collect::<Vec<_>>()
        };
        assert_eq!(ends(" rollout restart "), ["Deployment/a", "StatefulSet/b"]);
        assert_eq!(
            ends(" rollout status "),
            ["Deployment/a", "Deployment/done", "StatefulSet/b"]
        );
        assert!(
            calls
                .iter()
                .any(|call| call.contains("-n db rollout restart StatefulSet/b"))
        );
    });
}

/// kubexm finds the pods that read a CA by these lines.
#[test]
fn workloads_script_lists_pods_and_what_they_read() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n\
             *' get replicasets '*) echo 'set web a-1 Deployment/a' ;;\n\
             *' get secrets '*'type=kubernetes.io/service-account-token '*) echo 'token web robot' ;;\n\
             *' get pods '*'status.phase=Running '*' go-template={{range .items}}'*'.status.initContainerStatuses'*'{{\"\\n\"}}'*'.configMap.name'*'.secret.secretName'*'.secret.name'*'.valueFrom.configMapKeyRef.name'*'.secretRef.name'*) echo 'pod web a-1-x ReplicaSet/a-1' ;;\n\
             esac",
        );
        let printed = machine.done(WORKLOADS.verb("list"), &[]);
        let (now, rest) = printed.split_once('\n').unwrap();
        assert!(now.starts_with("now 20"), "{printed}");
        assert_eq!(
            rest,
            "set web a-1 Deployment/a\ntoken web robot\npod web a-1-x ReplicaSet/a-1\n"
        );
    });
}

/// kubexm ignores Secrets from after the switch by this time.
#[test]
fn workloads_script_prints_secrets_with_the_time_of_their_creation() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "kubectl",
            "case $* in\n\
             *'type=kubernetes.io/service-account-token '*'{.metadata.creationTimestamp} {.metadata.namespace}/{.metadata.name}'*)\n\
             echo '2027-01-31T12:00:00Z web/token' ;;\n\
             esac",
        );
        assert_eq!(
            machine.done(WORKLOADS.verb("tokens"), &[]),
            "2027-01-31T12:00:00Z web/token\n"
        );
    });
}
