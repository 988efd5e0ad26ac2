//! The units of a timer.

use std::fmt::Write;
use std::path::PathBuf;

use super::Job;
use super::schedule::Schedule;

/// A service that a timer starts.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) job: Job,
    /// The name of the cluster.
    pub(super) cluster: String,
    /// The number of the user that runs it.
    pub(super) user: u32,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// The directories that it writes.
    pub(super) writable: Vec<PathBuf>,
}

/// Returns the name of the timer.
pub(super) fn timer_name(job: Job, cluster: &str) -> String {
    format!("kubexm-{job}-{cluster}.timer")
}

/// Returns the name of the service.
pub(super) fn service_name(job: Job, cluster: &str) -> String {
    format!("kubexm-{job}-{cluster}.service")
}

/// What the service may do
/// (<https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Sandboxing>). It connects to hosts, and writes
/// its own directories.
const LIMITS: [&str; 23] = [
    "UMask=0077",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
    "LimitCORE=0",
];

impl Service {
    /// Returns the properties of the service, apart from its command.
    pub(super) fn properties(&self) -> Vec<String> {
        let user = format!("User={}", self.user);
        let writable = self.writable.iter();
        let writable = writable.map(|path| format!("ReadWritePaths={}", path.display()));
        let limits = LIMITS.map(str::to_owned);
        [user].into_iter().chain(writable).chain(limits).collect()
    }

    /// Returns the text of the service.
    pub(super) fn text(&self) -> String {
        let command: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        let mut text = format!(
            "# Written by kubexm; `kubexm {} timer remove` removes it.\n[Unit]\nDescription={} of the Kubernetes cluster \
             {}\nWants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=oneshot\nExecStart={}\n",
            self.job,
            self.job.description(),
            self.cluster,
            command.join(" ")
        );
        for property in self.properties() {
            let _ = writeln!(text, "{property}");
        }
        text
    }

    /// Returns the text of the timer.
    pub(super) fn timer(&self, schedule: &Schedule) -> String {
        format!(
            "# Written by kubexm; `kubexm {} timer remove` removes it.\n[Unit]\nDescription={} of the Kubernetes cluster \
             {}\n\n[Timer]\nOnCalendar={}\nPersistent=yes\nRandomizedDelaySec={}\nAccuracySec=1s\n\n\
             [Install]\nWantedBy=timers.target\n",
            self.job,
            self.job.description(),
            self.cluster,
            schedule.text.replace('%', "%%"),
            schedule.delay()
        )
    }
}

/// Quotes a word of a command line of systemd.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('%', "%%").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_no_secret_and_many_limits() {
        let service = Service {
            job: Job::Backup,
            cluster: "example".to_owned(),
            user: 1000,
            command: [
                "/usr/local/bin/kubexm",
                "backup",
                "timer",
                "run",
                "-f",
                "/srv/a \"b\" 5%/$c.yaml",
            ]
            .map(str::to_owned)
            .to_vec(),
            writable: vec![PathBuf::from("/srv/state"), PathBuf::from("/srv/backups")],
        };
        insta::assert_snapshot!(service.text(), @r#"
        # Written by kubexm; `kubexm backup timer remove` removes it.
        [Unit]
        Description=Create a backup of the Kubernetes cluster example
        Wants=network-online.target
        After=network-online.target

        [Service]
        Type=oneshot
        ExecStart="/usr/local/bin/kubexm" "backup" "timer" "run" "-f" "/srv/a \"b\" 5%%/$$c.yaml"
        User=1000
        ReadWritePaths=/srv/state
        ReadWritePaths=/srv/backups
        UMask=0077
        NoNewPrivileges=yes
        CapabilityBoundingSet=
        PrivateTmp=yes
        PrivateDevices=yes
        ProtectSystem=strict
        ProtectHome=read-only
        ProtectClock=yes
        ProtectControlGroups=yes
        ProtectHostname=yes
        ProtectKernelLogs=yes
        ProtectKernelModules=yes
        ProtectKernelTunables=yes
        RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
        RestrictNamespaces=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        LockPersonality=yes
        MemoryDenyWriteExecute=yes
        SystemCallArchitectures=native
        SystemCallFilter=@system-service
        SystemCallErrorNumber=EPERM
        LimitCORE=0
        "#);
        let schedule = Schedule {
            text: "daily".to_owned(),
            interval: 86_400,
            shortest: 86_400,
            next: String::new(),
        };
        insta::assert_snapshot!(service.timer(&schedule), @"
        # Written by kubexm; `kubexm backup timer remove` removes it.
        [Unit]
        Description=Create a backup of the Kubernetes cluster example

        [Timer]
        OnCalendar=daily
        Persistent=yes
        RandomizedDelaySec=3085
        AccuracySec=1s

        [Install]
        WantedBy=timers.target
        ");
    }
}
