//! Scripts that use a container runtime.

use super::machine::Machine;
use crate::{Script, runtime};

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

/// A node that runs a pod in the network of pods and the static pods of a control plane with containerd 2.2.9. The stand-ins
/// keep units and pods in `/root/fake`.
pub(super) fn with_pods(machine: &Machine) {
    machine.write("/var/lib/kubexm/cluster", "");
    machine.write("/root/fake/version", "v2.2.9");
    for unit in ["containerd", "kubelet"] {
        machine.write(&format!("/root/fake/{unit}.service.active"), "");
    }
    for pod in ["pod-web", "host-api", "host-flannel"] {
        machine.write(&format!("/root/fake/pods/{pod}"), "");
    }
    machine.fake(
        "systemctl",
        "at=/usr/local/bin verb=$1\nshift\n\
         case $verb in\n\
         is-active) [ -e \"$at/$2.active\" ] ;;\n\
         start) for unit in \"$@\"; do : >\"$at/$unit.active\"; done ;;\n\
         stop) for unit in \"$@\"; do rm -f \"$at/$unit.active\"; done ;;\n\
         esac",
    );
    machine.fake("systemd-run", ": >/usr/local/bin/kubexm-pods.timer.active");
    machine.fake(
        "crictl",
        "at=/usr/local/bin\n\
         [ -e $at/containerd.service.active ] || { echo 'no such socket' >&2; exit 1; }\n\
         case $* in\n\
         version) printf 'Version:  0.1.0\\nRuntimeName:  containerd\\nRuntimeVersion:  %s\\n' \"$(cat $at/version)\" ;;\n\
         'pods -q') ls $at/pods ;;\n\
         'pods -q --id '*) ls $at/pods | grep -x \"$4\" ;;\n\
         inspectp*host-*) echo NODE ;;\n\
         inspectp*) echo POD ;;\n\
         *'--pod '*) echo \"c-$6\" ;;\n\
         *apiserver*) [ ! -e $at/pods/host-api ] || echo c-host-api ;;\n\
         'rmp -f '*) shift 2; [ ! -e $at/stuck ] || { echo 'CNI plugin failed' >&2; exit 1; }\n\
           for pod; do rm -f \"$at/pods/$pod\"; done ;;\n\
         esac",
    );
    machine.write("/root/fake/ready", "");
    machine.fake(
        "kubectl",
        "case $* in *readyz*) [ -e /usr/local/bin/ready ] ;; *node1*) echo '{}' ;; *) exit 1 ;; esac",
    );
    machine.fake("sleep", "");
}

/// Returns the scripts that end all pods, in their order.
pub(super) fn ends() -> [Script; 2] {
    [runtime::CONTAINERD_PODS, runtime::CONTAINERD_SHIMS].map(|script| script.verb("end"))
}

/// Returns what runs: units, and pods.
fn runs(machine: &Machine) -> String {
    let units = ["containerd.service", "kubelet.service", "kubexm-pods.timer"];
    let mut found: Vec<String> = units
        .iter()
        .filter(|unit| machine.has(&format!("/root/fake/{unit}.active")))
        .map(|unit| (*unit).to_owned())
        .collect();
    let pods = std::fs::read_dir(machine.at("/root/fake/pods")).unwrap();
    found.push(format!("{} pods", pods.count()));
    found.join(", ")
}

