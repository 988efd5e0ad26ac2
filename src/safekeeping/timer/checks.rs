//! What a timer needs on this machine: a state directory of an install, paths that a service has, and a login without a
//! terminal.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use super::system::ServiceRun;
use super::unit::Service;
use super::{TimerOptions, system};
use kubexm_config::Cluster;
use kubexm_config::cluster::PasswordSource;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_session::{CommandError, FileError};
use kubexm_types::Untrusted;

/// Directories that a service does not have, or that do not survive a start of the machine.
const SHORT_LIVED: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev"];

pub(super) fn check_state(state: &Path) -> Result<(), CommandError> {
    if state.join(ClusterRecord::FILE).exists() {
        return Ok(());
    }
    let cause = "it has no record of a cluster, so it is not the one of an install";
    let error = FileError::new("install a timer with the state directory", state, cause);
    let hint = "pass the state directory of the install with --state; with sudo, the default is that of root";
    Err(error.hint(hint).into())
}

/// Fails if the cluster file names a password in an environment variable: a service does not have it.
pub(super) fn check_passwords(cluster: &Cluster) -> Result<(), CommandError> {
    for host in &cluster.hosts {
        let jumps = host.jump_hosts.iter().flatten();
        let passwords = jumps.filter_map(|jump| jump.password.as_ref());
        for password in passwords.chain(&host.password) {
            let where_from = match password {
                PasswordSource::Variable(name) => format!("the environment variable {name}"),
                PasswordSource::File(path) if path.starts_with("/dev") => {
                    path.display().to_string()
                }
                PasswordSource::File(_) | PasswordSource::Text(_) => continue,
            };
            return Err(CommandError::configuration(format!(
                "{}: its password comes from {where_from}, which a run of the timer does not have",
                host.name
            ))
            .hint(
                "let kubexm log in with an SSH key that needs no passphrase, or name a file with \
                 the password in the cluster file",
            ));
        }
    }
    Ok(())
}

/// Fails for a path that the service does not see, or that a unit cannot contain.
pub(super) fn check_path(path: &Path) -> Result<(), CommandError> {
    let refused = |cause: &str, hint: &str| {
        let error = FileError::new("install a timer that uses", path, cause);
        Err(error.hint(hint).into())
    };
    if SHORT_LIVED.iter().any(|folder| path.starts_with(folder)) {
        let cause = "a service has another directory there, or none after a start of this machine";
        return refused(
            cause,
            "move it to a directory that stays, as /srv or /usr/local/bin",
        );
    }
    let text = path.to_string_lossy();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+@:,=".contains(letter);
    if text.chars().all(is_plain) {
        Ok(())
    } else {
        refused(
            "its path has a character with a meaning in units of systemd",
            "choose a path of letters, digits and the characters / . _ - + @ : , =",
        )
    }
}

/// Fails if other users than root and that of a run can replace a file or directory: a run starts it, or trusts what it contains.
pub(super) fn check_owner(path: &Path, user: u32) -> Result<(), CommandError> {
    let failed = |error| FileError::io("install a timer that uses", path, &error);
    let real = path.canonicalize().map_err(failed)?;
    for each in real.ancestors() {
        let about = metadata(each).map_err(failed)?;
        let is_shared = about.mode() & 0o002 != 0 && about.mode() & 0o1000 == 0;
        if is_shared || ![0, user].contains(&about.uid()) {
            let cause = format!("other users can change {}", each.display());
            let error = FileError::new("install a timer that uses", path, cause);
            let hint = "let only root and the user of the timer write there: chown, chmod o-w";
            return Err(error.hint(hint).into());
        }
    }
    Ok(())
}

/// Fails if this machine cannot install units.
pub(super) fn check_machine() -> Result<(), CommandError> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(CommandError::configuration(
            "systemd does not run on this machine, so it cannot have a timer",
        )
        .hint(
            "run `kubexm certs renew --expiring` and `kubexm backup create` from its scheduler",
        ));
    }
    if metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        Ok(())
    } else {
        Err(
            CommandError::configuration(format!("only root can change units in {}", system::UNITS))
                .hint(
                    "run the same command with sudo, and pass --state: a run of the timer then \
                     has the user that owns the state directory",
                ),
        )
    }
}

/// Reads a file with the user of a run and its limits.
pub(super) fn try_read(service: &Service, file: &Path) -> Result<(), CommandError> {
    let words = ["test", "-r", &file.display().to_string()].map(str::to_owned);
    let run = system::run_as_service(&service.properties(), &words)?;
    if run.code == Some(0) {
        return Ok(());
    }
    let user = service.user;
    let cause = match run.printed.trim() {
        "" => format!("the user {user} of its service cannot read it"),
        printed => format!(
            "the user {user} of its service cannot read it: {}",
            Untrusted::last(printed)
        ),
    };
    let error = FileError::new("install a timer that uses", file, cause);
    let hint = format!("chown {user} {}, or name another file", file.display());
    Err(error.hint(hint).into())
}

