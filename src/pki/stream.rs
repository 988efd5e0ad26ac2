//! Files that are encrypted in the format of age (<https://age-encryption.org/v1>) while they are written. Only a part of the
//! content is in memory.

use std::io::{self, BufWriter, Read, Write};

use age::armor::ArmoredReader;
use age::{DecryptError, Decryptor, Encryptor, scrypt, x25519};

use crate::encryption::{KeyIdentity, Kind, LARGEST_WORK_FACTOR, WORK_FACTOR};

/// Who can read an encrypted file.
#[derive(Clone)]
pub struct Recipients(Readers);

#[derive(Clone)]
enum Readers {
    /// The owners of the identities of these public keys.
    Keys(Vec<x25519::Recipient>),
    /// Programs with the same identity or passphrase.
    Same(KeyIdentity),
}

impl Recipients {
    /// Parses public keys as `age-keygen -y` prints them: `age1…`.
    ///
    /// # Errors
    /// Returns the text that is not one.
    pub fn parse(keys: &[String]) -> Result<Self, String> {
        let keys = keys.iter().map(|text| {
            text.trim()
                .parse()
                .map_err(|_| format!("'{text}' is not a public key of age (age1…)"))
        });
        keys.collect::<Result<_, _>>()
            .map(|keys| Self(Readers::Keys(keys)))
    }

    /// Returns a writer that encrypts.
    ///
    /// # Errors
    /// There is no recipient, or the output cannot be written.
    pub fn encrypt<W: Write>(&self, output: W) -> io::Result<EncryptedWriter<W>> {
        let passphrase;
        let public;
        let recipients: Vec<&dyn age::Recipient> = match &self.0 {
            Readers::Keys(keys) => keys.iter().map(|key| key as &dyn age::Recipient).collect(),
            Readers::Same(KeyIdentity(Kind::Key(identity))) => {
                public = identity.to_public();
                vec![&public]
            }
            Readers::Same(KeyIdentity(Kind::Passphrase(text))) => {
                let mut recipient = scrypt::Recipient::new(text.clone());
                recipient.set_work_factor(WORK_FACTOR);
                passphrase = recipient;
                vec![&passphrase]
            }
        };
        let encryptor =
            Encryptor::with_recipients(recipients.into_iter()).map_err(io::Error::other)?;
        // age words an error of its first bytes as Debug text. Buffered, they do not fail there.
        let encrypted = encryptor.wrap_output(BufWriter::new(output));
        encrypted.map(EncryptedWriter)
    }
}

impl From<KeyIdentity> for Recipients {
    fn from(identity: KeyIdentity) -> Self {
        Self(Readers::Same(identity))
    }
}

/// Encrypts what is written.
pub struct EncryptedWriter<W: Write>(age::stream::StreamWriter<BufWriter<W>>);

impl<W: Write> EncryptedWriter<W> {
    /// Writes the end. A reader fails without it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<W> {
        let output = self.0.finish()?;
        output.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for EncryptedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Why an encrypted file cannot be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The file is not one of age, or its beginning is damaged.
    #[error("it is not a file of age, or its beginning is damaged")]
    Format,
    /// The file is for a passphrase, and the user gave an identity.
    #[error("it is encrypted with a passphrase, and not for an identity")]
    NeedsPassphrase,
    /// The file is for identities, and the user gave a passphrase.
    #[error("it is encrypted for an identity, and not with a passphrase")]
    NeedsIdentity,
    /// The passphrase is another one.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// The identity is another one.
    #[error("the identity is not one for which it is encrypted")]
    WrongIdentity,
    /// Everything else.
    #[error("{0}")]
    Other(String),
}

/// The first bytes of files of age: of the format, and of its form with letters only.
const BEGINNINGS: [&[u8]; 2] = [
    b"age-encryption.org/",
    b"-----BEGIN AGE ENCRYPTED FILE-----",
];

/// Returns whether content is a file of age.
pub fn is_encrypted(content: &[u8]) -> bool {
    BEGINNINGS.iter().any(|start| content.starts_with(start))
}

impl KeyIdentity {
    /// Decrypts a small file, which may have the form with letters only (`age --armor`).
    ///
    /// # Errors
    /// The file is not one of age, or is not for this identity, or its content is not UTF-8.
    pub fn decrypt_text(&self, encrypted: &[u8]) -> Result<String, OpenError> {
        let mut text = String::new();
        self.decrypt_stream(ArmoredReader::new(encrypted))?
            .read_to_string(&mut text)
            .map_err(|error| OpenError::Other(error.to_string()))?;
        Ok(text)
    }

