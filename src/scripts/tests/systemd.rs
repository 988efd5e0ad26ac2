//! Scripts that start units and check them.

use super::machine::Machine;
use crate::systemd;

#[test]
fn unit_restarts_if_its_files_changed() {
    Machine::with_each_shell(|machine| {
        machine.fake(
            "systemctl",
            "[ \"$1\" != restart ] || [ ! -e /root/broken ]",
        );
        machine.fake("journalctl", "echo 'bind: address in use'");
        machine.write("/etc/a.conf", "1");
        let arguments = ["unit=a.service", "start=yes", "--", "/etc/a.conf"];
        let says = |words: &str| {
            let ended = machine.run(systemd::UNIT.verb("check"), &arguments);
            assert_eq!((ended.status, ended.printed.as_str()), (1, words));
        };
        says("runs with older files\n");
        machine.write("/root/broken", "");
        let ended = machine.run(systemd::UNIT.verb("apply"), &arguments);
        assert_eq!(
            (ended.status, ended.complained.as_str()),
            (1, "bind: address in use\n")
        );
        says("runs with older files\n");
        std::fs::remove_file(machine.at("/root/broken")).unwrap();
        machine.done(systemd::UNIT.verb("apply"), &arguments);
        machine.done(systemd::UNIT.verb("check"), &arguments);
        machine.write("/etc/a.conf", "2");
        says("runs with older files\n");
        machine.calls();
        machine.done(systemd::UNIT.verb("apply"), &["unit=a.service", "start=no"]);
        assert_eq!(
            machine.calls(),
            [
                "systemctl daemon-reload",
                "systemctl enable --quiet a.service"
            ]
        );
    });
}

#[test]
fn unit_that_is_only_not_enabled_does_not_restart() {
    Machine::with_each_shell(|machine| {
        let systemctl = "case $1 in\nis-enabled) [ -e /root/enabled ] ;;\nis-active) [ -e /root/runs ] ;;\n\
                         enable) : >/root/enabled ;;\nrestart) : >/root/runs ;;\nesac";
        machine.fake("systemctl", systemctl);
        machine.write("/etc/a.conf", "1");
        let arguments = ["unit=a.service", "start=yes", "--", "/etc/a.conf"];
        let restarts = || {
            machine.calls();
            machine.done(systemd::UNIT.verb("apply"), &arguments);
            machine.done(systemd::UNIT.verb("check"), &arguments);
            let restart = "systemctl restart a.service".to_owned();
            machine.calls().contains(&restart)
        };
        assert!(restarts());
        std::fs::remove_file(machine.at("/root/enabled")).unwrap();
        assert!(!restarts());
        std::fs::remove_file(machine.at("/root/enabled")).unwrap();
        std::fs::remove_file(machine.at("/root/runs")).unwrap();
        assert!(restarts());
        machine.write("/etc/a.conf", "2");
        assert!(restarts());
    });
}

#[test]
fn unit_that_read_other_files_after_its_start_restarts() {
    Machine::with_each_shell(|machine| {
        let systemctl =
            "case $1 in\nshow) cat /root/invocation ;;\nrestart) echo 1 >/root/invocation ;;\nesac";
        machine.fake("systemctl", systemctl);
        machine.write("/etc/a.conf", "1");
        let arguments = [
            "unit=a.service",
            "start=yes",
            "--",
            "/etc/a.conf",
            "/etc/absent.conf",
        ];
        machine.done(systemd::UNIT.verb("apply"), &arguments);
        let mark = "/var/lib/kubexm/started/a.service";
        let written = |path: &str, seconds: u64| {
            let file = std::fs::File::options().write(true).open(machine.at(path));
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.unwrap().set_modified(time).unwrap();
        };
        // The file was changed and changed back, and the unit did not read it in between.
        written(mark, 1000);
        written("/etc/a.conf", 2000);
        machine.done(systemd::UNIT.verb("check"), &arguments);
        machine.write("/root/invocation", "2\n");
        let found = machine.run(systemd::UNIT.verb("check"), &arguments);
        let expected = (1, "was restarted with other files\n".to_owned());
        assert_eq!((found.status, found.printed), expected);
        // A restart alone, as after a start of the host.
        written("/etc/a.conf", 500);
        machine.done(systemd::UNIT.verb("check"), &arguments);
        // An earlier version recorded no invocation.
        written("/etc/a.conf", 2000);
        let stamp = machine.read(mark);
        machine.write(mark, &format!("{}\n", stamp.lines().next().unwrap()));
        machine.done(systemd::UNIT.verb("check"), &arguments);
    });
}

