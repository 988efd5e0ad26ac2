//! A group as it is packed: headers, pieces and padding, made from the blobs while they are read.

use std::io::{self, BufReader, Read};

use flate2::bufread::GzDecoder;

use crate::codec::elf;
use crate::codec::elf::ElfFilterReader;
use crate::format::chunks::{Chunk, GroupLayout, StoredBlob};
use crate::format::tar_entry::{TAR_BLOCK, entry_header};
use crate::write::gzip_analysis::Watched;
use crate::{Blobs, BundleError};
use kubexm_types::event::Transfer;
use kubexm_types::{Digest, DigestReader};

/// Reads as the group's part of the tar. Each blob is held against its digest when its last piece
/// was read; an error that says so is a [`BundleError`] inside.
pub struct GroupSource<'a> {
    layout: &'a GroupLayout,
    sources: Vec<Option<ElfFilterReader<Source<'a>>>>,
    blobs: &'a dyn Blobs,
    /// What a person calls a blob.
    label: &'a dyn Fn(&Digest) -> String,
    at: usize,
    piece: Option<Chunk>,
    /// Bytes of the piece that are not read yet.
    left: u64,
    /// A header or padding on its way out.
    block: Vec<u8>,
}

type Raw<'a> = DigestReader<io::Take<Watched<'a, Box<dyn Read + Send>>>>;

enum Source<'a> {
    Kept(Raw<'a>),
    /// Content that is held opened up where it comes from, and compares itself.
    Held(Watched<'a, Box<dyn Read + Send>>),
    DecompressedGzip(Box<DigestReader<GzDecoder<BufReader<Raw<'a>>>>>),
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kept(raw) => raw.read(buffer),
            Self::Held(content) => content.read(buffer),
            Self::DecompressedGzip(plain) => plain.read(buffer),
        }
    }
}

impl<'a> GroupSource<'a> {
    /// Opens every blob of the group.
    ///
    /// # Errors
    /// One cannot be opened.
    pub fn open(
        layout: &'a GroupLayout,
        blobs: &'a dyn Blobs,
        label: &'a dyn Fn(&Digest) -> String,
        transfer: &'a Transfer,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, BundleError> {
        let open = |stored: &StoredBlob| {
            let watched = |inner| Watched {
                inner,
                transfer,
                stop,
            };
            if let Some(opened) = &stored.opened
                && let Some(held) = blobs.open_held(&stored.blob, opened)?
            {
                return Ok(Source::Held(watched(held)));
            }
            let watched = watched(blobs.open(&stored.blob)?);
            // One byte more, to see that it is longer than it should be.
            let raw = DigestReader::new(watched.take(stored.size + 1));
            Ok(match &stored.opened {
                None => Source::Kept(raw),
                Some(_) => {
                    let plain = GzDecoder::new(BufReader::with_capacity(1 << 17, raw));
                    Source::DecompressedGzip(Box::new(DigestReader::new(plain)))
                }
            })
        };
        let open = |stored: &StoredBlob| {
            let source = open(stored)?;
            Ok(Some(elf::packed(source, stored)))
        };
        let sources = layout.entries().iter().map(open);
        Ok(Self {
            layout,
            sources: sources.collect::<Result<_, BundleError>>()?,
            blobs,
            label,
            at: 0,
            piece: None,
            left: 0,
            block: Vec::new(),
        })
    }

    /// The first bytes of the group's only blob; they are not taken.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Goes on to the next piece; `false` behind the last one.
    fn advance(&mut self) -> io::Result<bool> {
        if let Some(piece) = self.piece.take() {
            if piece.last {
                self.end(piece.entry)?;
            }
            let padding = piece.size.next_multiple_of(TAR_BLOCK) - piece.size;
            self.block.resize(padding as usize, 0);
        }
        let Some(piece) = self.layout.piece(self.at) else {
            return Ok(!self.block.is_empty());
        };
        self.at += 1;
        self.left = piece.size;
        self.block.extend(entry_header(&piece.name, piece.size));
        self.piece = Some(piece);
        Ok(true)
    }

    /// Bytes of the piece.
    fn content(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = &self.piece else {
            return Ok(0);
        };
        let entry = piece.entry;
        let limit = self.left.min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..limit];
        let read = match &mut self.sources[entry] {
            Some(source) => source.read(buffer),
            None => Ok(0),
        };
        match read {
            // What it became in the meantime may be why it cannot be opened up.
            Ok(0) | Err(_) => {
                self.end(entry)?;
                read?;
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(count) => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }

    /// Reads a blob to its end and compares.
    fn end(&mut self, entry: usize) -> io::Result<()> {
        let stored = &self.layout.entries()[entry];
        let (mut raw, content) = match self.sources[entry].take().map(ElfFilterReader::into_inner) {
            None => return Ok(()),
            Some(Source::Kept(raw)) => (raw, None),
            Some(Source::Held(mut content)) => {
                return io::copy(&mut content, &mut io::sink()).map(|_| ());
            }
            Some(Source::DecompressedGzip(mut plain)) => {
                // Its trailer, and whether something follows.
                let ended = io::copy(&mut plain, &mut io::sink());
                let (plain, digest, size) = plain.into_parts();
                let content = ended.is_ok().then_some((digest, size));
                (plain.into_inner().into_inner(), content)
            }
        };
        io::copy(&mut raw, &mut io::sink())?;
        let (got, read) = raw.finish();
        let whole = got == stored.blob && read == stored.size;
        let expected = stored.opened.as_ref().map(|o| (o.content, o.size));
        if whole && content != expected {
            // Nobody but a false recipe in the cache can bring this about.
            return Err(io::Error::other(format!(
                "{}: its content is not what the cache says; run `kubexm cache gc --all` and build \
                 again",
                self.blobs.place(&stored.blob)
            )));
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

/// Whether the first bytes are those of gzip, zstd, xz or a Debian package.
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
