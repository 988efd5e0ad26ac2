//! Which host keys are taken.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

/// The files that hold known keys, and what happens with unknown ones.
#[derive(Debug, Clone)]
pub struct HostKeys {
    /// Files in the format of OpenSSH's `known_hosts`.
    pub files: Vec<PathBuf>,
    /// Where the key of a host that is seen for the first time is recorded; `None` refuses it.
    pub accept_new: Option<PathBuf>,
}

/// What is thought of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is the recorded one, or was recorded just now.
    Known,
    /// It must not be talked to; the text says why and what to do.
    Refused(String),
}

/// What a file says about a host.
struct Recorded {
    /// `FILE:LINE`.
    place: String,
    /// `None` where the line is for the host and its key cannot be read.
    key: Option<PublicKey>,
    revoked: bool,
}

/// Several hosts are seen for the first time at once, and share a file.
static LEARNING: Mutex<()> = Mutex::new(());

impl HostKeys {
    /// Holds a presented key against the files.
    ///
    /// A host of which any key is recorded is not new: another key is refused whatever its type
    /// and whatever is said about new hosts, since whoever is in between chooses the type.
    pub fn judge(&self, address: &str, port: u16, key: &PublicKey) -> Verdict {
        let recorded = match self.recorded(address, port) {
            Ok(recorded) => recorded,
            Err(reason) => return Verdict::Refused(reason),
        };
        let shown = fingerprint(key);
        let same = |known: &Recorded| {
            let known = known.key.as_ref();
            known.is_some_and(|known| known.key_data() == key.key_data())
        };
        if let Some(revoked) = recorded.iter().find(|known| known.revoked && same(known)) {
            return Verdict::Refused(format!(
                "its SSH host key {shown} is marked as revoked in {}",
                revoked.place
            ));
        }
        if recorded.iter().any(|known| !known.revoked && same(known)) {
            return Verdict::Known;
        }
        if let Some(known) = recorded.iter().find(|known| !known.revoked) {
            let wanted = known
                .key
                .as_ref()
                .map_or_else(|| "a key that cannot be read".to_owned(), fingerprint);
            return Verdict::Refused(format!(
                "its SSH host key has CHANGED: {} has {wanted}, and it shows {shown}. If the host \
                 was set up anew, remove that line; if not, somebody is in between",
                known.place
            ));
        }
        match &self.accept_new {
            None => Verdict::Refused(format!(
                "its SSH host key {shown} is unknown. Compare it at the host (ssh-keygen -lf \
                 /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or run with \
                 --accept-new-host-keys"
            )),
            Some(file) => match learn(file, &host_and_port(address, port), key) {
                Ok(()) => Verdict::Known,
                Err(error) => Verdict::Refused(format!(
                    "its SSH host key cannot be recorded in {}: {error}",
                    file.display()
                )),
            },
        }
    }

    /// Types of the recorded keys: those must be asked for, or a host that has several keys would
    /// show one that nobody knows.
    pub fn algorithms(&self, address: &str, port: u16) -> Vec<Algorithm> {
        let recorded = self.recorded(address, port).unwrap_or_default();
        let keys = recorded.iter().filter(|known| !known.revoked);
        keys.filter_map(|known| Some(known.key.as_ref()?.algorithm()))
            .collect()
    }

    fn recorded(&self, address: &str, port: u16) -> Result<Vec<Recorded>, String> {
        let name = host_and_port(address, port);
        let mut recorded = Vec::new();
        for file in self.files.iter().chain(&self.accept_new) {
            let text = match std::fs::read(file) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(format!(
                        "the known host keys in {} cannot be read: {error}",
                        file.display()
                    ));
                }
            };
            for (number, line) in text.lines().enumerate() {
                recorded.extend(read_line(line, &name).map(|(key, revoked)| Recorded {
                    place: format!("{}:{}", file.display(), number + 1),
                    key,
                    revoked,
                }));
            }
        }
        Ok(recorded)
    }
}

fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// How OpenSSH writes a host in its files.
fn host_and_port(address: &str, port: u16) -> String {
    let address = address.to_lowercase();
    match port {
        22 => address,
        _ => format!("[{address}]:{port}"),
    }
}

/// The key of a line that is about `name`, and whether the line revokes it. Authorities
/// (`@cert-authority`) vouch for certificates, not for keys.
fn read_line(line: &str, name: &str) -> Option<(Option<PublicKey>, bool)> {
    let mut words = line.split_whitespace().peekable();
    let revoked = match words.peek()? {
        word if word.starts_with('#') => return None,
        &"@revoked" => words.next().is_some(),
        word if word.starts_with('@') => return None,
        _ => false,
    };
    if !matches(words.next()?, name) {
        return None;
    }
    let key = words
        .next()
        .zip(words.next())
        .and_then(|(kind, key)| PublicKey::from_openssh(&format!("{kind} {key}")).ok());
    Some((key, revoked))
}

/// Whether a line's first field, plain or hashed, is about a host.
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

/// OpenSSH's patterns: `*` is any text, `?` any character.
fn glob(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match characters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            let ends = text.char_indices().map(|(place, _)| place);
            ends.chain([text.len()])
                .any(|place| glob(rest, &text[place..]))
        }
        Some(wanted) => {
            let mut given = text.chars();
            given.next().is_some_and(|c| wanted == '?' || wanted == c)
                && glob(characters.as_str(), given.as_str())
        }
    }
}

