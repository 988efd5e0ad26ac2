//! Hosts with a certificate that an authority of `known_hosts` has signed.

use super::sshd::{Sshd, keygen};

/// Starts an sshd with a host certificate: `arguments` of `ssh-keygen`, such as its names and its period.
fn certified(arguments: &[&str]) -> Sshd {
    Sshd::start_with("HostCertificate FOLDER/host-cert.pub", |folder| {
        let (authority, host) = (format!("{folder}/authority"), format!("{folder}/host.pub"));
        let mut all = vec!["-q", "-s", &authority, "-I", "node1"];
        all.extend(arguments);
        all.push(&host);
        keygen(&all);
    })
}

async fn refused(sshd: &Sshd, known_hosts: &str) -> String {
    let error = sshd.try_connect(known_hosts).await.err().unwrap();
    let text = sshd.shown(&error);
    match text.split_once("SHA256:") {
        Some((before, after)) => format!("{before}SHA256:DIGEST{}", &after[43..]),
        None => text,
    }
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn certificates_of_a_recorded_authority_are_accepted() {
    let sshd = certified(&["-h", "-n", "127.0.0.1,node1"]);
    let authority = sshd.known("@cert-authority ", "authority.pub");
    assert!(sshd.try_connect(&authority).await.is_ok());
    // A certificate is not requested without an authority: the plain key counts.
    let plain = sshd.known("", "host.pub");
    assert!(sshd.try_connect(&plain).await.is_ok());
    let revoked = format!("{authority}{}", sshd.known("@revoked ", "host.pub"));
    let revoked_authority = format!("{authority}{}", sshd.known("@revoked ", "authority.pub"));
    let other = sshd.known("@cert-authority ", "user.pub");
    let all = [
        refused(&sshd, &revoked).await,
        refused(&sshd, &revoked_authority).await,
        refused(&sshd, &other).await,
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    node1: its SSH host certificate uses the key SHA256:DIGEST, which is marked as revoked in FOLDER/known_hosts:2
    node1: its SSH host certificate uses the key SHA256:DIGEST, which is marked as revoked in FOLDER/known_hosts:2
    node1: its SSH host certificate is signed by the unknown authority SHA256:DIGEST
      hint: compare it with the site's authority and add a @cert-authority line to known_hosts
    ");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn certificates_for_others_or_other_times_are_refused() {
    let mut all = Vec::new();
    for arguments in [
        &["-h", "-n", "node2.example"][..],
        &["-h"],
        &["-h", "-n", "127.0.0.1", "-V", "20200101:20200102"],
    ] {
        let sshd = certified(arguments);
        let authority = sshd.known("@cert-authority ", "authority.pub");
        all.push(refused(&sshd, &authority).await);
    }
    insta::assert_snapshot!(all.join("\n"), @"
    node1: its SSH host certificate is not for 127.0.0.1, but for 'node2.example'
      hint: use one of these names as address in the cluster file, or issue a certificate for the address
    node1: its SSH host certificate does not name the hosts that it is for
      hint: issue a certificate for 127.0.0.1 (ssh-keygen -n)
    node1: its SSH host certificate has expired, or is not valid yet
      hint: issue a new certificate, and check the clock of this machine
    ");
}

/// As at sites that sign the keys of administrators and have no `authorized_keys`.
#[tokio::test]
#[ignore = "requires root and sshd"]
async fn certificate_beside_the_key_of_a_user_is_offered() {
    let lines = "Match all\nAuthorizedKeysFile none\nTrustedUserCAKeys FOLDER/authority.pub";
    let sshd = Sshd::start_with(lines, |folder| {
        let (authority, user) = (format!("{folder}/authority"), format!("{folder}/user.pub"));
        keygen(&["-q", "-s", &authority, "-I", "ops", "-n", "root", &user]);
    });
    let known = sshd.known("", "host.pub");
    assert!(sshd.try_connect(&known).await.is_ok());
    std::fs::write(sshd.file("user-cert.pub"), "damaged").unwrap();
    let damaged = refused(&sshd, &known).await;
    std::fs::remove_file(sshd.file("user-cert.pub")).unwrap();
    let without = refused(&sshd, &known).await;
    insta::assert_snapshot!(format!("{damaged}\n{without}"), @"
    node1: cannot log in as root: tried key FOLDER/user (its certificate cannot be read: length invalid)
      hint: add a public key to root's ~/.ssh/authorized_keys on the host, or correct user, privateKeyPath or password in the cluster file
    node1: cannot log in as root: tried key FOLDER/user (refused)
      hint: add a public key to root's ~/.ssh/authorized_keys on the host, or correct user, privateKeyPath or password in the cluster file
    ");
}

#[tokio::test]
#[ignore = "requires root and sshd"]
async fn host_that_requires_a_key_and_a_password_says_so() {
    let sshd = Sshd::start_with("AuthenticationMethods publickey,password", |_| ());
    let refused = refused(&sshd, &sshd.known("", "host.pub")).await;
    insta::assert_snapshot!(refused, @"
    node1: cannot log in as root: tried key FOLDER/user (accepted; the host also requires password)
      hint: set password for the host in the cluster file, or let sshd accept the key alone (AuthenticationMethods)
    ");
}