#[test]
fn unit_that_reads_its_configuration_again_is_reloaded() {
    Machine::with_each_shell(|machine| {
        let systemctl = "case $1 in\nis-active) [ ! -e /root/stopped ] ;;\nshow) cat /root/invocation ;;\n\
                         restart) echo 1 >/root/invocation ;;\nesac";
        machine.fake("systemctl", systemctl);
        machine.write("/etc/a.conf", "1");
        machine.write("/etc/a.service", "1");
        let test = "test=! grep wrong /etc/a.conf";
        let arguments = [
            "unit=a.service",
            "start=yes",
            "config=/etc/a.conf",
            test,
            "--",
            "/etc/a.service",
        ];
        // Returns how an apply made the unit read its files.
        let applied = || {
            machine.calls();
            machine.done(systemd::UNIT.verb("apply"), &arguments);
            machine.done(systemd::UNIT.verb("check"), &arguments);
            let calls = machine.calls();
            let mut verbs = calls.iter().filter_map(|call| {
                let verb = call.split(' ').nth(1)?;
                ["restart", "reload"]
                    .contains(&verb)
                    .then(|| verb.to_owned())
            });
            (verbs.next(), verbs.next())
        };
        let restarted = (Some("restart".to_owned()), None);
        let reloaded = (Some("reload".to_owned()), None);
        assert_eq!(applied(), restarted);
        machine.write("/etc/a.conf", "2");
        assert_eq!(applied(), reloaded);
        machine.write("/etc/a.conf", "3");
        machine.write("/etc/a.service", "2");
        assert_eq!(applied(), restarted);

        machine.write("/etc/a.conf", "wrong line");
        let ended = machine.run(systemd::UNIT.verb("apply"), &arguments);
        let expected = (
            1,
            "wrong line\na.service refuses /etc/a.conf, and goes on with the former one\n"
                .to_owned(),
        );
        assert_eq!((ended.status, ended.complained), expected);
        assert!(!machine.calls().iter().any(|call| call.contains("reload a")));
        let ended = machine.run(systemd::UNIT.verb("check"), &arguments);
        assert_eq!(ended.printed, "runs with older files\n");

        // A unit that does not run is started.
        machine.write("/etc/a.conf", "4");
        machine.write("/root/stopped", "");
        machine.calls();
        machine.done(systemd::UNIT.verb("apply"), &arguments);
        assert!(
            machine
                .calls()
                .contains(&"systemctl restart a.service".to_owned())
        );
        std::fs::remove_file(machine.at("/root/stopped")).unwrap();
        // An earlier version did not record what needs a restart.
        let mark = "/var/lib/kubexm/started/a.service";
        let recorded = machine.read(mark);
        let earlier: Vec<_> = recorded.lines().take(2).collect();
        machine.write(mark, &format!("{}\n", earlier.join("\n")));
        machine.done(systemd::UNIT.verb("check"), &arguments);
        machine.write("/etc/a.conf", "5");
        assert_eq!(applied(), restarted);
    });
}

#[test]
fn masked_unit_is_enabled() {
    Machine::with_each_shell(|machine| {
        machine.write("/root/masked", "");
        let systemctl = "case $1 in\nenable) [ ! -e /root/masked ] || { echo masked >&2; exit 1; } ;;\n\
                         unmask) rm /root/masked ;;\nesac";
        machine.fake("systemctl", systemctl);
        machine.done(
            systemd::UNIT.verb("apply"),
            &["unit=a.service", "start=yes"],
        );
        assert!(!machine.has("/root/masked"));
    });
}