/// Creates and removes a file in each directory of a run, with its user and its limits.
pub(super) fn try_write(service: &Service) -> Result<(), CommandError> {
    for folder in &service.writable {
        let probe = folder.join(".kubexm-probe");
        let words = ["touch".to_owned(), probe.display().to_string()];
        let run = system::run_as_service(&service.properties(), &words)?;
        // It may not exist.
        let _ = std::fs::remove_file(&probe);
        if run.code != Some(0) {
            let cause = format!(
                "the user {} of its service cannot write there: {}",
                service.user,
                Untrusted::last(run.printed.trim())
            );
            let error = FileError::new("install a timer that uses", folder, cause);
            let path = folder.display();
            let hint = format!("chown {} {path}, or name another directory", service.user);
            return Err(error.hint(hint).into());
        }
    }
    Ok(())
}

/// Logs in to all hosts as a run does: with its user, its limits, and without a terminal and an agent.
pub(super) fn try_login(options: &TimerOptions, service: &Service) -> Result<(), CommandError> {
    let mut command = service.command.iter();
    let mut words: Vec<String> = command.next().into_iter().cloned().collect();
    words.extend(["certs", "check", "--output", "json"].map(str::to_owned));
    // The options of the login have the same names.
    let mut rest = service.command.iter().peekable();
    while let Some(word) = rest.next() {
        let is_shared = [
            "-f",
            "--state",
            "--known-hosts",
            "--ssh-config",
            "--password-file",
        ];
        if is_shared.contains(&word.as_str()) {
            words.push(word.clone());
            words.extend(rest.next().cloned());
        }
    }
    let run = system::run_as_service(&service.properties(), &words)?;
    let Some(cause) = failed_login(&run) else {
        return Ok(());
    };
    Err(CommandError::configuration(format!(
        "a run of the {} timer could not log in to all hosts as the user {}:\n{}",
        options.job,
        service.user,
        Untrusted::last(&cause)
    ))
    .hint(
        "this user needs an SSH key without a passphrase, or `privateKeyPath` in the cluster \
         file; a service has no ssh-agent",
    ))
}

/// Returns why `certs check` did not reach all hosts. A certificate that needs an action is not a reason against a timer.
fn failed_login(run: &ServiceRun) -> Option<String> {
    let report: Option<Value> = serde_json::from_str(&run.stdout).ok();
    let unchecked = report
        .as_ref()
        .and_then(|report| report["unchecked"].as_array());
    match unchecked {
        Some(unchecked) if matches!(run.code, Some(0 | 8)) && unchecked.is_empty() => None,
        Some(unchecked) if !unchecked.is_empty() => {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let line = |host: &Value| format!("{}: {}", text(&host["host"]), text(&host["reason"]));
            Some(unchecked.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        _ => {
            let lines: Vec<&str> = run.printed.lines().collect();
            Some(lines[lines.len().saturating_sub(8)..].join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use kubexm_config::example::{ROLES, text_of};

    #[test]
    fn paths_that_a_service_does_not_see_are_refused() {
        for path in ["/tmp/kubexm", "/run/x", "/srv/a b", "/srv/50%", "/srv/$x"] {
            let error = check_path(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
        }
        check_path(Path::new("/srv/kubexm/state-1.0")).unwrap();
    }

    #[test]
    fn path_that_other_users_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, state) = (
            folder.path().join("shared"),
            folder.path().join("shared/state"),
        );
        std::fs::create_dir_all(&state).unwrap();
        let own = state.metadata().unwrap().uid();
        let check_owner = |path: &Path| check_owner(path, own);
        check_owner(&state).unwrap();
        let mode = |mode| std::fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
        // Others may create files there, and not exchange this one.
        mode(0o1777);
        check_owner(&state).unwrap();
        mode(0o777);
        let refused = check_owner(&state).unwrap_err().to_string();
        let expected = format!("other users can change {}\nhint: ", shared.display());
        assert!(refused.contains(&expected), "{refused}");
        assert!(check_owner(&folder.path().join("absent")).is_err());
    }

    /// The exit code alone does not show it: a certificate of this machine can be the finding.
    #[test]
    fn login_is_proven_for_every_host() {
        let login = |code, stdout: &str| {
            failed_login(&ServiceRun {
                code: Some(code),
                stdout: stdout.to_owned(),
                printed: format!("{stdout}\nerror: x"),
            })
        };
        assert_eq!(login(0, r#"{"unchecked": []}"#), None);
        assert_eq!(login(8, r#"{"unchecked": []}"#), None);
        let lost = r#"{"unchecked": [{"host": "node2", "reason": "permission denied"}]}"#;
        assert_eq!(login(8, lost).unwrap(), "node2: permission denied");
        assert_eq!(login(3, "").unwrap(), "\nerror: x");
    }

    #[test]
    fn password_of_the_environment_is_refused() {
        let check = |password: &str| {
            let text = text_of(ROLES, "", "").replace("11}", &format!("11, {password}}}"));
            let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
            check_passwords(&cluster)
        };
        check("passwordFile: /srv/password").unwrap();
        let error = check("passwordEnv: SECRET").unwrap_err().to_string();
        assert!(error.contains("environment variable SECRET"), "{error}");
    }
}
