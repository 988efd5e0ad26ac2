//! Reading blobs of the cache. Another process or a damaged disk may have changed a file since its download, so
//! every read compares the digest.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::{Cache, failed};
use crate::FetchError;
use kubexm_types::{Digest, DigestReader, Message};

/// A blob that is hashed while it is read. At its end, [`Read::read`] fails with
/// [`io::ErrorKind::InvalidData`] if the digest differs. A caller must not use the bytes before that.
#[derive(Debug)]
pub struct VerifiedBlob {
    content: Content,
    expected: Digest,
    path: PathBuf,
}

#[derive(Debug)]
enum Content {
    Unread(DigestReader<File>),
    Right,
    Wrong,
}

impl VerifiedBlob {
    /// Opens a blob of `cache`.
    ///
    /// # Errors
    /// The blob does not exist or cannot be read.
    pub(super) fn open(cache: &Cache, digest: &Digest) -> io::Result<Self> {
        let path = cache.path(digest);
        Ok(Self {
            content: Content::Unread(DigestReader::new(File::open(&path)?)),
            expected: *digest,
            path,
        })
    }

    /// Reads the rest of the blob and compares the digest.
    ///
    /// # Errors
    /// The blob cannot be read or is damaged.
    pub fn finish(&mut self) -> Result<(), FetchError> {
        match io::copy(self, &mut io::sink()) {
            Ok(_) => Ok(()),
            Err(source) => Err(failed(&self.path, source)),
        }
    }
}

impl Read for VerifiedBlob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Content::Unread(content) = &mut self.content {
            let count = content.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
        }
        self.content = match std::mem::replace(&mut self.content, Content::Wrong) {
            Content::Unread(content) => {
                if content.finish().0 == self.expected {
                    Content::Right
                } else {
                    Content::Wrong
                }
            }
            compared => compared,
        };
        match self.content {
            Content::Right => Ok(0),
            Content::Wrong | Content::Unread(_) => Err(damaged()),
        }
    }
}

/// Returns the error for a file whose content does not have the digest of its name.
fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        Message::new("the file was changed: it does not have the digest of its name").hint(
            "run `kubexm cache verify`, which removes such files, and run the same command again",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_that_was_changed_is_neither_read_nor_copied() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        let digest = cache.insert(b"the right program").unwrap();
        let copy = folder.path().join("program");
        cache.copy(&digest, &copy, 0o755).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), b"the right program");
        std::fs::remove_file(&copy).unwrap();
        // As long as before, so that only the digest shows the difference.
        for wrong in [&b"the WRONG program"[..], b"the right programme", b""] {
            std::fs::write(cache.path(&digest), wrong).unwrap();
            let copied = cache.copy(&digest, &copy, 0o755).unwrap_err();
            assert!(!copy.exists(), "{copied}");
            let place = folder.path().display().to_string();
            let said = copied.to_string().replace(&place, "[folder]");
            let said = said.replace(&digest.hex(), "[digest]");
            insta::allow_duplicates!(insta::assert_snapshot!(said, @"
            the cache at [folder]/cache/blobs/sha256/[digest]: the file was changed: it does not have the digest of its name
            hint: run `kubexm cache verify`, which removes such files, and run the same command again
            "));
            assert!(cache.read(&digest).is_err());
            let mut first = [0; 3];
            let mut blob = cache.verified(&digest).unwrap();
            let _ = blob.read(&mut first).unwrap_or_default();
            blob.finish().unwrap_err();
        }
    }
}
