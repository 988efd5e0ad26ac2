//! Programs that were downloaded: what they cannot reach, even if they are not what they seem.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use kubexm_sandbox::{ProgramOutput, ProgramRun, Sandbox, SandboxError, Workspace};

fn sandbox() -> Sandbox {
    Sandbox::On {
        launcher: PathBuf::from(env!("CARGO_BIN_EXE_kubexm")),
    }
}

/// Runs a script of bash in a sandbox.
async fn run(
    script: &str,
    change: impl FnOnce(&mut ProgramRun),
) -> Result<ProgramOutput, SandboxError> {
    let workspace = Workspace::create("kubexm-test-").unwrap();
    let program = workspace
        .put("program", b"#!/bin/bash\n. \"$1\"\n")
        .unwrap();
    let script = workspace.put("script", script.as_bytes()).unwrap();
    workspace.permit(&program, 0o755).unwrap();
    let mut run = ProgramRun::new(&workspace, program).unwrap();
    run.arguments.push(script.display().to_string());
    change(&mut run);
    run.output(&sandbox()).await
}

/// Returns the output of a script that ends with the exit code 0.
async fn text(script: &str) -> String {
    let output = run(script, |_| {}).await.unwrap();
    assert!(output.is_success, "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the processes of the machine whose arguments contain this text.
pub fn processes(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let arguments = entries.filter_map(|entry| {
        let bytes = std::fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    });
    // The specification of a run is an argument of the sandbox's own processes.
    arguments
        .filter(|line| line.contains(text) && !line.contains("sandbox-"))
        .collect()
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("after two minutes: {what}");
}

#[tokio::test]
async fn a_program_reaches_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let said = text(&format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached\n\
         (exec 3<>/dev/udp/192.0.2.1/53) 2>/dev/null && echo sent\n\
         while read -r name rest; do case $name in *:) echo \"${{name%:}}\";; esac; done </proc/net/dev\n\
         while read -r name rest; do echo \"route $name\"; done </proc/net/route"
    ))
    .await;
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines.contains(&"lo") && !said.contains("reached") && !said.contains("sent"),
        "{said}"
    );
    assert!(
        lines
            .iter()
            .all(|line| matches!(*line, "lo" | "route Iface")),
        "{said}"
    );
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_program_writes_only_its_own_directory() {
    let victim = tempfile::tempdir().unwrap();
    let place = victim.path().display();
    let said = text(&format!(
        "for file in {place}/x /x /tmp/x /usr/x /usr/bin/x /dev/x /etc/x /var/tmp/x \"$0\" \"$1\"; do\n\
         (echo changed >>\"$file\") 2>/dev/null && echo \"wrote $file\"\ndone\n\
         echo kept >own && cat own"
    ))
    .await;
    assert_eq!(said, "kept\n");
    assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_program_reads_no_files_of_the_user() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("id_rsa"), "CANARY").unwrap();
    let own = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let said = text(&format!(
        "for place in /etc/shadow /etc/passwd {} {own} /home /root /var /run /sys /boot; do\n\
         [ -e \"$place\" ] && echo \"sees $place\"\ndone\n\
         for place in /proc/[0-9]*; do tr '\\0' ' ' <\"$place/cmdline\"; done | grep -c '[i]ntegration' || true",
        home.path().join("id_rsa").display(),
    ))
    .await;
    assert_eq!(said, "0\n");
}

#[tokio::test]
async fn a_program_has_no_rights_and_no_environment() {
    let said = text(
        "grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapAmb|NoNewPrivs)' /proc/self/status\n\
         unshare --user --map-root-user --mount mount -o remount,bind,rw /usr 2>/dev/null && echo remounted\n\
         env | cut -d= -f1 | sort | tr '\\n' ' '",
    )
    .await;
    let mut lines: Vec<&str> = said.lines().map(str::trim).collect();
    lines.sort_unstable();
    let said = lines.join("\n").replace('\t', " ");
    insta::assert_snapshot!(said, @"
    CapAmb: 0000000000000000
    CapEff: 0000000000000000
    CapPrm: 0000000000000000
    Gid: 65534 65534 65534 65534
    Groups:
    HOME PATH PWD SHLVL TMPDIR _
    NoNewPrivs: 1
    Uid: 65534 65534 65534 65534
    ");
}

#[tokio::test]
async fn a_program_and_its_children_end_at_the_limit() {
    let endless = run(
        "setsid sleep 98761.25 & disown; exec sleep 98761.5",
        |run| {
            run.limit = Duration::from_secs(3);
        },
    );
    let started = async {
        // The children are really running before the limit.
        while processes("sleep 98761.").len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (ended, ()) = tokio::join!(endless, started);
    assert!(matches!(ended, Err(SandboxError::TimedOut(_))), "{ended:?}");
    wait_until("a process of the program runs", || {
        processes("sleep 98761.").is_empty()
    });
    // Children that the program leaves end with it.
    text("setsid sleep 98762.25 >/dev/null 2>&1 & disown").await;
    wait_until("a child runs", || processes("sleep 98762.").is_empty());
}

#[tokio::test]
async fn endless_output_ends_at_the_limit() {
    let ended = run("while :; do echo yes; done", |run| {
        run.largest_output = 1000
    })
    .await;
    assert!(
        matches!(ended, Err(SandboxError::TooMuchOutput(1000))),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_program_reaches_the_server_in_its_network() {
    let answer = kubexm_sandbox::LoopbackAnswer {
        port: 2379,
        json: "{\"a\": 1}".to_owned(),
    };
    let script =
        "exec 3<>/dev/tcp/127.0.0.1/2379; printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3";
    let output = run(script, |run| run.answer = Some(answer)).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 200 OK") && said.ends_with("{\"a\": 1}"),
        "{said}"
    );
}
