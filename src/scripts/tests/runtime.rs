//! Scripts that use a container runtime.

use super::machine::Machine;
use crate::runtime;

#[test]
fn all_pods_are_stopped() {
    Machine::with_each_shell(|machine| {
        machine.fake("crictl", "[ \"$1\" != pods ] || printf 'a1\\nb2\\n'");
        machine.done(runtime::STOP_PODS, &[]);
        assert_eq!(machine.calls(), ["crictl pods -q", "crictl rmp -f a1 b2"]);
        machine.fake("crictl", "exit 1");
        machine.done(runtime::STOP_PODS, &[]);
        assert_eq!(machine.calls(), ["crictl pods -q"]);
    });
}

#[test]
fn failed_pull_is_an_error() {
    Machine::with_each_shell(|machine| {
        machine.fake("crictl", "[ \"$2\" != broken ]");
        machine.fake("ctr", "");
        machine.fake("sleep", "");
        let pull = runtime::CONTAINERD_IMAGES.verb("pull");
        assert_ne!(
            machine
                .run(pull, &["registry:5000", "good", "broken", "fine"])
                .status,
            0
        );
        assert!(!machine.calls().iter().any(|call| call.starts_with("ctr")));
        machine.done(pull, &["registry:5000", "good"]);
        let pinned = "ctr -n k8s.io images label good io.cri-containerd.pinned=pinned";
        assert_eq!(machine.calls(), ["crictl pull good", pinned]);
    });
}

#[test]
fn missing_package_of_isulad_is_reported_with_a_hint() {
    Machine::with_each_shell(|machine| {
        let (check, explain) = (
            runtime::ISULAD_INSTALLED.verb("check"),
            runtime::ISULAD_INSTALLED.verb("explain"),
        );
        let ended = machine.run(check, &[]);
        assert_eq!(ended.status, 1);
        assert_eq!(ended.printed, "has no program isulad\n");
        let ended = machine.run(explain, &[]);
        assert_eq!(ended.status, 1);
        let hint = "hint: install iSulad and runc";
        assert!(ended.complained.contains(hint), "{}", ended.complained);
        for program in ["isulad", "isula", "runc"] {
            machine.fake(program, "");
        }
        machine.done(check, &[]);
    });
}

/// Nodes failed that pulled images while systemd started a killed registry again.
#[test]
fn registry_that_starts_again_is_waited_for() {
    Machine::with_each_shell(|machine| {
        machine.fake("ctr", "");
        machine.fake("sleep", "");
        for script in [runtime::CONTAINERD_IMAGES, runtime::CRI_IMAGES] {
            let pull = script.verb("pull");
            let pulls = || {
                let calls = machine.calls();
                let pulls = calls.iter().filter(|call| call.starts_with("crictl pull"));
                pulls.count()
            };
            machine.write("/root/refused", "2");
            machine.fake(
                "crictl",
                "left=$(cat /root/refused)\n[ \"$left\" != 0 ] || exit 0\necho $((left - 1)) >/root/refused\n\
                 echo 'dial tcp 192.0.2.11:5000: connect: connection refused' >&2\nexit 1",
            );
            machine.done(pull, &["registry:5000", "one"]);
            assert_eq!(pulls(), 3);
            // The cause of the last attempt is reported.
            machine.fake("crictl", "echo 'connection refused' >&2; exit 1");
            let ended = machine.run(pull, &["registry:5000", "one"]);
            assert_eq!((ended.status, pulls()), (1, 10));
            assert_eq!(ended.complained, "connection refused\n");
            // An image that the registry does not have is not asked for again.
            machine.fake("crictl", "echo 'cannot resolve one: not found' >&2; exit 1");
            let ended = machine.run(pull, &["registry:5000", "one"]);
            assert_eq!((ended.status, pulls()), (1, 1));
        }
    });
}

/// A runtime that does not answer was reported as one without images.
#[test]
fn image_is_missing_only_if_the_runtime_says_so() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake(
            "crictl",
            "case \"$*\" in\n\
             *absent) echo 'level=fatal msg=\"no such image \\\"absent\\\" present\"' >&2; exit 1 ;;\n\
             *silent) echo 'rpc error: code = DeadlineExceeded' >&2; exit 1 ;;\n\
             *busy) [ \"$(grep -c busy /root/calls)\" = 2 ] || { echo 'code = Unavailable' >&2; exit 1; } ;;\n\
             esac\n\
             case \"$*\" in *loose) echo false ;; *) echo true ;; esac",
        );
        let run = |verb, image| {
            let script = runtime::CRI_IMAGES.verb(verb);
            let ended = machine.run(script, &["registry:5000", "good", image]);
            (ended.status, ended.printed, ended.complained)
        };
        let said = |text: &str| text.to_owned();
        let silent = "the runtime does not answer for silent: rpc error: code = DeadlineExceeded\n";
        for verb in ["present", "pinned"] {
            assert_eq!(run(verb, "good"), (0, said(""), said("")), "{verb}");
            machine.calls();
            assert_eq!(run(verb, "busy"), (0, said(""), said("")), "{verb}");
            assert_eq!(
                run(verb, "absent"),
                (1, said("absent is missing\n"), said(""))
            );
            assert_eq!(run(verb, "silent"), (75, said(""), said(silent)), "{verb}");
        }
        assert_eq!(
            run("pinned", "loose"),
            (1, said("loose is not pinned\n"), said(""))
        );
    });
}

#[test]
fn containerd_that_does_not_answer_is_not_one_without_images() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake(
            "ctr",
            "[ ! -e /root/silent ] || { echo 'ctr: failed to dial' >&2; exit 1; }\n\
             echo 'good type digest size platforms io.cri-containerd.pinned=pinned'",
        );
        let check = runtime::CONTAINERD_IMAGES.verb("check");
        machine.done(check, &["registry:5000", "good"]);
        let ended = machine.run(check, &["registry:5000", "other"]);
        assert_eq!(ended.printed, "other is missing or not pinned\n");
        machine.write("/root/silent", "");
        let ended = machine.run(check, &["registry:5000", "good"]);
        assert_eq!((ended.status, ended.printed.as_str()), (75, ""));
        assert_eq!(
            ended.complained,
            "containerd does not answer: ctr: failed to dial\n"
        );
    });
}

#[test]
fn isulad_has_the_login_only_while_it_pulls() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "isula",
            "case $1 in login) cat >/root/password ;; pull) case $2 in *absent*) exit 3 ;; esac ;; esac",
        );
        let pull = |image, input| {
            machine.run_after(":", runtime::ISULAD_PULL, &["registry:5000", image], input)
        };
        assert_eq!(pull("quay.example:8443/a:1", "").status, 0);
        assert_eq!(
            machine.calls(),
            [
                "isula pull registry:5000/quay.example_8443/a:1",
                "isula tag registry:5000/quay.example_8443/a:1 quay.example:8443/a:1"
            ]
        );
        assert_eq!(pull("quay.example/absent:1", "kubexm:p:w\n").status, 3);
        assert_eq!(
            machine.calls(),
            [
                "isula login --username kubexm --password-stdin registry:5000",
                "isula pull registry:5000/quay.example/absent:1",
                "isula logout registry:5000"
            ]
        );
        assert_eq!(machine.read("/root/password"), "p:w");
    });
}
