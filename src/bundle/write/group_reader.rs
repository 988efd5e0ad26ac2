//! Produces the tar entries of a group from its blobs: headers, chunks and padding.

use std::io::{self, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::codec::elf;
use crate::codec::elf::ElfFilterReader;
use crate::format::chunks::{Chunk, GroupLayout, StoredBlob};
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::{Blobs, BundleError};
use kubexm_types::event::Transfer;
use kubexm_types::{Digest, DigestReader, Message};

/// Reads the tar entries of a group. After the last chunk of a blob it compares the digest. If the digest
/// differs, the [`io::Error`] contains a [`BundleError`].
pub struct GroupSource<'a> {
    layout: &'a GroupLayout,
    sources: Vec<Option<ElfFilterReader<Source>>>,
    blobs: &'a dyn Blobs,
    /// Returns the label of a blob for messages.
    label: &'a dyn Fn(&Digest) -> String,
    /// Receives the number of stored bytes that were read.
    transfer: &'a Transfer,
    stop: &'a dyn Fn() -> bool,
    /// Index of the next chunk.
    at: usize,
    chunk: Option<Chunk>,
    /// Number of unread bytes of the current chunk.
    left: u64,
    /// The unread part of a header or padding.
    block: Vec<u8>,
}

type Published = DigestReader<io::Take<Box<dyn Read + Send>>>;

/// Where the stored bytes of a blob come from.
enum Source {
    /// The published bytes.
    Published(Published),
    /// Another bundle that stores the same decompressed content. Its reader verifies the digest.
    Stored(Box<dyn Read + Send>),
    /// The published gzip stream, which is decompressed.
    Decompressed(Box<DigestReader<GzDecoder<BufReader<Published>>>>),
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Published(published) => published.read(buffer),
            Self::Stored(content) => content.read(buffer),
            Self::Decompressed(plain) => plain.read(buffer),
        }
    }
}

impl<'a> GroupSource<'a> {
    /// Opens every blob of the group.
    ///
    /// # Errors
    /// A blob cannot be opened.
    pub fn open(
        layout: &'a GroupLayout,
        blobs: &'a dyn Blobs,
        label: &'a dyn Fn(&Digest) -> String,
        transfer: &'a Transfer,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, BundleError> {
        let open = |stored: &StoredBlob| {
            if let Some(opened) = &stored.opened
                && let Some(content) = blobs.open_stored_content(&stored.blob, opened)?
            {
                return Ok(Source::Stored(content));
            }
            // One byte more, to detect a blob that is too long.
            let published =
                DigestReader::new(blobs.open_for_hashing(&stored.blob)?.take(stored.size + 1));
            Ok(match &stored.opened {
                None => Source::Published(published),
                Some(_) => {
                    let plain = GzDecoder::new(BufReader::with_capacity(1 << 17, published));
                    Source::Decompressed(Box::new(DigestReader::new(plain)))
                }
            })
        };
        let open = |stored: &StoredBlob| {
            let source = open(stored)?;
            Ok(Some(elf::encode(source, stored)))
        };
        let sources = layout.entries().iter().map(open);
        Ok(Self {
            layout,
            sources: sources.collect::<Result<_, BundleError>>()?,
            blobs,
            label,
            transfer,
            stop,
            at: 0,
            chunk: None,
            left: 0,
            block: Vec::new(),
        })
    }

    /// Returns whether the group has one blob that is compressed already.
    ///
    /// # Errors
    /// The blob cannot be read.
    pub fn starts_compressed(&self) -> io::Result<bool> {
        let [stored] = self.layout.entries() else {
            return Ok(false);
        };
        if stored.opened.is_some() || stored.filtered {
            return Ok(false);
        }
        let mut start = Vec::new();
        let blob = self.blobs.open(&stored.blob).map_err(io::Error::other)?;
        blob.take(6).read_to_end(&mut start)?;
        Ok(is_compressed(&start))
    }

    /// Continues with the next chunk. Returns `false` after the last one.
    fn advance(&mut self) -> io::Result<bool> {
        if let Some(chunk) = self.chunk.take() {
            if chunk.last {
                self.end(chunk.entry)?;
            }
            let padding = chunk.size.next_multiple_of(TAR_BLOCK) - chunk.size;
            self.block.resize(padding as usize, 0);
        }
        let Some(chunk) = self.layout.chunk(self.at) else {
            return Ok(!self.block.is_empty());
        };
        self.at += 1;
        self.left = chunk.size;
        self.block.extend(entry_header(&chunk.name, chunk.size));
        self.chunk = Some(chunk);
        Ok(true)
    }

    /// Reads bytes of the current chunk.
    fn content(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(chunk) = &self.chunk else {
            return Ok(0);
        };
        let entry = chunk.entry;
        let limit = self.left.min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..limit];
        let read = match &mut self.sources[entry] {
            Some(source) => source.read(buffer),
            None => Ok(0),
        };
        match read {
            // A blob that changed in the meantime explains an error of the decoder.
            Ok(0) | Err(_) => {
                self.end(entry)?;
                read?;
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(count) => {
                self.left -= count as u64;
                self.transfer.advance(count as u64);
                Ok(count)
            }
        }
    }

    /// Reads a blob to its end and compares its digest.
    fn end(&mut self, entry: usize) -> io::Result<()> {
        let stored = &self.layout.entries()[entry];
        let (mut published, content) =
            match self.sources[entry].take().map(ElfFilterReader::into_inner) {
                None => return Ok(()),
                Some(Source::Published(published)) => (published, None),
                Some(Source::Stored(mut content)) => {
                    return io::copy(&mut content, &mut io::sink()).map(|_| ());
                }
                Some(Source::Decompressed(mut plain)) => {
                    // Reads the trailer of the gzip stream.
                    let ended = io::copy(&mut plain, &mut io::sink());
                    let (plain, digest, size) = plain.into_parts();
                    let content = ended.is_ok().then_some((digest, size));
                    (plain.into_inner().into_inner(), content)
                }
            };
        io::copy(&mut published, &mut io::sink())?;
        let (got, read) = published.finish();
        let whole = got == stored.blob && read == stored.size;
        let expected = stored.opened.as_ref().map(|o| (o.content, o.size));
        if whole && content != expected {
            // Only a wrong result of the gzip analysis in the cache causes this.
            return Err(io::Error::other(
                Message::new(format!(
                    "{}: the decompressed content does not match the gzip analysis in the cache",
                    self.blobs.place(&stored.blob)
                ))
                .hint(
                    "\
                 run `kubexm cache gc --all` and build again",
                ),
            ));
        }
        if whole {
            return Ok(());
        }
        Err(io::Error::other(BundleError::Source {
            path: self.blobs.place(&stored.blob),
            label: (self.label)(&stored.blob),
            expected: stored.blob,
            got,
        }))
    }
}

impl Read for GroupSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        loop {
            if !self.block.is_empty() {
                let count = (&self.block[..]).read(buffer)?;
                self.block.drain(..count);
                return Ok(count);
            }
            if self.left > 0 {
                return self.content(buffer);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

/// Returns whether the first bytes are those of gzip, zstd, xz or a Debian package.
fn is_compressed(start: &[u8]) -> bool {
    [
        &[0x1f, 0x8b][..],
        &[0x28, 0xb5, 0x2f, 0xfd],
        b"\xfd7zXZ",
        b"!<arch",
    ]
    .iter()
    .any(|magic| start.starts_with(magic))
}