#[test]
fn units_that_restart_and_programs_that_do_not_answer_are_found_with_their_logs() {
    Machine::with_each_shell(|machine| {
        machine.write("/root/since", "100");
        machine.fake(
            "systemctl",
            "case $1 in\n\
             cat) case $2 in kube-scheduler.service | a.service) ;; *) exit 1 ;; esac ;;\n\
             show) printf 'Id=a.service\\nActiveState=active\\nSubState=running\\nNRestarts=0\\n\\n'\n\
             printf 'NRestarts=7\\nSubState=running\\nActiveState=active\\nId=kube-scheduler.service\\n'\n\
             echo \"ActiveEnterTimestampMonotonic=$(cat /root/since)\" ;;\n\
             esac",
        );
        machine.fake("sleep", "[ ! -e /root/loops ] || echo 200 >/root/since");
        machine.fake("journalctl", "echo \"log of $2\"");
        machine.fake(
            "kubectl",
            "[ ! -e /root/down ] || { echo a >&2; echo refused >&2; exit 1; }",
        );
        machine.write(
            "/var/log/pods/kube-system_kube-proxy-x1_1/kube-proxy/0.log",
            "the cause\n",
        );
        let url = "kube-proxy=http://127.0.0.1:10256/healthz";
        let arguments = ["a.service", "kube-scheduler.service", url];
        machine.done(systemd::HEALTHY.verb("check"), &arguments);
        let calls = machine.calls();
        let asked = "kubectl --kubeconfig /dev/null --cache-dir /run/kubexm/kubectl --server http://127.0.0.1:10256 \
                     --insecure-skip-tls-verify --request-timeout=5s get --raw /healthz";
        assert!(calls.contains(&asked.to_owned()), "{calls:?}");
        machine.write("/root/loops", "");
        machine.write("/root/down", "");
        let found = machine.run(systemd::HEALTHY.verb("check"), &arguments);
        let restarts = "kube-scheduler.service: ends soon after each start, restarts: 7\n";
        let silent = "kube-proxy: does not answer at http://127.0.0.1:10256/healthz: refused\n";
        assert_eq!(
            (found.status, found.printed),
            (1, format!("{restarts}{silent}"))
        );
        machine.write("/root/since", "100");
        let printed = machine.done(systemd::HEALTHY.verb("diagnose"), &arguments);
        let log = "log of kube-scheduler.service\n";
        assert_eq!(printed, format!("{restarts}{log}{silent}the cause\n"));
    });
}

#[test]
fn logs_come_from_units_and_containers_of_a_name() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "[ \"$2\" = kubexm-proxy.service ]");
        machine.fake("journalctl", "echo '{\"entry\": 1}'");
        let pods = "/var/log/pods/kube-system_proxy-a_1";
        let line = |text: &str| format!("2026-01-02T03:04:05Z stdout F {text}\n");
        machine.write(&format!("{pods}/proxy/2.log"), &(line("3") + &line("4")));
        machine.write(
            &format!("{pods}/proxy/10.log"),
            &(line("5") + "= unit other\n"),
        );
        machine.write(&format!("{pods}/other/0.log"), "other\n");
        let ended = machine.run(systemd::LOGS, &["name=proxy", "count=3", "since=17"]);
        assert_eq!(ended.status, 0, "{}", ended.complained);
        let expected = "= unit kubexm-proxy\n|{\"entry\": 1}\n= pod kube-system_proxy-a\n\
                        |2026-01-02T03:04:05Z stdout F 4\n|2026-01-02T03:04:05Z stdout F 5\n|= unit other\n";
        assert_eq!(ended.printed, expected);
        let calls = machine.calls();
        // Without --all, journalctl prints no text of more than 4096 bytes.
        let journal = "journalctl -u kubexm-proxy.service -o json --all --output-fields=MESSAGE -n 3 --since @17 --no-pager \
                       --quiet";
        assert!(calls.iter().any(|call| call == journal), "{calls:?}");
        assert_eq!(
            machine
                .run(systemd::LOGS, &["name=absent", "count=3", "since=0"])
                .printed,
            ""
        );
    });
}

