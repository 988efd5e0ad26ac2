//! The system's `ssh` as transport.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::sshd::Sshd;
use crate::{Command, Host, HostError, Input, SshHost, SshOptions, TunnelError};

/// A configuration with what kubexm itself does not do, and with settings that would change what commands print.
const CONFIG: &str = "
Match host site-node exec true
    HostName 127.0.0.1
    Port PORT
    User root
    ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'
    RemoteCommand echo of the user
    RequestTTY force
    LocalForward 127.0.0.1:1 127.0.0.1:1
    ControlPath none
";

fn options(sshd: &Sshd, config: &str, known_hosts: &str) -> SshOptions {
    let mut options = sshd.options(known_hosts);
    options.openssh = Some(sshd.openssh(config));
    if !config.is_empty() {
        options.server.address = "site-node".to_owned();
    }
    options
}

async fn error(options: SshOptions) -> HostError {
    SshHost::connect(options).await.err().unwrap()
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn configuration_of_the_user_decides_how_to_connect() {
    let sshd = Sshd::start_with("Banner FOLDER/user.pub", |_| ());
    sshd.listens().await;
    let host = options(&sshd, CONFIG, &sshd.known("", "host.pub"));
    let host = SshHost::connect(host).await.unwrap();
    let copied = Command::script("cat; echo 'to stderr' >&2; exit 255", [""; 0]);
    let input = vec![b'x'; 300_000];
    let output = host
        .run(copied.input(Input::Bytes(input.clone())))
        .await
        .unwrap();
    assert_eq!((output.status, output.stdout == input), (255, true));
    assert_eq!(output.complaint().as_str(), "to stderr");
    host.disconnect().await;
    let broken = host.run(Command::new("true")).await.unwrap_err();
    assert!(matches!(broken, HostError::Unreachable { .. }), "{broken}");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn host_with_another_key_is_refused_and_a_new_one_is_recorded() {
    let sshd = Sshd::start();
    sshd.listens().await;
    for known in [String::new(), sshd.known("", "user.pub")] {
        let refused = error(options(&sshd, "", &known)).await;
        assert!(matches!(refused, HostError::HostKey { .. }), "{refused}");
    }
    let mut accepting = options(&sshd, "", "");
    let own = sshd.file("a state 100%/known_hosts");
    accepting.host_keys.accept_new = Some(own.clone().into());
    let host = SshHost::connect(accepting.clone()).await.unwrap();
    assert_eq!(
        host.run(Command::new("id").arg("-u")).await.unwrap().text(),
        "0\n"
    );
    let accepted = accepting.host_keys.accepted.take();
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    let recorded = std::fs::read_to_string(own).unwrap();
    let key = std::fs::read_to_string(sshd.file("host.pub")).unwrap();
    let key = key.split_whitespace().nth(1).unwrap();
    assert!(recorded.contains(key), "{recorded}");
    // A known host is not reported again.
    let again = SshHost::connect(accepting.clone()).await.unwrap();
    again.disconnect().await;
    assert_eq!(accepting.host_keys.accepted.take(), [""; 0]);
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn host_with_a_key_of_another_type_is_not_new() {
    let sshd = Sshd::start_with("", |folder| {
        let mut keygen = std::process::Command::new("ssh-keygen");
        keygen.args([
            "-q",
            "-t",
            "ecdsa",
            "-N",
            "",
            "-f",
            &format!("{folder}/other"),
        ]);
        assert!(keygen.status().unwrap().success());
    });
    sshd.listens().await;
    let mut accepting = options(&sshd, "", &sshd.known("", "other.pub"));
    accepting.host_keys.accept_new = Some(sshd.file("accepted").into());
    let refused = error(accepting.clone()).await;
    assert!(matches!(refused, HostError::HostKey { .. }), "{refused}");
    assert_eq!(accepting.host_keys.accepted.take(), [""; 0]);
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn failures_say_what_ssh_printed() {
    let mut sshd = Sshd::start();
    sshd.listens().await;
    let mut other_key = options(&sshd, "", &sshd.known("", "host.pub"));
    other_key.server.private_key = Some(sshd.file("authority").into());
    let denied = error(other_key).await;
    assert!(matches!(denied, HostError::Denied { .. }), "{denied}");
    insta::assert_snapshot!(sshd.shown(&denied), @"
    node1: cannot log in as root: root@127.0.0.1: Permission denied (publickey,password,keyboard-interactive).
      hint: ssh cannot ask here: add the key to the agent with ssh-add, or get a ticket with kinit; `ssh -v HOST true` shows each method
    ");
    let wrong = error(options(&sshd, "Nonsense yes", "")).await;
    insta::assert_snapshot!(sshd.shown(&wrong), @"
    node1: cannot reach site-node:PORT: FOLDER/ssh_config: line 1: Bad configuration option: nonsense
    FOLDER/ssh_config: terminating, 1 bad configuration options
      hint: correct the SSH configuration; `ssh -G HOST` prints what it means
    ");
    sshd.end();
    let gone = error(options(&sshd, "", &sshd.known("", "host.pub"))).await;
    insta::assert_snapshot!(sshd.shown(&gone), @"
    node1: cannot reach 127.0.0.1:PORT: ssh: connect to host 127.0.0.1 port PORT: Connection refused
      hint: check address and port in the cluster file and the SSH configuration; `ssh -v HOST true` shows each step
    ");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn broken_connection_is_an_error_and_no_status() {
    let mut sshd = Sshd::start();
    sshd.listens().await;
    let options = options(&sshd, "", &sshd.known("", "host.pub"));
    let host = Arc::new(SshHost::connect(options).await.unwrap());
    let started = sshd.file("started");
    let running = {
        let (host, started) = (Arc::clone(&host), started.clone());
        let sleeps = Command::script("echo here; : >\"$1\"; sleep 600", [started]);
        tokio::spawn(async move { host.run(sleeps).await })
    };
    while !Path::new(&started).exists() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sshd.end();
    let broken = running.await.unwrap().unwrap_err();
    assert!(matches!(broken, HostError::Unreachable { .. }), "{broken}");
    let broken = host.run(Command::new("true")).await.unwrap_err();
    assert!(matches!(broken, HostError::Unreachable { .. }), "{broken}");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn tunnels_reach_targets_of_the_host() {
    let sshd = Sshd::start();
    let host = sshd.connect_by(super::sshd::Program::OpenSsh).await;
    let port = sshd.server().port;
    let mut tunnel = host.open_tunnel("127.0.0.1", port).await.unwrap();
    let mut greeting = [0; 8];
    tunnel.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"SSH-2.0-");
    let refused = host.open_tunnel("127.0.0.1", 1).await.err();
    assert_eq!(refused, Some(TunnelError::Refused));
    let without = Sshd::start_with("AllowTcpForwarding no", |_| ());
    let host = without.connect_by(super::sshd::Program::OpenSsh).await;
    let refused = host.open_tunnel("127.0.0.1", port).await.err();
    assert_eq!(refused, Some(TunnelError::NotAllowed));
}
