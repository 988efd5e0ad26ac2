//! Verifies SSH host keys against files in the format of OpenSSH's `known_hosts` (sshd(8)).

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

use super::server::DEFAULT_PORT;
use kubexm_types::Message;

/// The files with known keys, and the policy for unknown ones.
#[derive(Debug, Clone)]
pub struct HostKeys {
    /// Files in the format of OpenSSH's `known_hosts`.
    pub files: Vec<PathBuf>,
    /// The file that records the key of a host without a known key; `None` refuses such a host.
    pub accept_new: Option<PathBuf>,
    /// The keys that were recorded now; clones share it.
    pub accepted: Accepted,
}

/// Keys that kubexm accepted without a record, as lines for the user.
#[derive(Debug, Clone, Default)]
pub struct Accepted(Arc<Mutex<Vec<String>>>);

impl Accepted {
    fn add(&self, line: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// Removes and returns the lines.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The result of the check of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The key is recorded, or was recorded now.
    Known,
    /// kubexm must not use the connection.
    Refused(Message),
}

/// A line about a host.
pub(super) struct Recorded {
    /// `FILE:LINE`.
    pub place: String,
    /// `None` if the key on the line cannot be parsed.
    pub key: Option<PublicKey>,
    pub mark: Mark,
}

/// What the key on a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The key of the host.
    Key,
    /// The key that signs certificates of hosts (`@cert-authority`).
    Authority,
    /// A key that must not be accepted (`@revoked`).
    Revoked,
}

impl Recorded {
    /// Returns whether the line marks this key so.
    pub fn is(&self, mark: Mark, key: &KeyData) -> bool {
        let known = self.key.as_ref();
        self.mark == mark && known.is_some_and(|known| known.key_data() == key)
    }
}

/// Serializes appends, because several new hosts share a file.
static APPENDING: Mutex<()> = Mutex::new(());

impl HostKeys {
    /// Compares a presented key with the files.
    ///
    /// A host with any recorded key is not new: another key is refused, whatever its type and the
    /// policy for new hosts. An attacker between kubexm and the host could choose the type.
    pub fn judge(&self, address: &str, port: u16, key: &PublicKey) -> Verdict {
        let recorded = match self.recorded(address, port) {
            Ok(recorded) => recorded,
            Err(reason) => return Verdict::Refused(Message::quoting(reason)),
        };
        let shown = fingerprint(key);
        let same = |mark| recorded.iter().find(|known| known.is(mark, key.key_data()));
        if let Some(revoked) = same(Mark::Revoked) {
            return Verdict::Refused(Message::quoting(format!(
                "its SSH host key {shown} is marked as revoked in {}",
                revoked.place
            )));
        }
        if same(Mark::Key).is_some() {
            return Verdict::Known;
        }
        if let Some(known) = recorded.iter().find(|known| known.mark == Mark::Key) {
            let expected = known
                .key
                .as_ref()
                .map_or_else(|| "a key that cannot be read".to_owned(), fingerprint);
            let reason = Message::quoting(format!(
                "its SSH host key has CHANGED: {} has {expected}, and the host presents {shown}",
                known.place
            ));
            return Verdict::Refused(reason.hint(
                "if the host was reinstalled, remove that line; otherwise an attacker may intercept the \
                 connection",
            ));
        }
        match &self.accept_new {
            None => {
                let reason = Message::quoting(format!("its SSH host key {shown} is unknown"));
                Verdict::Refused(reason.hint(
                    "compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to \
                     known_hosts, or pass --accept-new-host-keys",
                ))
            }
            Some(file) => match append(file, &host_and_port(address, port), key) {
                Ok(()) => {
                    self.report(address, port, key);
                    Verdict::Known
                }
                Err(error) => Verdict::Refused(Message::quoting(format!(
                    "its SSH host key cannot be recorded in {}: {error}",
                    file.display()
                ))),
            },
        }
    }

    /// Returns the types of the recorded keys. kubexm must request these, because a host with several
    /// keys could otherwise present one that is not recorded.
    pub fn algorithms(&self, address: &str, port: u16) -> Vec<Algorithm> {
        let keys = self.keys(address, port).into_iter();
        keys.map(|key| key.algorithm()).collect()
    }

