//! `kubeadm init` and `kubeadm join` as the installer runs them: `node.sh` inside `run-to-completion.sh`. Here the inner
//! script is killed.

use super::super::certificates::{FILES, with_control_plane, with_lost_files};
use super::super::kubeadm::{MEMBER, first, with_kubeadm};
use super::super::kubelet_credentials::{KUBECONFIG_TEXT, with_kubelet};
use super::super::machine::Machine;
use super::super::settings::{
    CONFIG, KUBELET_FILES, OF_KUBELET, of_pod, with_cluster, with_programs,
};
use super::{
    Case, KILL, call, commands, kill_everywhere as kill_case, listing, only_lists, stand_ins,
    steps, with,
};
use crate::kubernetes::KUBELET_CERTIFICATES;
use crate::{Parameters, Script, kubeadm, markers, runtime};

/// Runs a script from the environment with bash, which the trap needs.
const WITH_BASH: &str = "exec bash -euc \"$KUBEXM_TEXT\" kubexm \"$@\"";

/// The list of the members of etcd, and the line of the node that joins.
const MEMBERS: &str = "/root/fake/members";
const JOINED: &str = "1, started, node1, https://192.0.2.1:2380, https://192.0.2.1:2379, false";

/// A node.
struct Node {
    verb: &'static str,
    arguments: Vec<&'static str>,
    before: fn(&Machine),
    after: fn(&Machine),
}

/// Which of the two inner scripts is killed.
#[derive(Clone, Copy, PartialEq)]
enum Killed {
    None,
    Command(usize),
    CleanUp(usize),
}

/// Runs the step. Returns its exit status.
fn run(machine: &Machine, node: &Node, killed: Killed) -> i32 {
    machine.write("/root/n", "0\n");
    // A task of the installer runs before, and removes the members of hosts that are about to join.
    let members = machine.read(MEMBERS);
    let others: Vec<&str> = members.lines().filter(|line| *line != JOINED).collect();
    if !others.is_empty() {
        machine.write(MEMBERS, &format!("{}\n", others.join("\n")));
    }
    let text = kubeadm::NODE.text;
    let trapped = format!("{KILL}{text}");
    let (command, clean_up, inner, at) = match killed {
        Killed::None => (text, text, "", 0),
        Killed::Command(at) => (WITH_BASH, text, &*trapped, at),
        Killed::CleanUp(at) => (text, WITH_BASH, &*trapped, at),
    };
    machine.write("/root/inner", inner);
    let enter = format!("export KILL_AT={at} KUBEXM_TEXT=\"$(cat /root/inner)\"; rm /root/inner");
    let parameters = steps::RunToCompletion {
        id: "kubeadm-init".to_owned(),
        input: "/run/kubexm/kubeadm-join.yaml".to_owned(),
        command: command.to_owned(),
        command_verb: node.verb.to_owned(),
        cleanup: clean_up.to_owned(),
        cleanup_verb: "clean-up".to_owned(),
        limit: "600".to_owned(),
    };
    let arguments = parameters.and(node.arguments.iter().copied());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = machine.run_after(&enter, steps::RUN_TO_COMPLETION, &arguments, "input");
    if killed == Killed::None && !machine.has("/root/broken") {
        assert_eq!(ended.status, 0, "{}", ended.complained);
        (node.after)(machine);
    }
    ended.status
}

fn reset(machine: &Machine, node: &Node) {
    for undo in [
        call(steps::RUN_TO_COMPLETION_END, &[]),
        call(kubeadm::RESET, &[node.arguments[0]]),
        call(runtime::STOP_PODS, &[]),
        call(runtime::STOP_CRIO_SCOPES, &[]),
        call(markers::REMOVE, &["kubeadm"]),
        call(steps::RECEIPT_REMOVE, &[]),
    ] {
        super::run(machine, ":", &undo, None);
    }
}

/// Returns the files apart from the logs of failed attempts, which stay until a reset.
fn without_logs(machine: &Machine) -> std::collections::BTreeMap<String, String> {
    let mut listing = listing(machine);
    listing.retain(|path, _| !path.starts_with("var/lib/kubexm/failed"));
    listing
}

