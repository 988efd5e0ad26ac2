//! Dry runs of commands that change hosts, a cluster or this machine: they print a plan, refuse wrong input, and change
//! nothing.

use super::sshd::Sshd;
use super::*;

/// The last line of every dry run.
const END: &str = "dry run: nothing was touched";

/// Returns every file and directory below a directory.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

#[test]
fn dry_run_of_exec_runs_nothing() {
    let sshd = Sshd::start();
    let (cluster, known) = (sshd.cluster(), sshd.path("known_hosts"));
    let (state, made) = (tempfile::tempdir().unwrap(), sshd.path("made"));
    let (known, made_there) = (known.display().to_string(), made.display().to_string());
    let exec = |more: &[&str]| {
        let state = state.path().display().to_string();
        let to = [
            "exec",
            "-f",
            &cluster,
            "--known-hosts",
            &known,
            "--state",
            &state,
        ];
        run(&[&to[..], more, &["--", "touch", &made_there]].concat())
    };
    let (code, out, err) = exec(&["--host", "node1", "--dry-run"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    let expected = format!(
        "runs as root on these hosts at the same time, for at most 600 seconds:\n  node1\n    touch {made_there}\n{END}\n"
    );
    assert_eq!(err, expected);
    assert!(!made.exists(), "a dry run ran the command");
    assert!(tree(state.path()).is_empty());

    // An unreachable host is a failure, as without the option.
    let (code, _, err) = exec(&["--dry-run"]);
    assert_eq!(code, Some(4), "{err}");
    assert!(
        err.contains("\n  node1\n") && err.contains("error: node2: "),
        "{err}"
    );
    let (code, _, err) = exec(&["--host", "node9", "--dry-run"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("'node9' is not a host of the cluster file"),
        "{err}"
    );

    let (_, out, _) = exec(&["--host", "node1", "--dry-run", "--output", "json"]);
    let events: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.last().unwrap()["event"], "end", "{out}");
    assert!(events.iter().any(|event| event["message"] == END), "{out}");

    let (code, _, err) = exec(&["--host", "node1"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(made.exists(), "the same command without the option runs");
}

#[test]
fn dry_run_of_kubeconfig_creates_no_key() {
    let sshd = Sshd::start();
    let (cluster, known) = (sshd.cluster(), sshd.path("known_hosts"));
    let (state, out) = (tempfile::tempdir().unwrap(), sshd.path("anna.conf"));
    let (known, out_path) = (known.display().to_string(), out.display().to_string());
    let dry_run = || {
        let state = state.path().display().to_string();
        run(&[
            "kubeconfig",
            "anna",
            "--group",
            "developers",
            "-f",
            &cluster,
            "-o",
            &out_path,
            "--known-hosts",
            &known,
            "--state",
            &state,
            "--dry-run",
        ])
    };
    let (code, _, err) = dry_run();
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("admin.conf"), "{err}");

    let admin = "clusters: [{name: example, cluster: {server: 'https://192.0.2.11:6443', certificate-authority-data: Y2E=}}]\n";
    std::fs::write(state.path().join("admin.conf"), admin).unwrap();
    let (code, _, err) = dry_run();
    assert_eq!(code, Some(0), "{err}");
    let expected = format!(
        "kubeconfig of the user anna of the group developers, with a certificate that is valid for at most 30d:\n  node1\n    \
         create a CertificateSigningRequest in the cluster, approve it, and remove it after it is signed\n  this machine\n    \
         create a key, and write {out_path}\n{END}\n"
    );
    assert_eq!(err, expected);
    assert!(!out.exists(), "a dry run wrote the kubeconfig");
    assert_eq!(tree(state.path()), [state.path().join("admin.conf")]);

    std::fs::write(&out, "former").unwrap();
    let (code, _, err) = dry_run();
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("the file exists"), "{err}");
}

#[test]
fn dry_run_of_a_backup_refuses_what_a_backup_refuses() {
    let sshd = Sshd::start();
    let (cluster, known) = (sshd.cluster(), sshd.path("known_hosts"));
    let (state, backups) = (tempfile::tempdir().unwrap(), sshd.path("backups"));
    let known = known.display().to_string();
    let dry_run = |recipient: &[&str]| {
        let (state, backups) = (
            state.path().display().to_string(),
            backups.display().to_string(),
        );
        let to = [
            "backup",
            "create",
            "-f",
            &cluster,
            "-o",
            &backups,
            "--known-hosts",
            &known,
            "--state",
            &state,
            "--dry-run",
        ];
        run(&[&to[..], recipient].concat())
    };
    let key = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    for (recipient, cause) in [
        (vec![], "it must be encrypted"),
        (vec!["--recipient", "age1"], "cannot encrypt the backup"),
        (vec!["--recipient", key], "it has no record of a cluster"),
        // A dry run does not ask for the passphrase.
        (vec!["--ask-passphrase"], "it has no record of a cluster"),
    ] {
        let (code, _, err) = dry_run(&recipient);
        assert_eq!(code, Some(2), "{recipient:?}: {err}");
        assert!(err.contains(cause), "{recipient:?}: {err}");
        assert!(!err.contains(END), "{recipient:?}: {err}");
    }
    assert!(!backups.exists() && tree(state.path()).is_empty());
}

#[test]
fn dry_run_of_the_removal_of_a_timer_keeps_it() {
    let sshd = Sshd::start();
    let (cluster, state) = (sshd.cluster(), tempfile::tempdir().unwrap());
    for job in ["certs", "backup"] {
        let record = state.path().join(format!("timer-{job}.json"));
        std::fs::write(&record, "{}").unwrap();
        let folder = state.path().display().to_string();
        let remove = [job, "timer", "remove", "-f", &cluster, "--state", &folder];
        let (code, out, err) = run(&[&remove[..], &["--dry-run"]].concat());
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        let expected = format!(
            "{job} timer of the cluster 'example' on this machine:\n  remove {}\n{END}\n",
            record.display()
        );
        assert_eq!(err, expected);
        assert!(record.exists(), "a dry run removed the record");
        let (code, _, err) = run(&remove);
        assert_eq!(code, Some(0), "{err}");
        assert!(
            !record.exists(),
            "the same command without the option removes it"
        );
    }
}
