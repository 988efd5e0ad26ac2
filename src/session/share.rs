//! How much of each host kubexm keeps, so that its memory does not grow with the number of hosts.

use kubexm_host::{HostError, Output};
use kubexm_types::HostName;

/// The largest number of bytes that kubexm keeps of all hosts together.
const MOST: usize = 256 * 1024 * 1024;

/// The part of one of several hosts.
#[derive(Clone, Copy)]
pub struct Share {
    /// The largest number of bytes.
    pub bytes: usize,
    hosts: usize,
}

impl Share {
    /// Returns the part of each of `hosts` hosts. A host never prints more than [`Output::LIMIT`].
    pub fn of(hosts: usize) -> Self {
        Self {
            bytes: Output::LIMIT.min(MOST / hosts.max(1)),
            hosts,
        }
    }

    /// Returns what to report about a host that has more. `what` names it, and `end` says what follows.
    pub fn exceeded(self, host: &HostName, command: String, what: &str, end: &str) -> HostError {
        let (most, hosts) = (self.bytes / 1024, self.hosts);
        HostError::Command {
            host: host.clone(),
            command,
            reason: format!(
                "{what} more than {most} KiB, the most that kubexm keeps of each of {hosts} hosts; {end}"
            )
            .into(),
        }
    }
}
