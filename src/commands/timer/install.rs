//! Installs and removes a timer on this machine.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::record::{self, TimerState};
use super::schedule::Schedule;
use super::unit::{Service, service_name, timer_name};
use super::{Job, TimerOptions, absolute, system};
use crate::backup::BackupRecipients;
use crate::{CommandError, FileError, private_directory};
use kubexm_config::Cluster;
use kubexm_config::cluster::PasswordSource;
use kubexm_engine::cluster::ClusterRecord;
use kubexm_types::Untrusted;
use kubexm_types::event::Events;

/// Directories that a service does not have, or that do not survive a start of the machine.
const SHORT_LIVED: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev"];

/// What a run of a timer works with. It cannot ask for a password.
#[derive(Debug, Clone)]
pub enum Unattended {
    /// Renews certificates.
    Certificates {
        /// Certificates with less days left are renewed.
        days: u16,
        /// Whether an option names what opens the keys of CAs.
        has_key: bool,
    },
    /// Creates backups.
    Backup {
        /// The directory of the backups; `None` for `backups` in the state directory.
        directory: Option<PathBuf>,
        /// Public keys of age.
        recipients: Vec<String>,
        /// How many backups stay.
        keep: usize,
    },
}

/// Which timer to install.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    pub timer: TimerOptions,
    pub work: Unattended,
    /// Options of the command line with which a run reaches the hosts and opens keys. They are not secret.
    pub arguments: Vec<String>,
    pub schedule: Schedule,
    /// Whether to end after the plan.
    pub dry_run: bool,
}

/// Installs a timer, after a login to all hosts in the way of its service. Emits the plan as a note before that.
///
/// # Errors
/// This machine cannot run the timer, or a run would need a person.
pub async fn install(options: &InstallOptions, events: &Events) -> Result<(), CommandError> {
    let (cluster, state) = options.timer.cluster(events)?;
    let state = absolute(&state);
    check_state(&state)?;
    check_passwords(&cluster)?;
    options.check_keys(&state)?;
    let service = options.service(&cluster, &state)?;
    events.note(options.text(&service));
    if options.dry_run {
        events.note("dry run: nothing was touched");
        return Ok(());
    }
    check_machine()?;
    for folder in &service.writable {
        private_directory::create(folder, "create the directory of backups")?;
    }
    try_login(&options.timer, &service)?;
    let folder = Path::new(system::UNITS);
    let (job, name) = (options.timer.job, &cluster.name);
    let timer = timer_name(job, name);
    system::write_unit(&folder.join(service_name(job, name)), &service.text())?;
    system::write_unit(&folder.join(&timer), &service.timer(&options.schedule))?;
    let former = record::load(&state, job)?;
    let fresh = TimerState {
        job,
        schedule: options.schedule.text.clone(),
        interval: options.schedule.interval,
        installed: record::now(),
        next: None,
        last_run: None,
        last_success: None,
        backup: None,
    };
    // What former runs did stays known.
    record::save(
        &state,
        &former.map_or(fresh.clone(), |former| TimerState {
            last_run: former.last_run,
            last_success: former.last_success,
            backup: former.backup,
            ..fresh
        }),
    )?;
    system::systemctl(["daemon-reload"])?;
    system::systemctl(["enable", "--quiet", &timer])?;
    // A timer that runs keeps its former calendar.
    system::systemctl(["restart", &timer])
}

/// Removes a timer. Returns whether there was one.
///
/// # Errors
/// This machine refuses it.
pub fn remove(options: &TimerOptions, events: &Events) -> Result<bool, CommandError> {
    let (cluster, state) = options.cluster(events)?;
    let (job, name) = (options.job, &cluster.name);
    let folder = Path::new(system::UNITS);
    let (timer, service) = (timer_name(job, name), service_name(job, name));
    let paths = [folder.join(&timer), folder.join(&service)];
    let is_there = paths.iter().any(|path| path.exists());
    if is_there {
        check_machine()?;
        if folder.join(&timer).exists() {
            system::systemctl(["disable", "--quiet", "--now", &timer])?;
        }
        for path in &paths {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::io("remove the unit", path, &error).into());
                }
                _ => {}
            }
        }
        system::systemctl(["daemon-reload"])?;
    }
    record::remove(&state, job)?;
    Ok(is_there)
}