fn scripts() -> [Script; 5] {
    [
        kubeadm::NODE,
        kubeadm::RESET,
        runtime::STOP_PODS,
        runtime::STOP_CRIO_SCOPES,
        steps::RUN_TO_COMPLETION,
    ]
}

/// Kills one of the inner scripts at each of its simple commands. `fails` is whether an earlier attempt failed.
fn kill_everywhere(node: &Node, fails: bool, killed: fn(usize) -> Killed) {
    let fresh = || {
        let machine = Machine::new("bash");
        with_kubeadm(&machine);
        machine.write("/etc/kubernetes/audit-policy.yaml", "theirs");
        machine.write("/var/lib/kubelet/config.json", "theirs");
        std::fs::create_dir_all(machine.at("/var/lib/etcd")).unwrap();
        (node.before)(&machine);
        machine
    };
    let fail = |machine: &Machine| {
        if fails {
            machine.write("/root/broken", "");
            assert_ne!(run(machine, node, Killed::None), 0);
            std::fs::remove_file(machine.at("/root/broken")).unwrap();
        }
    };
    let machine = fresh();
    stand_ins(&machine, kubeadm::NODE.name);
    let original = listing(&machine);
    run(&machine, node, Killed::None);
    let installed = without_logs(&machine);
    assert_ne!(installed, original);
    reset(&machine, node);
    assert_eq!(listing(&machine), original, "{} is not reverted", node.verb);
    for at in commands() {
        let machine = fresh();
        fail(&machine);
        let status = run(&machine, node, killed(at));
        if status == 0 {
            assert!(at > 10, "{} was killed {at} times", node.verb);
            break;
        }
        run(&machine, node, Killed::None);
        assert_eq!(
            without_logs(&machine),
            installed,
            "{}: next run after a kill at command {at}",
            node.verb
        );
        reset(&machine, node);
        assert_eq!(
            listing(&machine),
            original,
            "{}: reset after a kill at command {at}",
            node.verb
        );
        let machine = fresh();
        fail(&machine);
        run(&machine, node, killed(at));
        reset(&machine, node);
        assert_eq!(
            listing(&machine),
            original,
            "{}: killed at command {at}, then reset",
            node.verb
        );
    }
}