    /// Returns a reader that decrypts. It fails where a part was changed, and at the end of a file that was cut off.
    ///
    /// # Errors
    /// The file is not one of age, or is not for this identity.
    pub fn decrypt_stream<R: Read>(&self, input: R) -> Result<impl Read + use<R>, OpenError> {
        let decryptor = Decryptor::new(input).map_err(|error| match error {
            DecryptError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                OpenError::Other(error.to_string())
            }
            _ => OpenError::Format,
        })?;
        let passphrase;
        let identity: &dyn age::Identity = match (&self.0, decryptor.is_scrypt()) {
            (Kind::Key(identity), false) => identity,
            (Kind::Passphrase(text), true) => {
                let mut identity = scrypt::Identity::new(text.clone());
                identity.set_max_work_factor(LARGEST_WORK_FACTOR);
                passphrase = identity;
                &passphrase
            }
            (Kind::Key(_), true) => return Err(OpenError::NeedsPassphrase),
            (Kind::Passphrase(_), false) => return Err(OpenError::NeedsIdentity),
        };
        let is_key = matches!(self.0, Kind::Key(_));
        decryptor
            .decrypt(std::iter::once(identity))
            .map_err(|error| match error {
                DecryptError::NoMatchingKeys
                | DecryptError::DecryptionFailed
                | DecryptError::KeyDecryptionFailed => {
                    if is_key {
                        OpenError::WrongIdentity
                    } else {
                        OpenError::WrongPassphrase
                    }
                }
                DecryptError::InvalidHeader | DecryptError::InvalidMac => OpenError::Format,
                other => OpenError::Other(other.to_string()),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(recipients: &Recipients, text: &[u8]) -> Vec<u8> {
        let mut writer = recipients.encrypt(Vec::new()).unwrap();
        writer.write_all(text).unwrap();
        writer.finish().unwrap()
    }

    fn decrypted(identity: &KeyIdentity, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let reader = identity.decrypt_stream(bytes);
        let mut text = Vec::new();
        reader
            .map_err(|error| error.to_string())?
            .read_to_end(&mut text)
            .map_err(|error| error.to_string())?;
        Ok(text)
    }

    fn identity() -> KeyIdentity {
        KeyIdentity(Kind::Key(x25519::Identity::generate()))
    }

    #[test]
    fn stream_is_read_by_its_recipients_only() {
        let text: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let (ours, others) = (identity(), identity());
        let Kind::Key(key) = &ours.0 else {
            unreachable!()
        };
        let public = key.to_public().to_string();
        for recipients in [
            Recipients::parse(&[public]).unwrap(),
            Recipients::from(ours.clone()),
        ] {
            let bytes = encrypted(&recipients, &text);
            assert_eq!(decrypted(&ours, &bytes).unwrap(), text);
            let refused = decrypted(&others, &bytes).unwrap_err();
            assert!(refused.contains("not one for which"), "{refused}");
            let passphrase = KeyIdentity::of_passphrase("x");
            let refused = decrypted(&passphrase, &bytes).unwrap_err();
            assert!(refused.contains("for an identity"), "{refused}");
        }
        assert!(Recipients::parse(&["age1".to_owned()]).is_err());
    }

    #[test]
    fn changed_and_truncated_streams_are_refused() {
        let ours = identity();
        let bytes = encrypted(&Recipients::from(ours.clone()), &[7; 200_000]);
        for length in [0, 10, 200, 65_000, 131_000, bytes.len() - 1] {
            assert!(decrypted(&ours, &bytes[..length]).is_err(), "{length}");
        }
        for at in [30, 1000, 100_000, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decrypted(&ours, &changed).is_err(), "{at}");
        }
    }

    /// `IoError(Custom { kind: StorageFull, …` was the message of a backup.
    #[test]
    fn full_disk_is_an_error_of_the_disk() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = Recipients::from(identity()).encrypt(Full).unwrap();
        let written = writer.write_all(&[7; 200_000]);
        let error = written
            .and_then(|()| writer.finish().map(drop))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!error.to_string().contains("Custom"), "{error}");
    }

    #[test]
    fn passphrase_must_be_the_same() {
        let bytes = encrypted(&KeyIdentity::of_passphrase("open sesame").into(), b"text");
        let open = |text: &str| decrypted(&KeyIdentity::of_passphrase(text), &bytes);
        assert_eq!(open("open sesame").unwrap(), b"text");
        assert_eq!(open("other").unwrap_err(), "the passphrase is wrong");
    }
}
