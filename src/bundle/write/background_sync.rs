//! Flushes a file to the disk while it is written, so that little is left to flush at its end.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tempfile::NamedTempFile;

use crate::threads::ended;

/// Number of written bytes after which the thread flushes the file.
const SHARE: usize = 32 * 1024 * 1024;

/// A temporary file that a background thread flushes.
pub struct SyncingFile {
    file: NamedTempFile,
    /// Number of bytes written since the last request to flush.
    behind: usize,
    due: SyncSender<()>,
    flushing: JoinHandle<io::Result<()>>,
}

impl SyncingFile {
    /// Starts the thread for this file.
    ///
    /// # Errors
    /// The file descriptor cannot be duplicated, or the thread cannot start.
    pub fn new(file: NamedTempFile) -> io::Result<Self> {
        let flushed = file.as_file().try_clone()?;
        let (due, dues) = sync_channel(1);
        // Linux reports a write error once per file description: the thread keeps it for `finish`.
        let flushing = std::thread::Builder::new()
            .spawn(move || dues.iter().try_for_each(|()| flushed.sync_data()))?;
        Ok(Self {
            file,
            behind: 0,
            due,
            flushing,
        })
    }

    /// Returns the file. Bytes that were written are readable.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Flushes the rest and returns the file.
    ///
    /// # Errors
    /// A write did not reach the disk.
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
        // While the thread still flushes, the request waits for a later write.
        if self.behind >= SHARE && self.due.try_send(()).is_ok() {
            self.behind = 0;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}