    /// Returns the host keys with which `ssh` connects to a server. It takes a key whose type is not recorded for a new host, and
    /// [`judge`](Self::judge) does not: with any recorded key, `ssh` must accept no other one. Creates the folder for a new key.
    ///
    /// # Errors
    /// The files cannot be read, or the folder cannot be created.
    pub(super) fn for_openssh(&self, address: &str, port: u16) -> Result<Self, String> {
        let recorded = self.recorded(address, port)?;
        if recorded.iter().any(|known| known.mark == Mark::Key) {
            let files = self.accept_new.iter().chain(&self.files);
            return Ok(Self {
                files: files.cloned().collect(),
                accept_new: None,
                ..self.clone()
            });
        }
        if let Some(file) = &self.accept_new {
            create_folder(file).map_err(|error| {
                format!("cannot create the folder of {}: {error}", file.display())
            })?;
        }
        Ok(self.clone())
    }

    /// Reports the keys of a server that `ssh` has recorded.
    pub(super) fn report_new(&self, address: &str, port: u16) {
        for key in self.keys(address, port) {
            self.report(address, port, &key);
        }
    }

    fn keys(&self, address: &str, port: u16) -> Vec<PublicKey> {
        let recorded = self.recorded(address, port).unwrap_or_default();
        let keys = recorded.into_iter().filter(|known| known.mark == Mark::Key);
        keys.filter_map(|known| known.key).collect()
    }

    fn report(&self, address: &str, port: u16, key: &PublicKey) {
        let (host, shown) = (host_and_port(address, port), fingerprint(key));
        let place = self.accept_new.iter().map(|file| file.display());
        let place: String = place
            .map(|file| format!(", now recorded in {file}"))
            .collect();
        self.accepted
            .add(format!("{host} has the SSH host key {shown}{place}"));
    }

    pub(super) fn recorded(&self, address: &str, port: u16) -> Result<Vec<Recorded>, String> {
        let name = host_and_port(address, port);
        let mut recorded = Vec::new();
        for file in self.files.iter().chain(&self.accept_new) {
            let text = match std::fs::read(file) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(format!(
                        "cannot read the known host keys in {}: {error}",
                        file.display()
                    ));
                }
            };
            for (number, line) in text.lines().enumerate() {
                recorded.extend(read_line(line, &name).map(|(key, mark)| Recorded {
                    place: format!("{}:{}", file.display(), number + 1),
                    key,
                    mark,
                }));
            }
        }
        Ok(recorded)
    }
}

fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// Returns a host as OpenSSH writes it: `[address]:port`, or the address alone for port 22.
fn host_and_port(address: &str, port: u16) -> String {
    let address = address.to_lowercase();
    match port {
        DEFAULT_PORT => address,
        _ => format!("[{address}]:{port}"),
    }
}

/// Parses a line about `name`: its key, and what the key is.
fn read_line(line: &str, name: &str) -> Option<(Option<PublicKey>, Mark)> {
    let mut words = line.split_whitespace().peekable();
    let mark = match *words.peek()? {
        word if word.starts_with('#') => return None,
        "@revoked" => Mark::Revoked,
        "@cert-authority" => Mark::Authority,
        word if word.starts_with('@') => return None,
        _ => Mark::Key,
    };
    if mark != Mark::Key {
        words.next();
    }
    if !matches(words.next()?, name) {
        return None;
    }
    let key = words
        .next()
        .zip(words.next())
        .and_then(|(kind, key)| PublicKey::from_openssh(&format!("{kind} {key}")).ok());
    Some((key, mark))
}

/// Returns whether a line's first field, plain or hashed, matches a host.
fn matches(field: &str, name: &str) -> bool {
    if let Some(hashed) = field.strip_prefix("|1|") {
        return hashed.split_once('|').is_some_and(|(salt, hash)| {
            let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else {
                return false;
            };
            Hmac::<Sha1>::new_from_slice(&salt)
                .is_ok_and(|mac| mac.chain_update(name).verify_slice(&hash).is_ok())
        });
    }
    let patterns = || field.split(',').map(str::to_lowercase);
    let denied = patterns().any(|p| p.strip_prefix('!').is_some_and(|p| glob(p, name)));
    !denied && patterns().any(|p| glob(&p, name))
}

