//! Installs a timer on this machine.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::checks::{
    check_machine, check_owner, check_passwords, check_path, check_state, try_login, try_read,
    try_write,
};
use super::options::absolute;
use super::record::{self, TimerState};
use super::schedule::Schedule;
use super::unit::{Service, service_name, timer_name};
use super::{Job, TimerOptions, owned, system};
use crate::backup::BackupRecipients;
use kubexm_config::Cluster;
use kubexm_pki::{CertificateStore, PkiError};
use kubexm_session::certificates::CaEncryption;
use kubexm_session::{CommandError, FileError};
use kubexm_types::event::Events;

/// What a run of a timer works with. It cannot ask for a password.
#[derive(Debug, Clone)]
pub enum Unattended {
    /// Renews certificates.
    Certificates {
        /// Certificates with less days left are renewed.
        days: u16,
        /// What opens the keys of CAs.
        ca_encryption: Option<CaEncryption>,
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
    if !options.dry_run {
        check_machine()?;
    }
    check_passwords(&cluster)?;
    options.check_keys(&state)?;
    let service = options.service(&cluster, &state)?;
    events.note(options.text(&service));
    if options.dry_run {
        events.note("dry run: nothing was touched");
        return Ok(());
    }
    for folder in &service.writable {
        owned::create(folder, service.user).map_err(|(path, error)| {
            FileError::io("create the directory of backups", &path, &error)
        })?;
    }
    // The service does not start without its directories.
    for file in options.files() {
        try_read(&service, &file)?;
    }
    try_write(&service)?;
    try_login(&options.timer, &service)?;
    let folder = Path::new(system::UNITS);
    let (job, name) = (options.timer.job, &cluster.name);
    let timer = timer_name(job, name);
    system::write_unit(&folder.join(service_name(job, name)), &service.text())?;
    system::write_unit(&folder.join(&timer), &service.timer(&options.schedule))?;
    // Of a damaged record, nothing is known.
    let former = record::load(&state, job).unwrap_or_default();
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

/// Returns the timers of a cluster that this machine has.
pub fn installed(cluster: &str) -> impl Iterator<Item = Job> {
    let folder = Path::new(system::UNITS);
    Job::ALL
        .into_iter()
        .filter(move |job| folder.join(timer_name(*job, cluster)).exists())
}

impl InstallOptions {
    fn service(&self, cluster: &Cluster, state: &Path) -> Result<Service, CommandError> {
        let program = std::env::current_exe();
        let program = program.map_err(CommandError::defect)?;
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
        let named = self.files();
        for path in named.iter().chain(&writable).chain([&program, &file]) {
            check_path(path)?;
        }
        let owner = metadata(state).map_err(|error| FileError::io("read", state, &error))?;
        for path in [&program, &file, state] {
            check_owner(path, owner.uid())?;
        }
        Ok(Service {
            job: self.timer.job,
            cluster: cluster.name.clone(),
            user: owner.uid(),
            command,
            writable,
        })
    }

    /// Returns the files that options of the command line name.
    fn files(&self) -> Vec<PathBuf> {
        let named = self.arguments.iter().map(PathBuf::from);
        named.filter(|path| path.is_absolute()).collect()
    }

    /// Fails if a run could not open the keys of CAs.
    fn check_keys(&self, state: &Path) -> Result<(), CommandError> {
        let Unattended::Certificates { ca_encryption, .. } = &self.work else {
            return Ok(());
        };
        let identity = ca_encryption.as_ref().map(CaEncryption::identity);
        let store = CertificateStore::read_only(state.join("pki"));
        let store = store.encrypted(identity.transpose()?);
        for store in [&store, &store.subdirectory("kubernetes")] {
            match store.opens_keys() {
                Err(PkiError::EncryptedKey { path, .. }) => return Err(needs_passphrase(&path)),
                opened => opened?,
            }
        }
        Ok(())
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
             and writes {places}\n  {units}/{timer}\n    '{schedule}': next at {next}, then {then}; up to {delay} seconds later at random, and at once if the machine was off at that time",
            units = system::UNITS,
            service_name = service_name(job, name),
            timer = timer_name(job, name),
            user = service.user,
            places = places.collect::<Vec<_>>().join(" and "),
            schedule = self.schedule.text,
            next = self.schedule.next,
            then = self.schedule.intervals(),
            delay = self.schedule.delay(),
        )
    }
}

fn needs_passphrase(path: &str) -> CommandError {
    let cause = "it is encrypted, and a run of the timer cannot ask for the passphrase";
    let error = FileError::new("renew certificates unattended with", Path::new(path), cause);
    let hint = "pass --ca-identity FILE or --ca-passphrase-file FILE, with a file that only the owner of the state directory reads";
    error.hint(hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(ca_encryption: Option<CaEncryption>) -> InstallOptions {
        InstallOptions {
            timer: TimerOptions {
                job: Job::Certificates,
                cluster: PathBuf::from("cluster.yaml"),
                connection: kubexm_session::Connection::default(),
            },
            work: Unattended::Certificates {
                days: 30,
                ca_encryption,
            },
            arguments: Vec::new(),
            schedule: Schedule {
                text: "weekly".to_owned(),
                interval: 604_800,
                shortest: 604_800,
                next: String::new(),
            },
            dry_run: true,
        }
    }

    #[test]
    fn files_of_options_must_be_there_after_a_start_of_the_machine() {
        let cluster = kubexm_session::example::cluster();
        let mut options = options(None);
        options.arguments = ["--ca-identity", "/tmp/key"].map(str::to_owned).to_vec();
        let error = options.service(&cluster, Path::new("/srv")).unwrap_err();
        let expected = "cannot install a timer that uses /tmp/key";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn encrypted_keys_need_a_file_that_opens_them() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        let cluster = kubexm_session::example::cluster();
        let passphrase = |text: &str| {
            let secret = kubexm_types::Secret(text.to_owned());
            Some(CaEncryption::Passphrase(secret))
        };
        options(None).check_keys(state).unwrap();
        let right = passphrase("right").unwrap().identity().unwrap();
        kubexm_session::certificates::load_or_issue(&cluster, state, Some(right)).unwrap();
        options(passphrase("right")).check_keys(state).unwrap();
        for (given, expected) in [
            (None, "--ca-passphrase-file"),
            (passphrase("wrong"), "the passphrase is wrong"),
        ] {
            let error = options(given).check_keys(state).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