/// Returns the timers of a cluster that this machine has.
pub(crate) fn installed(cluster: &str) -> impl Iterator<Item = Job> {
    let folder = Path::new(system::UNITS);
    Job::ALL
        .into_iter()
        .filter(move |job| folder.join(timer_name(*job, cluster)).exists())
}

impl InstallOptions {
    fn service(&self, cluster: &Cluster, state: &Path) -> Result<Service, CommandError> {
        let program = std::env::current_exe();
        let program = program.map_err(CommandError::configuration)?;
        let file = absolute(&self.timer.cluster);
        let mut writable = vec![state.to_owned()];
        let mut command = vec![program.display().to_string()];
        command.extend(
            [self.timer.job.word(), "timer", "run", "--output", "plain"].map(str::to_owned),
        );
        command.extend(["-f".to_owned(), file.display().to_string()]);
        command.extend(["--state".to_owned(), state.display().to_string()]);
        command.extend(self.arguments.iter().cloned());
        match &self.work {
            Unattended::Certificates { days, .. } => {
                command.extend(["--days".to_owned(), days.to_string()]);
            }
            Unattended::Backup {
                directory,
                recipients,
                keep,
            } => {
                BackupRecipients::Keys(recipients.clone()).parsed()?;
                if let Some(directory) = directory {
                    let directory = absolute(directory);
                    command.extend(["-o".to_owned(), directory.display().to_string()]);
                    writable.push(directory);
                }
                command.extend(["--keep".to_owned(), keep.to_string()]);
                for key in recipients {
                    command.extend(["--recipient".to_owned(), key.clone()]);
                }
            }
        }
        for path in writable.iter().chain([&program, &file]) {
            check_path(path)?;
        }
        let owner = metadata(state).map_err(|error| FileError::io("read", state, &error))?;
        Ok(Service {
            job: self.timer.job,
            cluster: cluster.name.clone(),
            user: owner.uid(),
            command,
            writable,
        })
    }

    /// Fails if a run could not open the keys of CAs.
    fn check_keys(&self, state: &Path) -> Result<(), CommandError> {
        let Unattended::Certificates { has_key: false, .. } = self.work else {
            return Ok(());
        };
        let pki = state.join("pki");
        let folders = [pki.clone(), pki.join("kubernetes")];
        let entries = folders
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok());
        let mut paths = entries.flatten().flatten().map(|entry| entry.path());
        let encrypted = paths.find(|path| path.to_string_lossy().ends_with(".key.age"));
        let Some(path) = encrypted else {
            return Ok(());
        };
        let cause = "it is encrypted, and a run of the timer cannot ask for the passphrase";
        let error = FileError::new("renew certificates unattended with", &path, cause);
        Err(error
            .hint("pass --ca-identity FILE or --ca-passphrase-file FILE, with a file that only the owner of the state directory reads")
            .into())
    }

    /// Returns the plan for people.
    fn text(&self, service: &Service) -> String {
        let (job, name) = (service.job, &service.cluster);
        let what = match &self.work {
            Unattended::Certificates { days, .. } => format!(
                "renews certificates with less than {days} days left, on one host after another, if all control planes and \
                 members of etcd are healthy"
            ),
            Unattended::Backup { keep, .. } => {
                format!("creates a backup, and keeps the newest {keep}")
            }
        };
        let places = service
            .writable
            .iter()
            .map(|path| path.display().to_string());
        format!(
            "timer of the cluster '{name}' on this machine:\n  {units}/{service_name}\n    {what}\n    runs as the user {user}, \
             and writes {places}\n  {units}/{timer}\n    '{schedule}': next at {next}, then every {interval} seconds; up to \
             {delay} seconds later at random, and at once if the machine was off at that time",
            units = system::UNITS,
            service_name = service_name(job, name),
            timer = timer_name(job, name),
            user = service.user,
            places = places.collect::<Vec<_>>().join(" and "),
            schedule = self.schedule.text,
            next = self.schedule.next,
            interval = self.schedule.interval,
            delay = self.schedule.delay(),
        )
    }
}

fn check_state(state: &Path) -> Result<(), CommandError> {
    if state.join(ClusterRecord::FILE).exists() {
        return Ok(());
    }
    let cause = "it has no record of a cluster, so it is not the one of an install";
    let error = FileError::new("install a timer with the state directory", state, cause);
    let hint = "pass the state directory of the install with --state; with sudo, the default is that of root";
    Err(error.hint(hint).into())
}

