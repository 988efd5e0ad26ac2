//! Input for a host that a thread produces while kubexm sends it.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::thread::JoinHandle;

/// Runs `produce` on its own thread and returns a reader of what it writes. An error of `produce` is an
/// error of the reader, so that a truncated stream never looks complete.
///
/// # Errors
/// The system cannot create a pipe.
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
                .map_err(|_| io::Error::other("the thread that produces the input panicked"))??;
        }
        Ok(count)
    }
}