#[test]
fn pods_end_before_another_minor_version_of_containerd() {
    use runtime::{CONTAINERD_PODS, CONTAINERD_SHIMS};
    Machine::with_each_shell(|machine| {
        with_pods(machine);
        let ended = |to: &str| {
            let ended = machine.run(CONTAINERD_SHIMS.verb("ended"), &[to]);
            (ended.status, ended.printed)
        };
        assert_eq!(
            ended("2.3.7"),
            (1, "its pods run with containerd 2.2\n".to_owned())
        );
        // A patch version keeps pods, and so does a runtime that has been replaced.
        assert_eq!(ended("2.2.10").0, 0);
        machine.calls();
        for end in ends() {
            machine.done(end, &["2.3.7"]);
        }
        let calls = machine.calls();
        let place = |part: &str| {
            let found = calls.iter().position(|call| call.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {calls:?}"))
        };
        // No kubelet creates pods again, and network plugins work until the pods that need them have ended.
        let order = [
            "systemctl stop kubelet.service",
            "crictl rmp -f pod-web",
            "crictl stop --timeout 30 c-host-api",
            "crictl rmp -f host-api host-flannel",
            "systemctl stop containerd.service",
        ];
        for pair in order.windows(2) {
            assert!(place(pair[0]) < place(pair[1]), "{pair:?}: {calls:?}");
        }
        assert_eq!(runs(machine), "kubexm-pods.timer, 0 pods");
        assert_eq!(ended("2.3.7").0, 0);
        let started = machine.run(CONTAINERD_PODS.verb("started"), &[]);
        assert_eq!(
            (started.status, started.printed.as_str()),
            (1, "the kubelet is stopped\n")
        );
        machine.done(CONTAINERD_PODS.verb("start"), &[]);
        assert_eq!(runs(machine), "kubelet.service, kubexm-pods.timer, 0 pods");
        let life = || machine.run(CONTAINERD_PODS.verb("life"), &["node1"]);
        let printed = life().printed;
        let (started, node) = printed.split_once('\n').unwrap();
        assert_eq!(
            (started.len(), node),
            ("2026-01-31T12:00:00Z".len(), "{}\n")
        );
        // The static pods of a control plane must answer, too.
        machine.write("/etc/kubernetes/manifests/kube-apiserver.yaml", "");
        assert_eq!(life().status, 0);
        std::fs::remove_file(machine.at("/root/fake/ready")).unwrap();
        assert_eq!(life().status, 1);
        let settled = || machine.run(CONTAINERD_PODS.verb("settled"), &[]).status;
        assert_eq!(settled(), 1);
        machine.done(CONTAINERD_PODS.verb("settle"), &[]);
        assert_eq!(settled(), 0);
        assert_eq!(life().printed, "");
        machine.done(CONTAINERD_PODS.verb("started"), &[]);
        assert_eq!(runs(machine), "kubelet.service, 0 pods");
    });
}

#[test]
fn pods_that_do_not_end_keep_their_containerd_and_their_kubelet() {
    Machine::with_each_shell(|machine| {
        with_pods(machine);
        machine.write("/root/fake/stuck", "");
        let ended = machine.run(runtime::CONTAINERD_PODS.verb("end"), &["2.3.7"]);
        assert_eq!(ended.status, 1);
        assert_eq!(
            ended.complained,
            "the pods of this host do not end, so its containerd cannot be replaced\nCNI plugin failed\nthe kubelet runs again\n\
             hint: crictl pods lists them; correct the cause, then run the same command again\n"
        );
        assert_eq!(runs(machine), "containerd.service, kubelet.service, 3 pods");
        machine.done(runtime::CONTAINERD_PODS.verb("started"), &[]);
    });
}

#[test]
fn what_an_interrupted_run_has_stopped_is_resumed() {
    Machine::with_each_shell(|machine| {
        with_pods(machine);
        let resume = || machine.done(runtime::CONTAINERD_PODS.verb("resume"), &[]);
        // An administrator has stopped it.
        machine.done(runtime::CONTAINERD_PODS.verb("started"), &[]);
        std::fs::remove_file(machine.at("/root/fake/kubelet.service.active")).unwrap();
        assert_eq!(resume(), "");
        assert_eq!(runs(machine), "containerd.service, 3 pods");
        for end in ends() {
            machine.done(end, &["2.3.7"]);
        }
        assert_eq!(resume(), "started\n");
        machine.done(runtime::CONTAINERD_PODS.verb("settle"), &[]);
        assert_eq!(runs(machine), "containerd.service, kubelet.service, 0 pods");
    });
}

#[test]
fn survey_prints_version_and_deprecations_of_containerd() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "crictl",
            "printf 'RuntimeVersion:  v2.2.9\\nRuntimeApiVersion:  v1\\n'",
        );
        machine.fake(
            "ctr",
            "printf 'ID                LAST OCCURRENCE                   MESSAGE\\n\
             io.containerd.deprecation/x    2026-11-25T10:00:00.1Z    The `x` property is deprecated.\\n'",
        );
        assert_eq!(
            machine.done(runtime::CONTAINERD_SURVEY, &[]),
            "version\t2.2.9\ndeprecated\tio.containerd.deprecation/x\tThe `x` property is deprecated.\nend\n"
        );
        // It does not run, and it is too old for the command.
        machine.fake("crictl", "exit 1");
        machine.fake("ctr", "echo 'No help topic for deprecations' >&2; exit 3");
        machine.fake(
            "containerd",
            "echo 'containerd github.com/containerd/containerd v1.7.3 0aae0e0'",
        );
        assert_eq!(
            machine.done(runtime::CONTAINERD_SURVEY, &[]),
            "version\t1.7.3\nend\n"
        );
    });
}

/// A command keeps running when its kubexm is killed: the next run started a kubelet whose containerd then stopped.
#[test]
fn next_run_waits_until_the_pods_of_a_killed_run_have_ended() {
    let machine = Machine::new("dash");
    with_pods(&machine);
    machine.fake(
        "xargs",
        "cat >/dev/null\n: >/root/ending\nwhile [ ! -e /root/go ]; do /usr/bin/sleep 0.1; done",
    );
    std::thread::scope(|scope| {
        let end = scope.spawn(|| machine.run(runtime::CONTAINERD_PODS.verb("end"), &["2.3.7"]));
        while !machine.has("/root/ending") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let resume = scope.spawn(|| machine.done(runtime::CONTAINERD_PODS.verb("resume"), &[]));
        std::thread::sleep(std::time::Duration::from_millis(700));
        let is_early = machine.has("/root/fake/kubelet.service.active");
        machine.write("/root/go", "");
        assert_eq!(end.join().unwrap().status, 0);
        assert_eq!(resume.join().unwrap(), "started\n");
        machine.done(runtime::CONTAINERD_PODS.verb("settle"), &[]);
        assert!(!is_early, "the kubelet started while pods ended");
    });
    assert_eq!(
        runs(&machine),
        "containerd.service, kubelet.service, 0 pods"
    );
}
