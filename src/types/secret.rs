//! Texts that must not be printed.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Message;

/// The largest size of a file with a secret, in bytes.
const LARGEST: u64 = 4096;

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Why a secret cannot be read. The text never contains the secret.
#[derive(Debug, thiserror::Error)]
#[error("{}", Message::from(self))]
pub enum SecretError {
    /// The file cannot be read.
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Other users can read the file.
    Readable {
        what: &'static str,
        path: PathBuf,
        mode: u32,
    },
    /// The file does not contain one line of text.
    Content {
        what: &'static str,
        path: PathBuf,
        found: &'static str,
    },
    /// The environment variable is not set, or its value is not UTF-8.
    Variable(String),
}

impl From<&SecretError> for Message {
    fn from(error: &SecretError) -> Self {
        match error {
            SecretError::File { what, path, source } => Self::new(format!(
                "cannot read the {what} in {}: {source}",
                path.display()
            )),
            SecretError::Readable { what, path, mode } => Self::new(format!(
                "cannot use the {what} in {}: other users can read the file (mode {mode:04o})",
                path.display()
            ))
            .hint(format!("run `chmod 600 {}`", path.display())),
            SecretError::Content { what, path, found } => Self::new(format!(
                "cannot use the {what} in {}: expected one line of text, {found}",
                path.display()
            )),
            SecretError::Variable(name) => Self::new(format!(
                "cannot use the secret in the environment variable {name}: it is not set, or is not UTF-8"
            )),
        }
    }
}

/// What a secret is, in errors.
const PASSWORD: &str = "password";
const PASSPHRASE: &str = "passphrase";

impl Secret {
    /// Reads a password from the only line of a file. `/dev/fd/3` is file descriptor 3 of the process.
    ///
    /// # Errors
    /// The file cannot be read, has other content, or is a regular file that other users can read.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        Self::from_private_file(path, PASSWORD)
    }

    /// Reads a passphrase as [`Secret::from_file`] reads a password.
    ///
    /// # Errors
    /// As [`Secret::from_file`].
    pub fn passphrase_from_file(path: &Path) -> Result<Self, SecretError> {
        Self::from_private_file(path, PASSPHRASE)
    }

    fn from_private_file(path: &Path, what: &'static str) -> Result<Self, SecretError> {
        let file = Self::open(path, what)?;
        let mode = file.metadata().ok().filter(|file| file.is_file());
        let mode = mode.map_or(0, |file| file.permissions().mode() & 0o777);
        if mode & 0o077 != 0 {
            let path = path.to_owned();
            return Err(SecretError::Readable { what, path, mode });
        }
        Self::from_open_file(path, file, what)
    }

    /// Reads a password as [`Secret::from_file`] from a file that other users may read.
    ///
    /// # Errors
    /// The file cannot be read or has other content.
    pub fn from_shared_file(path: &Path) -> Result<Self, SecretError> {
        Self::from_open_file(path, Self::open(path, PASSWORD)?, PASSWORD)
    }

    fn open(path: &Path, what: &'static str) -> Result<File, SecretError> {
        File::open(path).map_err(|source| SecretError::File {
            what,
            path: path.to_owned(),
            source,
        })
    }

    fn from_open_file(path: &Path, file: File, what: &'static str) -> Result<Self, SecretError> {
        let failed = |source| SecretError::File {
            what,
            path: path.to_owned(),
            source,
        };
        let content = |found| SecretError::Content {
            what,
            path: path.to_owned(),
            found,
        };
        let mut bytes = Vec::new();
        file.take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > LARGEST {
            return Err(content("found more than 4096 bytes"));
        }
        let text =
            String::from_utf8(bytes).map_err(|_| content("found bytes that are not UTF-8"))?;
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match line {
            "" => Err(content("found nothing")),
            line if line.contains(char::is_control) => {
                Err(content("found several lines or control characters"))
            }
            line => Ok(Self(line.to_owned())),
        }
    }

    /// Reads a secret from an environment variable.
    ///
    /// # Errors
    /// The variable is not set, or its value is not UTF-8.
    pub fn from_variable(name: &str) -> Result<Self, SecretError> {
        let value = std::env::var(name).map_err(|_| SecretError::Variable(name.to_owned()))?;
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], mode: u32) -> Result<Secret, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let place = folder.path().display().to_string();
        Secret::from_file(&path).map_err(|error| error.to_string().replace(&place, "F"))
    }

    #[test]
    fn one_line_of_a_private_file_is_a_secret() {
        for content in ["pass word", "pass word\n", "pass word\r\n"] {
            assert_eq!(
                read(content.as_bytes(), 0o600),
                Ok(Secret("pass word".to_owned()))
            );
        }
        let (reader, mut writer) = io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"from a pipe\n").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let secret = Secret::from_file(Path::new(&path)).unwrap();
        assert_eq!(secret.0, "from a pipe");
    }

    #[test]
    fn errors_name_what_a_file_should_have() {
        let missing = Path::new("/nonexistent/p");
        let password = Secret::from_file(missing).unwrap_err().to_string();
        assert!(password.starts_with("cannot read the password in /nonexistent/p: "));
        let phrase = Secret::passphrase_from_file(missing)
            .unwrap_err()
            .to_string();
        assert!(phrase.starts_with("cannot read the passphrase in /nonexistent/p: "));
        let phrase = Secret::passphrase_from_file(Path::new("/dev/null")).unwrap_err();
        let expected =
            "cannot use the passphrase in /dev/null: expected one line of text, found nothing";
        assert_eq!(phrase.to_string(), expected);
    }

    #[test]
    fn other_files_are_refused_without_their_content() {
        assert_eq!(
            read(b"secret", 0o640).unwrap_err(),
            "cannot use the password in F/password: other users can read the file (mode 0640)\n\
             hint: run `chmod 600 F/password`"
        );
        let start = "cannot use the password in F/password: expected one line of text, found";
        for (content, found) in [
            (&b""[..], "nothing"),
            (b"\n", "nothing"),
            (b"one\ntwo\n", "several lines or control characters"),
            (b"\xff", "bytes that are not UTF-8"),
            (&[b'x'; 5000], "more than 4096 bytes"),
        ] {
            assert_eq!(
                read(content, 0o400).unwrap_err(),
                format!("{start} {found}")
            );
        }
    }
}
