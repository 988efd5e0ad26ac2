//! What a program of Kubernetes said to the question whether it works.

use kubexm_types::Untrusted;

/// The most columns of a cause.
const COLUMNS: usize = 300;

/// How a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Ok,
    /// Its own checks with these names fail.
    NotReady(String),
    /// It does not accept the credentials of kubexm on this host. It works, and kubexm does not know how well.
    Refused,
    /// Its certificate is not accepted: the cause.
    Untrusted(String),
    /// It did not answer: the cause.
    Silent(String),
}

impl Reply {
    /// Reads what kubectl printed when it failed, with the failing checks of an API server as
    /// `[-]NAME failed: reason withheld`.
    pub(super) fn of_failure(said: &str) -> Self {
        let lines = said.lines().filter_map(|line| line.split_once("[-]"));
        let failing = lines.filter_map(|(_, check)| check.split_once(' '));
        let failing: Vec<&str> = failing
            .filter(|(_, rest)| rest.starts_with("failed"))
            .map(|(name, _)| name)
            .collect();
        if !failing.is_empty() {
            return Self::NotReady(shown(&failing.join(" ")));
        }
        if said.contains("You must be logged in to the server") {
            return Self::Refused;
        }
        let cause = cause(said);
        if is_about_certificate(&cause) {
            Self::Untrusted(cause)
        } else {
            Self::Silent(cause)
        }
    }

    /// Returns what the program does; `None` if it works.
    pub(super) fn complaint(&self) -> Option<String> {
        match self {
            Self::Ok => None,
            Self::NotReady(checks) => {
                Some(format!("is not ready, because these checks fail: {checks}"))
            }
            Self::Refused => Some(
                "refuses the credentials of this host, which have expired or belong to another cluster"
                    .to_owned(),
            ),
            Self::Untrusted(cause) | Self::Silent(cause) => Some(cause.clone()),
        }
    }
}

/// Returns whether a program that verifies a server complains about its certificate.
pub fn is_about_certificate(said: &str) -> bool {
    said.contains("x509") || said.contains("certificate")
}

/// Returns the last line of what a program printed. etcdctl also prints an empty document.
pub(super) fn cause(said: &str) -> String {
    let mut lines = said.lines().rev().map(str::trim);
    let last = lines.find(|line| !line.is_empty() && *line != "null");
    last.map_or_else(|| "no reason was given".to_owned(), shown)
}

fn shown(text: &str) -> String {
    Untrusted::one_line(text, COLUMNS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_a_cause() {
        let failing = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
        for (said, complaint) in [
            (
                "a\nThe connection was refused\n\n",
                "The connection was refused",
            ),
            (
                "{\"level\":\"warn\"}\ncontext deadline exceeded\nnull\n",
                "context deadline exceeded",
            ),
            ("", "no reason was given"),
            (
                failing,
                "is not ready, because these checks fail: etcd shutdown",
            ),
            (
                "Error from server (InternalError): an error on the server (\"[+]ping ok\\n[-]etcd failed: reason withheld\")",
                "is not ready, because these checks fail: etcd",
            ),
            (
                "error: You must be logged in to the server (Unauthorized)\n",
                "refuses the credentials of this host, which have expired or belong to another cluster",
            ),
        ] {
            let found = Reply::of_failure(said).complaint();
            assert_eq!(found.as_deref(), Some(complaint), "{said}");
        }
    }
}
