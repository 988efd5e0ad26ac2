//! A file whose bytes go to the disk while more are written: at its end there is little left to wait for.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tempfile::NamedTempFile;

use crate::threads::ended;

/// Bytes that are written before the disk is asked for them.
const SHARE: usize = 32 * 1024 * 1024;

/// A temporary file that is flushed by a thread of its own.
pub struct SyncingFile {
    file: NamedTempFile,
    /// Bytes that nobody was asked to flush.
    behind: usize,
    due: SyncSender<()>,
    flushing: JoinHandle<io::Result<()>>,
}

impl SyncingFile {
    /// Writes to this file.
    ///
    /// # Errors
    /// The system has no handle left for another thread.
    pub fn new(file: NamedTempFile) -> io::Result<Self> {
        let flushed = file.as_file().try_clone()?;
        let (due, dues) = sync_channel(1);
        // What goes wrong is told to whoever asks first, and by one handle only once: so it is kept.
        let flushing = std::thread::Builder::new()
            .spawn(move || dues.iter().try_for_each(|()| flushed.sync_data()))?;
        Ok(Self {
            file,
            behind: 0,
            due,
            flushing,
        })
    }

    /// The file, as far as it is written.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Flushes the rest.
    ///
    /// # Errors
    /// Something did not get to the disk.
    pub fn finish(self) -> io::Result<NamedTempFile> {
        drop(self.due);
        ended(self.flushing.join())?;
        self.file.as_file().sync_all()?;
        Ok(self.file)
    }
}

impl Write for SyncingFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.file.as_file_mut().write(buffer)?;
        self.behind += count;
        // Where it is still at it, it comes later.
        if self.behind >= SHARE && self.due.try_send(()).is_ok() {
            self.behind = 0;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}
