//! A tar archive that is made while it is sent.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::thread::JoinHandle;

/// Where entries are added.
pub type Builder = tar::Builder<PipeWriter>;

/// Reads the archive that `produce` writes on a thread of its own. What fails there fails the
/// reader, so that a cut-off archive is never taken for a whole one.
pub fn stream(
    produce: impl FnOnce(&mut Builder) -> io::Result<()> + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    let (reader, writer) = io::pipe()?;
    let thread = std::thread::spawn(move || {
        let mut builder = tar::Builder::new(writer);
        produce(&mut builder)?;
        builder.finish()
    });
    Ok(Box::new(Stream {
        reader,
        thread: Some(thread),
    }))
}

/// Adds a regular file.
pub fn add(
    builder: &mut Builder,
    name: &str,
    size: u64,
    mode: u32,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_entry_type(tar::EntryType::Regular);
    builder.append_data(&mut header, name, content)
}

struct Stream {
    reader: PipeReader,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Read for Stream {
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