/// Matches OpenSSH's patterns: `*` is any text, `?` is any character.
fn glob(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match characters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            let ends = text.char_indices().map(|(at, _)| at);
            ends.chain([text.len()]).any(|at| glob(rest, &text[at..]))
        }
        Some(expected) => {
            let mut given = text.chars();
            given
                .next()
                .is_some_and(|c| expected == '?' || expected == c)
                && glob(characters.as_str(), given.as_str())
        }
    }
}

/// Appends a line to a file that only the user can read.
fn append(file: &Path, name: &str, key: &PublicKey) -> io::Result<()> {
    let _guard = APPENDING.lock().unwrap_or_else(PoisonError::into_inner);
    create_folder(file)?;
    let mut open = std::fs::OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file)?;
    let mut last = [b'\n'];
    if open.metadata()?.len() > 0 {
        open.seek(SeekFrom::End(-1))?;
        open.read_exact(&mut last)?;
    }
    let start = if last == *b"\n" { "" } else { "\n" };
    let key = key.to_openssh().map_err(io::Error::other)?;
    let mut fields = key.split_whitespace();
    let (kind, key) = (
        fields.next().unwrap_or_default(),
        fields.next().unwrap_or_default(),
    );
    // One write, so that another process cannot write into the line.
    open.write_all(format!("{start}{name} {kind} {key}\n").as_bytes())?;
    open.sync_data()
}