fn init_node() -> Node {
    Node {
        verb: "init",
        arguments: first("etcd=/var/lib/etcd", "static_pods=yes").to_vec(),
        before: |machine| machine.write("/etc/kubexm/static-pods/vip.yaml", "pod"),
        after: |machine| {
            assert_eq!(machine.read("/root/pods"), "new-pod\n");
            assert_eq!(machine.read("/etc/kubernetes/manifests/vip.yaml"), "pod");
        },
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn init() {
    if only_lists(scripts()) {
        return;
    }
    kill_everywhere(&init_node(), false, Killed::Command);
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn failed_init() {
    if only_lists(scripts()) {
        return;
    }
    kill_everywhere(&init_node(), true, Killed::CleanUp);
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn join() {
    if only_lists(scripts()) {
        return;
    }
    // The members of etcd are in the cluster, so they outlive a reset of this host.
    let node = Node {
        verb: "join",
        arguments: MEMBER.to_vec(),
        before: |machine| {
            machine.write(
                MEMBERS,
                "2, started, node2, https://192.0.2.2:2380, https://192.0.2.2:2379, false\n",
            );
            let kubeadm = machine.read("/root/fake/kubeadm");
            let lines: Vec<&str> = kubeadm.lines().collect();
            let (first, rest) = lines.split_at(2);
            let join = format!(
                "{}\nif grep -q 192.0.2.1 /usr/local/bin/members; then echo 'the member exists' >&2; exit 1; fi\n\
                 echo '{JOINED}' >>/usr/local/bin/members\nmkdir -p /var/lib/etcd/member/wal\n{}\n",
                first.join("\n"),
                rest.join("\n")
            );
            machine.write("/root/fake/kubeadm", &join);
        },
        after: |machine| {
            let members = machine.read(MEMBERS);
            assert_eq!(members.matches("192.0.2.1:2380").count(), 1, "{members}");
            assert_eq!(members.lines().count(), 2, "{members}");
        },
    };
    kill_everywhere(&node, false, Killed::Command);
    kill_everywhere(&node, true, Killed::CleanUp);
}

/// Each part of a change is repeated by the next run, which decides as after a kill between two parts.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn settings() {
    let case = |before: fn(&Machine), verb: &'static str, words: &[&str]| {
        kill_case(&Case {
            before,
            enter: ":",
            check: None,
            apply: call(kubeadm::SETTINGS.verb(verb), words),
            undo: vec![],
        });
    };
    let [former, path, content] = of_pod();
    let pod = [&*former, &*path, &*content];
    let put = |machine: &Machine| {
        with_programs(machine);
        let pod = of_pod();
        machine.done(
            kubeadm::SETTINGS.verb("put"),
            &pod.each_ref().map(String::as_str),
        );
    };
    let saved = |machine: &Machine| {
        with_programs(machine);
        let words = [&OF_KUBELET[..], &["--"], &KUBELET_FILES].concat();
        machine.done(kubeadm::SETTINGS.verb("save"), &words);
        machine.write(KUBELET_FILES[0], "new\n");
    };
    case(with_programs, "put", &pod);
    let words = [&OF_KUBELET[..], &["--"], &KUBELET_FILES].concat();
    case(with_programs, "save", &words);
    for verb in ["restore", "keep", "drop"] {
        case(put, verb, &pod);
        case(saved, verb, &OF_KUBELET);
    }
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn settings_of_the_cluster() {
    let kept = |machine: &Machine| {
        with_cluster(machine);
        for verb in ["keep", "proxy"] {
            machine.done(kubeadm::CLUSTER_SETTINGS.verb(verb), &[CONFIG]);
        }
    };
    let case = |before: fn(&Machine), verb| {
        kill_case(&Case {
            before,
            enter: ":",
            check: None,
            apply: call(kubeadm::CLUSTER_SETTINGS.verb(verb), &[CONFIG]),
            undo: vec![],
        });
    };
    for verb in ["keep", "proxy", "store"] {
        case(with_cluster, verb);
    }
    for verb in ["back", "drop"] {
        case(kept, verb);
    }
    // After `done`, nothing is kept: a run that was killed at its end does not run it once more.
}

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn renewed_certificates() {
    for before in [with_control_plane, with_lost_files] {
        kill_case(&Case {
            before,
            enter: ":",
            check: Some(call(kubeadm::RENEW.verb("check"), &FILES)),
            apply: call(kubeadm::RENEW.verb("apply"), &FILES),
            undo: vec![],
        });
    }
    for (verb, input) in [("request", KUBECONFIG_TEXT), ("name", "")] {
        kill_case(&Case {
            before: with_kubelet,
            enter: ":",
            check: Some(call(KUBELET_CERTIFICATES.verb("check"), &["id"])),
            apply: with(KUBELET_CERTIFICATES.verb(verb), &["id"], input),
            undo: vec![],
        });
    }
}

/// The next run ends what [`PROGRAMS`](kubeadm::PROGRAMS) lists, and nothing twice.
#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn restarted_programs() {
    let (look, stop) = (
        kubeadm::PROGRAMS.verb("look"),
        kubeadm::PROGRAMS.verb("stop"),
    );
    if only_lists([stop]) {
        return;
    }
    let mut kills = 0;
    for at in commands() {
        let machine = Machine::new("bash");
        machine.write("/root/running", "c1\nc2\n");
        machine.fake("sleep", "");
        machine.fake(
            "crictl",
            "case $* in *' ps '*) cat /root/running ;; *) sed -i \"/^$4\\$/d\" /root/running ;; esac",
        );
        if !super::run(&machine, ":", &call(stop, &["c1", "c2"]), Some(at)) {
            break;
        }
        kills += 1;
        let left = machine.done(look, &[]);
        let left: Vec<&str> = left.lines().collect();
        super::run(&machine, ":", &call(stop, &left), None);
        assert_eq!(machine.done(look, &[]), "", "killed at command {at}");
        let mut stops = machine.calls();
        stops.retain(|call| call.starts_with("crictl stop"));
        let expected = ["crictl stop --timeout 40 c1", "crictl stop --timeout 40 c2"];
        assert_eq!(stops, expected, "killed at command {at}");
    }
    assert!(kills > 0, "it was never killed");
}
