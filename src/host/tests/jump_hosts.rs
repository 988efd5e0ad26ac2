//! Hosts behind one and two jump hosts.

use super::sshd::Sshd;
use crate::{Command, Host, HostError, JumpHosts, SshHost, SshOptions};

/// Returns options for a host behind jump hosts, and the known keys of all of them.
fn behind(host: &Sshd, way: &[&Sshd]) -> SshOptions {
    let all = way.iter().chain([&host]);
    let known: Vec<_> = all.map(|sshd| sshd.known("", "host.pub")).collect();
    SshOptions {
        way: way.iter().map(|sshd| sshd.server()).collect(),
        ..host.options(&known.concat())
    }
}

fn logins(sshd: &Sshd) -> usize {
    sshd.log().matches("Accepted publickey").count()
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn hosts_are_reached_through_two_jump_hosts() {
    let (outer, inner, host) = (Sshd::start(), Sshd::start(), Sshd::start());
    for sshd in [&outer, &inner, &host] {
        sshd.listens().await;
    }
    let jump_hosts = JumpHosts::default();
    let connect = async || {
        let options = SshOptions {
            jump_hosts: jump_hosts.clone(),
            ..behind(&host, &[&outer, &inner])
        };
        SshHost::connect(options).await.unwrap()
    };
    let (one, two) = tokio::join!(connect(), connect());
    for connected in [one, two] {
        let output = connected.run(Command::new("echo").arg("here")).await;
        assert_eq!(output.unwrap().text(), "here\n");
        // A tunnel that the host opens goes through the jump hosts as well.
        let port = outer.server().port;
        assert!(connected.open_tunnel("127.0.0.1", port).await.is_ok());
    }
    // Hosts share the connections of the jump hosts.
    assert_eq!((logins(&outer), logins(&inner), logins(&host)), (1, 1, 2));
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn keys_and_logins_of_jump_hosts_are_checked() {
    let (jump, host) = (Sshd::start(), Sshd::start());
    for sshd in [&jump, &host] {
        sshd.listens().await;
    }
    let options = || SshOptions {
        way: vec![jump.server()],
        ..host.options(&host.known("", "host.pub"))
    };
    let error = |error: HostError| {
        let text = jump.shown(&error);
        let start = text.find("SHA256:").map_or(0, |at| at + 7);
        text.replace(&text[start..(start + 43).min(text.len())], "DIGEST")
    };
    let unknown = SshHost::connect(options()).await.err().unwrap();
    insta::assert_snapshot!(error(unknown), @"
    node1: the connection to the jump host 127.0.0.1:PORT failed: its SSH host key ssh-ed25519 SHA256:DIGEST is unknown
      hint: compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or pass --accept-new-host-keys
    ");
    assert_eq!(logins(&jump), 0);

    let mut wrong = behind(&host, &[&jump]);
    wrong.way[0].private_key = Some(host.file("user").into());
    let denied = SshHost::connect(wrong).await.err().unwrap();
    let denied = host
        .shown(&denied)
        .replace(&jump.server().port.to_string(), "JUMP");
    insta::assert_snapshot!(denied, @"
    node1: cannot log in as root: the connection to the jump host 127.0.0.1:JUMP failed: tried key FOLDER/user (refused)
      hint: add a public key to root's ~/.ssh/authorized_keys on the host, or correct user, privateKeyPath or password in the cluster file
    ");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn unreachable_hosts_behind_a_jump_host_are_named_with_it() {
    let closed = Sshd::start_with("AllowTcpForwarding no", |_| ());
    let (mut jump, host) = (Sshd::start(), Sshd::start());
    for sshd in [&closed, &jump, &host] {
        sshd.listens().await;
    }
    let shown = |error: HostError, jump: u16| host.shown(&error).replace(&jump.to_string(), "JUMP");
    let port = jump.server().port;
    let not_allowed = behind(&host, &[&closed]);
    let refused = SshHost::connect(not_allowed).await.err().unwrap();
    insta::assert_snapshot!(shown(refused, closed.server().port), @"
    node1: cannot reach 127.0.0.1:PORT through the jump host 127.0.0.1:JUMP: the host's sshd does not forward TCP connections (AllowTcpForwarding)
      hint: set AllowTcpForwarding yes in the sshd_config of 127.0.0.1:JUMP
    ");
    let options = behind(&host, &[&jump]);
    let mut gone = options.clone();
    // The port of tcpmux, where nothing listens.
    gone.server.port = 1;
    let refused = SshHost::connect(gone).await.err().unwrap();
    insta::assert_snapshot!(shown(refused, port), @"
    node1: cannot reach 127.0.0.1:1 through the jump host 127.0.0.1:JUMP: the connection was refused, or the host cannot resolve or route to the address
      hint: check that the host runs, and that 127.0.0.1:JUMP can reach the address and port of the cluster file
    ");

    // The jump host disappears while a command runs.
    let connected = SshHost::connect(options).await.unwrap();
    let running = connected.run(Command::new("sleep").arg("600").describe("wait"));
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        jump.end();
    };
    let (result, ()) = tokio::join!(running, stop);
    let lost = shown(result.unwrap_err(), port);
    let expected = "node1: cannot reach 127.0.0.1:PORT through the jump host 127.0.0.1:JUMP: the connection broke during 'wait'";
    assert!(lost.starts_with(expected), "{lost}");
}
