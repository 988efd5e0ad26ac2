//! The page of the events of `--output json`: each with an example, serialised by the reporter's code.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::table::escaped;
use kubexm_types::event::{Event, Offers, StepState};
use kubexm_types::message::Listed;
use kubexm_types::{ErrorKind, FindingKind, WarningKind};

const INTRODUCTION: &str = "With `--output json` a command that works on bundles, hosts or registries prints one JSON object per line \
on standard output, unless its arguments are wrong. Each object has the fields `time` (RFC 3339, UTC) and `event`. The last line is always \
`end`. Events of parallel work are interleaved; the field `id` or `host` relates them. Programs must ignore \
events and fields that they do not know. No event contains a secret.";

/// What an event means. A new kind of event does not compile until it has a line here; add an example
/// of it below, too.
fn meaning(event: &Event) -> &'static str {
    match event {
        Event::Phase { .. } => "A phase of the command began.",
        Event::TransferStarted { .. } => {
            "A transfer began. `kind` is `download`, `pack`, `push` or `seed` or another activity; `total` is \
             the number of bytes, or `null` if it is unknown."
        }
        Event::TransferAdvanced { .. } => {
            "`bytes` more bytes were transferred since the last event of this transfer."
        }
        Event::TransferEnded { .. } => {
            "The transfer ended. `ok` is true if all bytes arrived and were correct."
        }
        Event::Progress { .. } => {
            "`done` of the `total` known items are finished: `steps` of an install, `downloads` of a build. `total` \
             grows while a build finds what it needs."
        }
        Event::Step { .. } => {
            "A step on a host changed its state: `started`, `unchanged`, `changed`, `ran`, `met`, `reverted` or \
             `failed`. A step that ensures a state ends as `unchanged` or `changed`, an action as `ran`, a wait \
             as `met`. A failed step has a `kind` (`host` if the host was lost, otherwise `step`), a `reason`, and a \
             `hint` or `null`. `elapsed` is in seconds."
        }
        Event::Waiting { .. } => {
            "Work has made no progress for 30 seconds, in any phase. `host` is the host, or `null` for work without one, \
             such as verifying a bundle. `what` is the work, such as a step or a command, and `missing` \
             is what a condition is still missing, or `null`. `elapsed` is the time in seconds since the last \
             progress. The event is repeated every 30 seconds."
        }
        Event::Planned { .. } => {
            "A task of a plan that is only shown (`install --dry-run`), in an order in which it can run."
        }
        Event::Finding { .. } => {
            "Preflight found a problem on a host. `kind` is the subject of the check. If `fatal` is true, the install does not start."
        }
        Event::Summary { .. } => {
            "An install or a reset succeeded. `changed` counts steps that changed a host, or changes that a reset \
             reverted. `unchanged` counts steps that found the desired state, `ran` counts actions. `kubeconfig` is the path of the administrator's kubeconfig, or `null`. \
             Only an install has `offers`, if the API server answered: the default StorageClass, the ingress class, or `null`; \
             whether the metrics API answers; whether this machine has timers; and how many charts and manifests of the \
             bundle are not applications of the cluster file."
        }
        Event::Written { .. } => {
            "A bundle was written under its final name. `size` and `sha256` are of the file, or of all volumes one \
             after another. `volumes` is the number of volumes, or `null`."
        }
        Event::End { .. } => {
            "The command ended. `exit-code` is the process's exit code. `kind` is the kind (see the exit codes) of the \
             failure or of what a check found, or `null`; `message` is the error and `hint` what the user can do, or `null`."
        }
        Event::Warning { .. } => {
            "Something that the user should know and that does not stop the command. `kind` is the subject; `hint` is what the user can do, or `null`."
        }
        Event::Note { .. } => "Information for the user.",
    }
}

