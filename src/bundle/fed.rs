//! Bytes that another thread brings.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::Receiver;

/// Reads what a channel brings, until nobody sends any more.
pub struct Fed {
    steps: Receiver<Vec<u8>>,
    step: Vec<u8>,
    read: usize,
}

impl Fed {
    pub fn new(steps: Receiver<Vec<u8>>) -> Self {
        Self {
            steps,
            step: Vec::new(),
            read: 0,
        }
    }
}

impl BufRead for Fed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.read == self.step.len() {
            self.read = 0;
            self.step = self.steps.recv().unwrap_or_default();
        }
        Ok(&self.step[self.read..])
    }

    fn consume(&mut self, count: usize) {
        self.read = self.step.len().min(self.read + count);
    }
}

impl Read for Fed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
