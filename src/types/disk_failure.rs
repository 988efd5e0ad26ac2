//! What users can do about the failure of a disk.

use std::error::Error;
use std::io;

/// Linux: EIO, ENXIO, ENODEV and ESTALE, the errors of a device or server that is gone.
const GONE: [i32; 4] = [5, 6, 19, 116];

/// Returns a line with a hint for the failure of a disk, with the line break before it. It is empty if the error does
/// not show what the user can do, or has a hint of its own.
pub fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if error.to_string().contains("hint: ") => "",
        io::ErrorKind::StorageFull => {
            "\nhint: free some space, or name another folder, and run the same command again"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "\nhint: mount the file system for writing, or name another folder"
        }
        _ if code(error).is_some_and(|code| GONE.contains(&code)) => {
            "\nhint: the disk does not answer: attach it again, or copy the file from another medium, and run the same command again"
        }
        _ => "",
    }
}

/// Returns the code of the operating system, also if another error, such as one that names the file, has it as its source.
fn code(error: &io::Error) -> Option<i32> {
    if let Some(code) = error.raw_os_error() {
        return Some(code);
    }
    let mut cause: Option<&(dyn Error + 'static)> = error.get_ref().map(|inner| inner as _);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            return code(inner);
        }
        cause = inner.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_disks_have_hints() {
        let hint_of = |code| hint(&io::Error::from_raw_os_error(code));
        assert!(hint_of(5).starts_with("\nhint: the disk does not answer"));
        assert!(hint_of(28).starts_with("\nhint: free some space"));
        assert!(hint_of(30).starts_with("\nhint: mount the file system for writing"));
        assert_eq!(hint_of(2), "");
        #[derive(Debug, thiserror::Error)]
        #[error("b.tar.zst: {0}")]
        struct Named(#[source] io::Error);
        let named = |code| io::Error::other(Named(io::Error::from_raw_os_error(code)));
        assert!(hint(&named(5)).starts_with("\nhint: the disk does not answer"));
        assert_eq!(hint(&named(2)), "");
        assert_eq!(hint(&io::Error::other("no code")), "");
        let hinted = io::Error::new(io::ErrorKind::StorageFull, "full\nhint: another one");
        assert_eq!(hint(&hinted), "");
    }
}