/// The arguments that read logs since 2026-03-01T00:00:00Z.
const SINCE: [&str; 3] = ["name=web", "count=100", "since=1772323200"];

/// Returns the lines of a log file that the host prints.
fn logged(machine: &Machine, lines: &[&str]) -> Vec<String> {
    let file = "/var/log/pods/demo_web-a_1/web/0.log";
    machine.write(file, &(lines.join("\n") + "\n"));
    let printed = machine.done(systemd::LOGS, &SINCE);
    let printed = printed.lines().filter_map(|line| line.strip_prefix('|'));
    printed.map(str::to_owned).collect()
}

#[test]
fn logs_of_containers_begin_at_a_time() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "exit 1");
        for [before, after] in [
            ["2026-02-28T23:59:59.999999999Z", "2026-03-01T00:00:00Z"],
            ["2026-03-01T07:59:59.9+08:00", "2026-03-01T08:00:00.1+08:00"],
            ["2026-02-28T18:29:59-05:30", "2026-02-28T18:30:00-05:30"],
            ["2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"],
            ["2025-12-31T23:59:59Z", "2026-10-31T00:00:00+14:00"],
        ] {
            let line = |time: &str| format!("{time} stderr F 9999-01-01T00:00:00Z");
            let json = |time: &str| {
                format!(r#"{{"log":"\"time\":\"9999\"\n","stream":"stdout","time":"{time}"}}"#)
            };
            for [before, after] in [[line(before), line(after)], [json(before), json(after)]] {
                assert_eq!(logged(machine, &[&before, &after]), [after.as_str()]);
                assert!(logged(machine, &[&before]).is_empty(), "{before}");
                // A clock that was changed hides no later line.
                assert_eq!(logged(machine, &[&after, &before]), [&*after, &*before]);
            }
        }
    });
}

#[test]
fn logs_of_containers_have_the_start_of_a_line_from_before() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "exit 1");
        let cri = [
            "2026-02-28T23:59:57Z stdout P other",
            "2026-02-28T23:59:57Z stdout F line",
            "2026-02-28T23:59:58Z stdout P one",
            "2026-02-28T23:59:59Z stdout P two",
            "2026-03-01T00:00:00Z stdout F three",
        ];
        assert_eq!(logged(machine, &cri), cri[2..]);
        let docker = [
            r#"{"log":"other\n","stream":"stdout","time":"2026-02-28T23:59:58Z"}"#,
            r#"{"log":"one","stream":"stdout","time":"2026-02-28T23:59:59Z"}"#,
            r#"{"log":"two\n","stream":"stdout","attrs":{"time":"x"},"time":"2026-03-01T00:00:00Z"}"#,
        ];
        assert_eq!(logged(machine, &docker), docker[1..]);
    });
}

#[test]
fn log_files_without_new_lines_are_not_read() {
    Machine::with_each_shell(|machine| {
        machine.fake("systemctl", "exit 1");
        machine.fake("tail", "cat \"${3:-/dev/null}\"");
        let file = "/var/log/pods/demo_web-a_1/web/0.log";
        machine.write(file, "2026-03-01T00:00:00Z stdout F x\n");
        let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_772_323_199);
        let opened = std::fs::File::options().write(true).open(machine.at(file));
        opened.unwrap().set_modified(written).unwrap();
        let printed = machine.done(systemd::LOGS, &SINCE);
        assert_eq!(printed, "= pod demo_web-a\n");
        assert_eq!(
            machine
                .calls()
                .iter()
                .filter(|call| call.ends_with(".log"))
                .count(),
            0
        );
    });
}
