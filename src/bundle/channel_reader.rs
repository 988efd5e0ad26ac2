//! A reader of the buffers that another thread sends.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender};

/// Reads the bytes of a channel's buffers, until every sender is dropped.
pub struct ChannelReader {
    steps: Receiver<Vec<u8>>,
    step: Vec<u8>,
    read: usize,
    /// Takes buffers that were read, so that the sender reuses them.
    spare: Option<Sender<Vec<u8>>>,
}

impl ChannelReader {
    /// Creates a reader that drops the buffers it has read.
    pub fn new(steps: Receiver<Vec<u8>>) -> Self {
        Self {
            steps,
            step: Vec::new(),
            read: 0,
            spare: None,
        }
    }

    /// Creates a reader that sends every buffer it has read to `spare`.
    pub fn giving_back(steps: Receiver<Vec<u8>>, spare: Sender<Vec<u8>>) -> Self {
        Self {
            spare: Some(spare),
            ..Self::new(steps)
        }
    }
}

impl BufRead for ChannelReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.step.len() {
            self.read = 0;
            let next = self.steps.recv().unwrap_or_default();
            let read = std::mem::replace(&mut self.step, next);
            if let Some(spare) = &self.spare {
                // A sender that has ended needs no buffers: the error does not matter.
                let _ = spare.send(read);
            }
        }
        Ok(&self.step[self.read..])
    }

    fn consume(&mut self, count: usize) {
        self.read = self.step.len().min(self.read + count);
    }
}

impl Read for ChannelReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