/// One event of each kind, failed steps apart.
fn examples() -> Vec<Event> {
    let host = || "node1".parse().unwrap();
    let step = |state| Event::Step {
        host: host(),
        module: "runtime".to_owned(),
        task: "install".to_owned(),
        step: "write /etc/containerd/config.toml".to_owned(),
        state,
        elapsed: Duration::from_millis(120),
    };
    vec![
        Event::Phase {
            name: "preflight".to_owned(),
        },
        Event::TransferStarted {
            id: 7,
            kind: "seed",
            label: "registry.k8s.io/pause:3.10.1".to_owned(),
            total: Some(320_448),
        },
        Event::TransferAdvanced {
            id: 7,
            bytes: 65_536,
        },
        Event::TransferEnded { id: 7, ok: true },
        Event::Progress {
            what: "steps".to_owned(),
            done: 17,
            total: 45,
        },
        step(StepState::Changed),
        step(StepState::failed(ErrorKind::Step, "exit status 1")),
        Event::Waiting {
            host: Some(host()),
            what: "Wait until node2 is Ready".to_owned(),
            missing: Some("node2 is not Ready".to_owned()),
            elapsed: Duration::from_secs(30),
        },
        Event::Planned {
            host: host(),
            module: "runtime".to_owned(),
            task: "install".to_owned(),
            steps: vec!["write /etc/containerd/config.toml".to_owned()],
        },
        Event::Finding {
            host: host(),
            kind: FindingKind::Swap,
            fatal: true,
            what: "swap is on".to_owned(),
            hint: "swapoff -a".to_owned(),
        },
        Event::Summary {
            changed: 57,
            unchanged: 0,
            ran: 2,
            kubeconfig: Some("/home/admin/.local/state/kubexm/example/admin.conf".to_owned()),
            offers: Some(Offers {
                storage_class: Some("local-path".to_owned()),
                not_applied: 2,
                ..Offers::default()
            }),
        },
        Event::Written {
            path: "kubernetes.tar.zst".to_owned(),
            size: 199_229_440,
            sha256: "0".repeat(64),
            volumes: None,
        },
        Event::Warning {
            kind: WarningKind::Clock,
            message: "the clock of node1 is 3 s behind".to_owned(),
            hint: None,
        },
        Event::Note {
            message: "registry.k8s.io answered 429; waiting 2 s".to_owned(),
        },
        Event::End {
            ok: true,
            exit_code: 0,
            kind: None,
            message: None,
            hint: None,
            problems: Vec::new(),
        },
        Event::End {
            ok: false,
            exit_code: 4,
            kind: Some(ErrorKind::Host),
            message: Some(
                "node1: does not answer\n  hint: start it\nnode2: refuses the login".to_owned(),
            ),
            hint: None,
            problems: vec![
                Listed {
                    message: "node1: does not answer".to_owned(),
                    hint: Some("start it".to_owned()),
                },
                Listed {
                    message: "node2: refuses the login".to_owned(),
                    hint: None,
                },
            ],
        },
    ]
}

/// A section for each kind of event.
pub fn page() -> String {
    let mut out =
        format!("{INTRODUCTION}\n\nThe values in the examples are invented; `time` is left out.\n");
    let mut before = String::new();
    for event in examples() {
        let json = serde_json::to_value(&event).unwrap();
        let name = json["event"].as_str().unwrap().to_owned();
        if name != before {
            writeln!(out, "\n## {name}\n\n{}", escaped(meaning(&event))).unwrap();
        }
        writeln!(
            out,
            "\n```json\n{}\n```",
            serde_json::to_string_pretty(&json).unwrap()
        )
        .unwrap();
        match event {
            Event::Finding { .. } => {
                let kinds = FindingKind::ALL.iter().map(|kind| (kind, kind.about()));
                list(&mut out, "findings", kinds);
            }
            Event::Warning { .. } => {
                let kinds = WarningKind::ALL.iter().map(|kind| (kind, kind.about()));
                list(&mut out, "warnings", kinds);
            }
            _ => {}
        }
        before = name;
    }
    out
}

/// Adds the list of the kinds that an event can have.
fn list(out: &mut String, of: &str, kinds: impl Iterator<Item = (impl Serialize, &'static str)>) {
    write!(out, "\nThese are the kinds of {of}:\n\n").unwrap();
    for (kind, about) in kinds {
        let name = serde_json::to_value(kind).unwrap();
        writeln!(out, "- `{}`: {about}", name.as_str().unwrap()).unwrap();
    }
}