fn create_folder(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAn6T6tfTs28Tg4CFbgF9HsGv1xSzAvGK4LymqTkueqz";
    const TWO: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIApb0V8iiLB4vDso52S0UOzIqbbSfS/ooG4i4Zlrvsfd";
    const OTHER_TYPE: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFAUf0OFGtWrBjTiWv4TGhlMW9jCMoCpoKEH79zrgbqqgQO/T9+3H/gjUKNmkpK3/TTb7As8Q9edQWPKL8t2x+g=";

    fn key(text: &str) -> PublicKey {
        PublicKey::from_openssh(text).unwrap()
    }

    /// Hides temporary folders in the snapshots of the scope.
    fn filters() -> impl Drop {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"(/[\w.-]+)*/\.tmp\w{6}\b", "[folder]");
        settings.bind_to_scope()
    }

    fn judged(recorded: &str, accept: bool, port: u16, shown: &str) -> (Verdict, String) {
        let folder = tempfile::tempdir().unwrap();
        let (file, own) = (folder.path().join("known"), folder.path().join("new/own"));
        std::fs::write(&file, recorded).unwrap();
        let keys = HostKeys {
            files: vec![file, folder.path().join("absent")],
            accept_new: accept.then(|| own.clone()),
            accepted: Accepted::default(),
        };
        let verdict = keys.judge("10.0.0.1", port, &key(shown));
        (verdict, std::fs::read_to_string(own).unwrap_or_default())
    }

    fn refused(recorded: &str, accept: bool, shown: &str) -> String {
        match judged(recorded, accept, 22, shown) {
            (Verdict::Refused(reason), learned) => {
                assert_eq!(learned, "");
                format!("{}\n", reason.as_item())
            }
            (Verdict::Known, _) => panic!("{shown} was accepted with {recorded}"),
        }
    }

    #[test]
    fn recorded_key_is_accepted() {
        for line in [
            format!("10.0.0.1 {ONE}"),
            format!("# comment\n\nname,10.0.0.1\t{ONE} comment"),
            format!("10.0.*,!10.0.0.2 {ONE}"),
            format!("10.0.0.1 {OTHER_TYPE}\n10.0.0.1 {ONE}"),
        ] {
            assert_eq!(judged(&line, false, 22, ONE).0, Verdict::Known, "{line}");
        }
        let line = format!("[10.0.0.1]:2222 {ONE}");
        assert_eq!(judged(&line, false, 2222, ONE).0, Verdict::Known);
    }

    #[test]
    fn hashed_name_matches() {
        let _filters = filters();
        // `ssh-keygen -H` writes 10.0.0.1 like this.
        let salt = STANDARD.encode([7u8; 20]);
        let mac = Hmac::<Sha1>::new_from_slice(&[7u8; 20]).unwrap();
        let hash = STANDARD.encode(mac.chain_update("10.0.0.1").finalize().into_bytes());
        let line = format!("|1|{salt}|{hash} {ONE}");
        assert_eq!(judged(&line, false, 22, ONE).0, Verdict::Known);
        insta::assert_snapshot!(refused(&line, true, TWO), @"
        its SSH host key has CHANGED: [folder]/known:1 has ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks, and the host presents ssh-ed25519 SHA256:qif2QbFyGzGZaiTjOtND6osRYbQXg+D1DLLy0fi3+gw
          hint: if the host was reinstalled, remove that line; otherwise an attacker may intercept the connection
        ");
    }

    #[test]
    fn unknown_key_is_refused_or_recorded() {
        let _filters = filters();
        let all = [
            refused("", false, ONE),
            refused(&format!("!10.0.0.1,* {ONE}"), false, ONE),
            refused(&format!("@cert-authority * {ONE}"), false, ONE),
        ];
        insta::assert_snapshot!(all.concat(), @"
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown
          hint: compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or pass --accept-new-host-keys
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown
          hint: compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or pass --accept-new-host-keys
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown
          hint: compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or pass --accept-new-host-keys
        ");
        let (verdict, learned) = judged("", true, 2222, ONE);
        assert_eq!(
            (verdict, learned),
            (Verdict::Known, format!("[10.0.0.1]:2222 {ONE}\n"))
        );
    }

    #[test]
    fn fingerprint_of_an_accepted_key_is_shown() {
        let _filters = filters();
        let folder = tempfile::tempdir().unwrap();
        let keys = HostKeys {
            files: Vec::new(),
            accept_new: Some(folder.path().join("own")),
            accepted: Accepted::default(),
        };
        for _ in 0..2 {
            assert_eq!(
                keys.clone().judge("10.0.0.1", 22, &key(ONE)),
                Verdict::Known
            );
        }
        insta::assert_snapshot!(keys.accepted.take().join("\n"), @"10.0.0.1 has the SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks, now recorded in [folder]/own");
    }

    #[test]
    fn other_key_of_a_known_host_is_refused() {
        let _filters = filters();
        let revoked = format!("@revoked * {ONE}\n10.0.0.1 {ONE}");
        let all = [
            refused(&format!("10.0.0.1 {ONE}"), true, TWO),
            refused(&format!("10.0.0.1 {OTHER_TYPE}"), true, ONE),
            refused("10.0.0.1 ssh-strange AAAA", true, ONE),
            refused(&revoked, true, ONE),
        ];
        insta::assert_snapshot!(all.concat(), @"
        its SSH host key has CHANGED: [folder]/known:1 has ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks, and the host presents ssh-ed25519 SHA256:qif2QbFyGzGZaiTjOtND6osRYbQXg+D1DLLy0fi3+gw
          hint: if the host was reinstalled, remove that line; otherwise an attacker may intercept the connection
        its SSH host key has CHANGED: [folder]/known:1 has ecdsa-sha2-nistp256 SHA256:nuo1IMmd4W8u/M4PCOGDz5raoFWugyGtpYU/u8xfY7g, and the host presents ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks
          hint: if the host was reinstalled, remove that line; otherwise an attacker may intercept the connection
        its SSH host key has CHANGED: [folder]/known:1 has a key that cannot be read, and the host presents ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks
          hint: if the host was reinstalled, remove that line; otherwise an attacker may intercept the connection
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is marked as revoked in [folder]/known:1
        ");
    }

    #[test]
    fn unreadable_file_refuses_every_key() {
        let _filters = filters();
        let folder = tempfile::tempdir().unwrap();
        let keys = HostKeys {
            files: vec![folder.path().to_owned()],
            accept_new: Some(folder.path().join("own")),
            accepted: Accepted::default(),
        };
        let verdict = keys.judge("10.0.0.1", 22, &key(ONE));
        let Verdict::Refused(reason) = verdict else {
            panic!("the key was accepted");
        };
        insta::assert_snapshot!(reason, @"cannot read the known host keys in [folder]: Is a directory (os error 21)");
    }
}
