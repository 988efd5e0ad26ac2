//! Paths on a host of the cluster. Paths on the controller are [`std::path::Path`].

use super::{InvalidValue, strip_path_prefix, text_value};

/// An absolute, normalised path on a host: no `..`, no `.`, no empty part, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPath(String);

impl HostPath {
    /// Parses an absolute path.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| Err(InvalidValue::new("path on a host", text, reason));
        let Some(rest) = text.strip_prefix('/') else {
            return wrong("expected an absolute path, as in /etc/kubernetes");
        };
        if text.chars().any(char::is_control) {
            return wrong("has a control character");
        }
        if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return wrong("has an empty part, '.' or '..'");
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the directory of the path; `/` for a path of one part.
    pub fn parent(&self) -> &str {
        match self.0.rfind('/') {
            Some(0) | None => "/",
            Some(at) => &self.0[..at],
        }
    }

    /// Returns true if the path is this directory or below it.
    pub fn is_in(&self, directory: &str) -> bool {
        strip_path_prefix(&self.0, directory).is_some()
    }

    /// Appends a name to the path.
    ///
    /// # Errors
    /// The name is empty, `.` or `..`, or contains control characters.
    pub fn join(&self, name: &str) -> Result<Self, InvalidValue> {
        Self::parse(&format!("{}/{name}", self.0))
    }
}

text_value!(HostPath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_and_unnormalised_paths_are_refused() {
        assert!(HostPath::parse("/etc/kubernetes/admin.conf").is_ok());
        for wrong in ["", "/", "etc", "/a/../b", "/a//b", "/a/./b", "/a\n", "/a/"] {
            assert!(HostPath::parse(wrong).is_err(), "{wrong:?}");
        }
        let base = HostPath::parse("/opt").unwrap();
        assert!(base.join("../etc/passwd").is_err());
        assert_eq!(base.join("cni").unwrap().parent(), "/opt");
    }
}