/// Adds a line to a file that is the user's alone.
fn learn(file: &Path, name: &str, key: &PublicKey) -> io::Result<()> {
    let _turn = LEARNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
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
    // One write: another run's line never lands inside it.
    open.write_all(format!("{start}{name} {kind} {key}\n").as_bytes())?;
    open.sync_data()
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
        };
        let verdict = keys.judge("10.0.0.1", port, &key(shown));
        (verdict, std::fs::read_to_string(own).unwrap_or_default())
    }

    fn refused(recorded: &str, accept: bool, shown: &str) -> String {
        match judged(recorded, accept, 22, shown) {
            (Verdict::Refused(reason), learned) => {
                assert_eq!(learned, "");
                reason + "\n"
            }
            (Verdict::Known, _) => panic!("{shown} was taken with {recorded}"),
        }
    }

    #[test]
    fn a_recorded_key_is_taken() {
        for line in [
            format!("10.0.0.1 {ONE}"),
            format!("# words\n\nname,10.0.0.1\t{ONE} comment"),
            format!("10.0.*,!10.0.0.2 {ONE}"),
            format!("10.0.0.1 {OTHER_TYPE}\n10.0.0.1 {ONE}"),
        ] {
            assert_eq!(judged(&line, false, 22, ONE).0, Verdict::Known, "{line}");
        }
        let line = format!("[10.0.0.1]:2222 {ONE}");
        assert_eq!(judged(&line, false, 2222, ONE).0, Verdict::Known);
    }

    #[test]
    fn a_hashed_name_is_found() {
        let _filters = filters();
        // What `ssh-keygen -H` makes of 10.0.0.1.
        let salt = STANDARD.encode([7u8; 20]);
        let mac = Hmac::<Sha1>::new_from_slice(&[7u8; 20]).unwrap();
        let hash = STANDARD.encode(mac.chain_update("10.0.0.1").finalize().into_bytes());
        let line = format!("|1|{salt}|{hash} {ONE}");
        assert_eq!(judged(&line, false, 22, ONE).0, Verdict::Known);
        insta::assert_snapshot!(refused(&line, true, TWO), @"its SSH host key has CHANGED: [folder]/known:1 has ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks, and it shows ssh-ed25519 SHA256:qif2QbFyGzGZaiTjOtND6osRYbQXg+D1DLLy0fi3+gw. If the host was set up anew, remove that line; if not, somebody is in between");
    }

    #[test]
    fn an_unknown_key_is_refused_or_learned() {
        let _filters = filters();
        let all = [
            refused("", false, ONE),
            refused(&format!("!10.0.0.1,* {ONE}"), false, ONE),
            refused(&format!("@cert-authority * {ONE}"), false, ONE),
        ];
        insta::assert_snapshot!(all.concat(), @"
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown. Compare it at the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or run with --accept-new-host-keys
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown. Compare it at the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or run with --accept-new-host-keys
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is unknown. Compare it at the host (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and add it to known_hosts, or run with --accept-new-host-keys
        ");
        let (verdict, learned) = judged("", true, 2222, ONE);
        assert_eq!(
            (verdict, learned),
            (Verdict::Known, format!("[10.0.0.1]:2222 {ONE}\n"))
        );
    }

    #[test]
    fn a_known_host_is_never_new() {
        let _filters = filters();
        let revoked = format!("@revoked * {ONE}\n10.0.0.1 {ONE}");
        let all = [
            refused(&format!("10.0.0.1 {ONE}"), true, TWO),
            refused(&format!("10.0.0.1 {OTHER_TYPE}"), true, ONE),
            refused("10.0.0.1 ssh-strange AAAA", true, ONE),
            refused(&revoked, true, ONE),
        ];
        insta::assert_snapshot!(all.concat(), @"
        its SSH host key has CHANGED: [folder]/known:1 has ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks, and it shows ssh-ed25519 SHA256:qif2QbFyGzGZaiTjOtND6osRYbQXg+D1DLLy0fi3+gw. If the host was set up anew, remove that line; if not, somebody is in between
        its SSH host key has CHANGED: [folder]/known:1 has ecdsa-sha2-nistp256 SHA256:nuo1IMmd4W8u/M4PCOGDz5raoFWugyGtpYU/u8xfY7g, and it shows ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks. If the host was set up anew, remove that line; if not, somebody is in between
        its SSH host key has CHANGED: [folder]/known:1 has a key that cannot be read, and it shows ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks. If the host was set up anew, remove that line; if not, somebody is in between
        its SSH host key ssh-ed25519 SHA256:5UOIdPZxNl8VyJAKA+i5JvK1k2YEw5HGHUdnpFq0oks is marked as revoked in [folder]/known:1
        ");
    }

    #[test]
    fn a_file_that_cannot_be_read_refuses() {
        let _filters = filters();
        let folder = tempfile::tempdir().unwrap();
        let keys = HostKeys {
            files: vec![folder.path().to_owned()],
            accept_new: Some(folder.path().join("own")),
        };
        let verdict = keys.judge("10.0.0.1", 22, &key(ONE));
        let Verdict::Refused(reason) = verdict else {
            panic!("it was taken");
        };
        insta::assert_snapshot!(reason, @"the known host keys in [folder] cannot be read: Is a directory (os error 21)");
    }
}
