//! The default state directory. It is absolute: with a directory below the working directory, the same command
//! in two places would be two clusters.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{CommandError, FileError};
use kubexm_engine::cluster::ClusterRecord;
use kubexm_types::event::Events;

/// Where earlier versions created state directories, below the working directory.
const FORMER: &str = ".kubexm";

/// Returns the state directory of a cluster: `$XDG_STATE_HOME/kubexm/<cluster>`, or
/// `~/.local/state/kubexm/<cluster>` (<https://specifications.freedesktop.org/basedir-spec/latest/>). A directory
/// `.kubexm/<cluster>` of an earlier version in the working directory is used with a note.
///
/// # Errors
/// Both directories exist, or the environment names no home directory.
pub fn default(cluster: &str, events: &Events) -> Result<PathBuf, CommandError> {
    let state_home = base(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"));
    let former = Path::new(FORMER).join(cluster);
    let former = std::path::absolute(&former).unwrap_or(former);
    let now = state_home.map(|base| base.join("kubexm").join(cluster));
    choose(now, former, events)
}

/// Returns the directory for the state of programs. Relative values of `XDG_STATE_HOME` are invalid.
fn base(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let in_home = || Some(home.and_then(absolute)?.join(".local/state"));
    state_home.and_then(absolute).or_else(in_home)
}

fn choose(now: Option<PathBuf>, former: PathBuf, events: &Events) -> Result<PathBuf, CommandError> {
    match (now, has_state(&former)) {
        (Some(now), false) => Ok(now),
        (Some(now), true) if has_state(&now) => {
            let cause = format!(
                "{} is a state directory of this cluster, too",
                now.display()
            );
            Err(FileError::new("use the state directory", &former, cause)
                .hint("pass the directory of the cluster with --state, and move the other one away")
                .into())
        }
        (now, true) => {
            let destination = now.map_or_else(String::new, |now| {
                format!("; `mv` it to {} to use it from everywhere", now.display())
            });
            events.note(format!(
                "uses the state directory {} of an earlier version{destination}",
                former.display()
            ));
            Ok(former)
        }
        (None, false) => Err(CommandError::configuration(
            "cannot choose the state directory: neither XDG_STATE_HOME nor HOME is an absolute \
             path",
        )
        .hint("pass the directory with --state")),
    }
}

/// Returns whether an install has used the directory.
pub(crate) fn has_state(folder: &Path) -> bool {
    let files = ["journal.jsonl", "pki", ClusterRecord::FILE];
    files.iter().any(|name| folder.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_absolute() {
        let base = |state_home: Option<&str>, home: Option<&str>| {
            base(state_home.map(Into::into), home.map(Into::into))
        };
        assert_eq!(base(Some("/x"), Some("/home/a")), Some("/x".into()));
        let in_home = Some("/home/a/.local/state".into());
        assert_eq!(base(None, Some("/home/a")), in_home);
        assert_eq!(base(Some("x"), Some("/home/a")), in_home);
        assert_eq!(base(Some(""), Some("")), None);
        let error = choose(None, "/nothing".into(), &Events::silent()).unwrap_err();
        assert!(error.to_string().contains("--state"), "{error}");
    }

    #[test]
    fn directory_of_an_earlier_version_is_used_until_there_are_two() {
        let folder = tempfile::tempdir().unwrap();
        let (now, former) = (folder.path().join("now"), folder.path().join("former"));
        let choose = || choose(Some(now.clone()), former.clone(), &Events::silent());
        std::fs::create_dir(&former).unwrap();
        assert_eq!(choose().unwrap(), now);
        std::fs::write(former.join("journal.jsonl"), "").unwrap();
        assert_eq!(choose().unwrap(), former);
        std::fs::create_dir_all(now.join("pki")).unwrap();
        let error = choose().unwrap_err().to_string();
        let place = folder.path().display().to_string();
        insta::assert_snapshot!(error.replace(&place, "[folder]"), @"
        cannot use the state directory [folder]/former: [folder]/now is a state directory of this cluster, too
        hint: pass the directory of the cluster with --state, and move the other one away
        ");
    }
}
