//! Input for a host that is made while it is sent.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::thread::JoinHandle;

/// Reads what `produce` writes on a thread of its own. What fails there fails the reader, so that a
/// cut-off stream is never taken for a whole one.
///
/// # Errors
/// The system has no pipe left.
pub fn piped(
    produce: impl FnOnce(PipeWriter) -> io::Result<()> + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    let (reader, writer) = io::pipe()?;
    let thread = std::thread::spawn(move || produce(writer));
    Ok(Box::new(Piped {
        reader,
        thread: Some(thread),
    }))
}

struct Piped {
    reader: PipeReader,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count == 0
            && !buffer.is_empty()
            && let Some(thread) = self.thread.take()
        {
            thread
                .join()
                .map_err(|_| io::Error::other("packing failed"))??;
        }
        Ok(count)
    }
}