/// Fails if the cluster file names a password in an environment variable: a service does not have it.
fn check_passwords(cluster: &Cluster) -> Result<(), CommandError> {
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
            return Err(CommandError::Configuration(format!(
                "{}: its password comes from {where_from}, which a run of the timer does not have\nhint: let kubexm log in \
                 with an SSH key that needs no passphrase, or name a file with the password in the cluster file",
                host.name
            )));
        }
    }
    Ok(())
}

/// Fails for a path that the service does not see, or that a unit cannot contain.
fn check_path(path: &Path) -> Result<(), CommandError> {
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
    match text.chars().all(is_plain) {
        true => Ok(()),
        false => refused(
            "its path has a character with a meaning in units of systemd",
            "choose a path of letters, digits and the characters / . _ - + @ : , =",
        ),
    }
}

/// Fails if this machine cannot install units.
fn check_machine() -> Result<(), CommandError> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(CommandError::Configuration(
            "systemd does not run on this machine, so it cannot have a timer\nhint: run `kubexm certs renew --expiring` and \
             `kubexm backup create` from its scheduler"
                .to_owned(),
        ));
    }
    match metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        true => Ok(()),
        false => Err(CommandError::Configuration(format!(
            "only root can change units in {}\nhint: run the same command with sudo, and pass --state: a run of the timer then \
             has the user that owns the state directory",
            system::UNITS
        ))),
    }
}

/// Logs in to all hosts as a run does: with its user, its limits, and without a terminal and an agent.
fn try_login(options: &TimerOptions, service: &Service) -> Result<(), CommandError> {
    let mut command = service.command.iter();
    let mut words: Vec<String> = command.next().into_iter().cloned().collect();
    words.extend(["certs", "check", "--output", "plain"].map(str::to_owned));
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
    let (code, printed) = system::run_as_service(&service.properties(), &words)?;
    match code {
        // A certificate that needs an action is not a reason against a timer.
        Some(0 | 8) => Ok(()),
        _ => {
            let lines: Vec<&str> = printed.lines().collect();
            let end = lines[lines.len().saturating_sub(8)..].join("\n");
            let kind = match options.job {
                Job::Certificates => "certs",
                Job::Backup => "backup",
            };
            Err(CommandError::Configuration(format!(
                "a run of the {kind} timer could not log in to all hosts as the user {}:\n{}\nhint: this user needs an SSH \
                 key without a passphrase, or `privateKeyPath` in the cluster file; a service has no ssh-agent",
                service.user,
                Untrusted::last(&end)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_a_service_does_not_see_are_refused() {
        for path in ["/tmp/kubexm", "/run/x", "/srv/a b", "/srv/50%", "/srv/$x"] {
            let error = check_path(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
        }
        check_path(Path::new("/srv/kubexm/state-1.0")).unwrap();
    }

    #[test]
    fn password_of_the_environment_is_refused() {
        let text = |password: &str| {
            format!(
                "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {{name: example}}\nspec:\n  \
                 hosts: [{{name: node1, address: 192.0.2.11, {password}}}]\n  \
                 roleGroups: {{control-plane: [node1]}}\n  kubernetes: {{version: 1.36.3}}\n"
            )
        };
        let check = |password: &str| {
            let cluster = kubexm_config::parse_cluster("example", &text(password)).unwrap();
            check_passwords(&cluster)
        };
        check("passwordFile: /srv/password").unwrap();
        let error = check("passwordEnv: SECRET").unwrap_err().to_string();
        assert!(error.contains("environment variable SECRET"), "{error}");
    }

    #[test]
    fn encrypted_keys_need_a_file_that_opens_them() {
        let folder = tempfile::tempdir().unwrap();
        let options = |has_key| InstallOptions {
            timer: TimerOptions {
                job: Job::Certificates,
                cluster: PathBuf::from("cluster.yaml"),
                connection: crate::Connection::default(),
            },
            work: Unattended::Certificates { days: 30, has_key },
            arguments: Vec::new(),
            schedule: Schedule {
                text: "weekly".to_owned(),
                interval: 604_800,
                next: String::new(),
            },
            dry_run: true,
        };
        std::fs::create_dir_all(folder.path().join("pki/kubernetes")).unwrap();
        options(false).check_keys(folder.path()).unwrap();
        std::fs::write(folder.path().join("pki/kubernetes/kubernetes.key.age"), "x").unwrap();
        options(true).check_keys(folder.path()).unwrap();
        let error = options(false)
            .check_keys(folder.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("--ca-passphrase-file"), "{error}");
    }
}
