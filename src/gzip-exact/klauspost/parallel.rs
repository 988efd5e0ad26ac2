//! pgzip's blocks on several threads. Each block is compressed independently; the output keeps the
//! order of the blocks.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::thread::JoinHandle;

use super::pgzip::TAIL;
use super::{BlockSize, Era, FlateEncoder};
use crate::GoLevel;

/// The result of a thread for one block.
type Made = JoinHandle<io::Result<Vec<u8>>>;

/// Compresses the content that is written to it, several blocks at the same time.
pub(crate) struct ParallelEncoder<W> {
    out: W,
    era: Era,
    level: GoLevel,
    size: usize,
    threads: usize,
    /// The end of the block before: the dictionary of this one.
    tail: Vec<u8>,
    block: Vec<u8>,
    making: VecDeque<Made>,
}

impl<W: Write> ParallelEncoder<W> {
    pub(crate) fn new(
        out: W,
        era: Era,
        level: GoLevel,
        size: BlockSize,
        threads: NonZeroUsize,
    ) -> Self {
        Self {
            out,
            era,
            level,
            size: size.bytes() as usize,
            threads: threads.get(),
            tail: Vec::new(),
            block: Vec::new(),
            making: VecDeque::new(),
        }
    }

    /// Returns the writer that receives the output.
    pub(crate) fn out(&mut self) -> &mut W {
        &mut self.out
    }

    pub(crate) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let count = data.len().min(self.size - self.block.len());
            self.block.extend_from_slice(&data[..count]);
            data = &data[count..];
            if self.block.len() == self.size {
                self.begin(false)?;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.begin(true)?;
        while let Some(made) = self.making.pop_front() {
            self.out.write_all(&joined(made)?)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Starts to compress the block.
    fn begin(&mut self, last: bool) -> io::Result<()> {
        if self.making.len() == self.threads
            && let Some(made) = self.making.pop_front()
        {
            self.out.write_all(&joined(made)?)?;
        }
        let room = if last { 0 } else { self.size };
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(room));
        let tail = block[block.len().saturating_sub(TAIL)..].to_vec();
        let before = std::mem::replace(&mut self.tail, tail);
        let (era, level) = (self.era, self.level);
        let making = std::thread::Builder::new()
            .name("gzip".to_owned())
            .spawn(move || make(era, level, &before, &block, last))?;
        self.making.push_back(making);
        Ok(())
    }
}

fn make(era: Era, level: GoLevel, before: &[u8], block: &[u8], last: bool) -> io::Result<Vec<u8>> {
    let mut flate = FlateEncoder::new(Vec::new(), era, level);
    flate.restart(before);
    flate.write(block)?;
    flate.sync()?;
    if last {
        flate.finish()
    } else {
        Ok(std::mem::take(flate.out()))
    }
}

fn joined(made: Made) -> io::Result<Vec<u8>> {
    match made.join() {
        Ok(made) => made,
        Err(_) => Err(io::Error::other("a thread that compressed has died")),
    }
}
