#![allow(clippy::unwrap_used)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressDrawTarget, TermLike};

use super::json::Json;
use super::plain::Plain;
use super::terminal::Terminal;
use super::text::wrap;
use kubexm_types::event::{Event, Events, Listener, StepState};

/// What was written, for the test to read.
#[derive(Clone, Default, Debug)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stand-in for a terminal of 80 columns, which writes down what is printed on it.
impl TermLike for Paper {
    fn width(&self) -> u16 {
        80
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, line: &str) -> io::Result<()> {
        writeln!(self.0.lock().unwrap(), "{line}")
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        // The bars' library fills lines with spaces in place of ending them.
        writeln!(self.0.lock().unwrap(), "{text}")
    }
    fn clear_line(&self) -> io::Result<()> {
        writeln!(self.0.lock().unwrap())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

fn step(host: &str, step: &str, state: StepState) -> Event {
    Event::Step {
        host: host.parse().unwrap(),
        module: "os".to_owned(),
        task: "prepare".to_owned(),
        step: step.to_owned(),
        state,
        elapsed: Duration::from_millis(1250),
    }
}

/// One event of every kind and of every state of a step.
fn every_event(text: &str) -> Vec<Event> {
    let kind = "seed";
    let (label, message) = (text.to_owned(), text.to_owned());
    let failed = StepState::failed(
        kubexm_types::ErrorKind::Host,
        kubexm_types::Message::new(text).hint("mend it"),
    );
    vec![
        Event::Phase {
            name: text.to_owned(),
        },
        Event::TransferStarted {
            id: 7,
            kind,
            label: label.clone(),
            total: Some(2048),
        },
        Event::TransferStarted {
            id: 8,
            kind,
            label,
            total: None,
        },
        Event::TransferAdvanced { id: 7, bytes: 1024 },
        Event::TransferAdvanced {
            id: 8,
            bytes: 2_147_483_648,
        },
        Event::TransferEnded { id: 7, ok: true },
        Event::TransferEnded { id: 8, ok: false },
        Event::Progress {
            what: "steps".to_owned(),
            done: 17,
            total: 45,
        },
        step("node1", text, StepState::Started),
        step("node1", text, StepState::Unchanged),
        step("node1", text, StepState::Changed),
        step("node1", text, StepState::Ran),
        step("node1", text, StepState::Met),
        step("node1", text, StepState::Reverted),
        step("node1", text, failed),
        Event::Waiting {
            host: None,
            what: text.to_owned(),
            missing: None,
            elapsed: Duration::from_secs(30),
        },
        Event::Waiting {
            host: Some("node1".parse().unwrap()),
            what: text.to_owned(),
            missing: Some(text.to_owned()),
            elapsed: Duration::from_secs(60),
        },
        Event::Warning {
            kind: kubexm_types::WarningKind::BackupIncomplete,
            message: message.clone(),
            hint: Some("mend it".to_owned()),
        },
        Event::Note { message },
        Event::Planned {
            host: "node1".parse().unwrap(),
            module: "os".to_owned(),
            task: "prepare".to_owned(),
            steps: vec![text.to_owned()],
        },
        Event::Finding {
            host: "node1".parse().unwrap(),
            kind: kubexm_types::FindingKind::Swap,
            fatal: false,
            what: text.to_owned(),
            hint: "mend it".to_owned(),
        },
        Event::Summary {
            changed: 1,
            unchanged: 2,
            ran: 1,
            kubeconfig: None,
            offers: None,
        },
        Event::End {
            ok: false,
            exit_code: 5,
            kind: Some(kubexm_types::ErrorKind::Step),
            message: Some(text.to_owned()),
            hint: None,
            problems: vec![kubexm_types::message::Listed {
                message: text.to_owned(),
                hint: Some(text.to_owned()),
            }],
        },
    ]
}

fn on_terminal(events: &[Event]) -> String {
    let paper = Paper::default();
    let device = ProgressDrawTarget::term_like_with_hz(Box::new(paper.clone()), 255);
    let terminal = Terminal::on(device);
    for event in events {
        terminal.on(event);
        // Drawing is limited to so many times a second.
        std::thread::sleep(Duration::from_millis(8));
    }
    drop(terminal);
    paper.text()
}

fn plainly(events: &[Event]) -> String {
    let paper = Paper::default();
    let plain = Plain::to(paper.clone());
    events.iter().for_each(|event| plain.on(event));
    paper.text()
}

#[test]
fn plain_lines() {
    let text = plainly(&every_event("Write /etc/hosts"));
    let untimed: Vec<&str> = text
        .lines()
        .map(|line| line.split_once(" in ").map_or(line, |(head, _)| head))
        .collect();
    assert_eq!(
        untimed,
        [
            "== Write /etc/hosts",
            "seed Write /etc/hosts: done, 1.00 KiB",
            "seed Write /etc/hosts: stopped, 2.00 GiB",
            "node1: Write /etc/hosts: done (1.2 s) [17 of 45]",
            "node1: Write /etc/hosts: ran (1.2 s) [17 of 45]",
            "node1: Write /etc/hosts: reverted (1.2 s) [17 of 45]",
            "node1: Write /etc/hosts: FAILED (1.2 s) [17 of 45]",
            "node1: Write /etc/hosts",
            "hint: mend it",
            "no progress for 30 s, waiting for: Write /etc/hosts",
            "node1: no progress for 60 s, waiting for: Write /etc/hosts: Write /etc/hosts",
            "warning: Write /etc/hosts",
            "  hint: mend it",
            "Write /etc/hosts",
            "warning: node1: Write /etc/hosts",
            "  hint: mend it",
        ]
    );
}

#[test]
fn every_event_is_one_json_object_with_a_stable_tag() {
    let paper = Paper::default();
    let json = Json::to(paper.clone());
    every_event("two\nlines")
        .iter()
        .for_each(|event| json.on(event));
    let objects: Vec<serde_json::Value> = paper
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let tags: Vec<&str> = objects
        .iter()
        .map(|o| o["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        tags,
        [
            "phase",
            "transfer-started",
            "transfer-started",
            "transfer-advanced",
            "transfer-advanced",
            "transfer-ended",
            "transfer-ended",
            "progress",
            "step",
            "step",
            "step",
            "step",
            "step",
            "step",
            "step",
            "waiting",
            "waiting",
            "warning",
            "note",
            "planned",
            "finding",
            "summary",
            "end",
        ]
    );
    let states: Vec<String> = objects[8..15]
        .iter()
        .map(|o| o["state"].to_string())
        .collect();
    assert_eq!(
        states,
        [
            "\"started\"",
            "\"unchanged\"",
            "\"changed\"",
            "\"ran\"",
            "\"met\"",
            "\"reverted\"",
            "\"failed\"",
        ]
    );
    assert_eq!(objects[14]["reason"], "two\nlines");
    assert_eq!(objects[14]["kind"], "host");
    assert_eq!(
        objects[17],
        serde_json::json!({"time": objects[17]["time"], "event": "warning",
            "kind": "backup-incomplete", "message": "two\nlines", "hint": "mend it"})
    );
    assert_eq!(objects[15]["host"], serde_json::Value::Null);
    assert_eq!(objects[16]["host"], "node1");
    assert_eq!(objects[22]["exit-code"], 5);
    for object in &objects {
        let time = object["time"].as_str().unwrap();
        let format = &time::format_description::well_known::Rfc3339;
        time::OffsetDateTime::parse(time, format).unwrap();
    }
    assert_eq!(
        objects[10],
        serde_json::json!({"time": objects[10]["time"], "event": "step", "host": "node1",
            "module": "os", "task": "prepare", "step": "two\nlines", "state": "changed",
            "elapsed": 1.25})
    );
    assert_eq!(objects[1]["total"], 2048);
    assert_eq!(objects[2]["total"], serde_json::Value::Null);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let long =
        "Install what is very long to describe in words that no user will ever see ".repeat(3);
    let mut events = every_event(&long);
    let host = "control-plane-number-one.rack-seventeen.datacentre.bank.example";
    events.push(step(host, &long, StepState::Started));
    events.push(step(host, &long, StepState::Changed));
    let screen = on_terminal(&events);
    assert!(screen.contains("control-plane-numbe… …"), "{screen}");
    assert!(
        screen.contains("1.00 KiB/2.00 KiB"),
        "no bar was drawn:\n{screen}"
    );
    for line in screen.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn a_terminal_gets_no_colours() {
    // Whether or not NO_COLOR is set: there is nothing to switch off.
    for text in [on_terminal(&every_event("x")), plainly(&every_event("x"))] {
        assert!(text.contains('x') && !text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn what_a_host_says_cannot_command_the_terminal() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[1;31mred\u{1b}[0m\u{8}\u{9b}31m\u{202e}end";
    for text in [
        on_terminal(&every_event(hostile)),
        plainly(&every_event(hostile)),
    ] {
        assert!(text.contains("red"), "{text:?}");
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(bad), "{text:?}");
    }
}

#[test]
fn wrapping_keeps_words_and_indents() {
    let long = "/a/path/that/is/longer/than/the/line";
    assert_eq!(
        wrap(&format!("  see {long} now"), 12),
        format!("  see\n  {long}\n  now")
    );
    assert_eq!(wrap("a  b\n\nc", 80), "a  b\n\nc");
}

#[test]
fn a_reader_that_went_away_stops_nothing() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    for events in [
        Events::new(Arc::new(Json::to(Gone))),
        Events::new(Arc::new(Plain::to(Gone))),
    ] {
        every_event("x")
            .into_iter()
            .for_each(|event| events.emit(event));
    }
}

#[test]
fn downloads_are_counted_on_a_terminal_and_not_in_each_plain_line() {
    let counted = |done| Event::Progress {
        what: "downloads".to_owned(),
        done,
        total: 45,
    };
    let events = [counted(16), counted(17)];
    let screen = on_terminal(&events);
    assert!(screen.contains("17 of 45 downloads"), "{screen}");
    assert_eq!(plainly(&events), "");
}

#[test]
fn small_downloads_get_no_plain_line() {
    let transfer = |kind, bytes, ok| {
        let paper = Paper::default();
        let plain = Plain::to(paper.clone());
        plain.on(&Event::TransferStarted {
            id: 1,
            kind,
            label: "checksum".to_owned(),
            total: None,
        });
        plain.on(&Event::TransferAdvanced { id: 1, bytes });
        plain.on(&Event::TransferEnded { id: 1, ok });
        paper.text()
    };
    assert_eq!(transfer("download", 1000, true), "");
    for (kind, bytes, ok) in [
        ("download", 1000, false),
        ("download", 2 << 20, true),
        ("verify", 1000, true),
    ] {
        assert!(transfer(kind, bytes, ok).contains("checksum: "), "{kind}");
    }
}
