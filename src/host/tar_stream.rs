//! Tar archives that a thread writes while kubexm sends them.

use std::io::{self, PipeWriter, Read};

use super::piped::piped;

pub type Builder = tar::Builder<PipeWriter>;

/// Returns a reader of the archive that `produce` writes: see [`piped`].
///
/// # Errors
/// The system cannot create a pipe.
pub fn stream(
    produce: impl FnOnce(&mut Builder) -> io::Result<()> + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    piped(|writer| {
        let mut builder = tar::Builder::new(writer);
        produce(&mut builder)?;
        builder.finish()
    })
}

/// Appends a regular file to the archive.
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
