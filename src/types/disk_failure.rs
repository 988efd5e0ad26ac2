//! What users can do about the failure of a disk.

use std::error::Error;
use std::io;

use crate::Message;

/// Linux: EIO, ENXIO, ENODEV and ESTALE, the errors of a device or server that is gone.
const GONE: [i32; 4] = [5, 6, 19, 116];

/// Returns what the user can do about the failure of a disk. It is `None` if the error does not show that, or is a
/// [`Message`] with a hint of its own.
pub fn hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        _ if is_hinted(error) => None,
        io::ErrorKind::StorageFull => {
            Some("free some space, or name another folder, and run the same command again")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("mount the file system for writing, or name another folder")
        }
        _ if code(error).is_some_and(|code| GONE.contains(&code)) => Some(
            "the disk does not answer: attach it again, or copy the file from another medium, and run the same command again",
        ),
        _ => None,
    }
}

fn is_hinted(error: &io::Error) -> bool {
    let message = error.get_ref().and_then(|inner| inner.downcast_ref());
    message.is_some_and(|message: &Message| message.hint.is_some())
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
        let hint_of = |code| hint(&io::Error::from_raw_os_error(code)).unwrap_or_default();
        assert!(hint_of(5).starts_with("the disk does not answer"));
        assert!(hint_of(28).starts_with("free some space"));
        assert!(hint_of(30).starts_with("mount the file system for writing"));
        assert_eq!(hint_of(2), "");
        #[derive(Debug, thiserror::Error)]
        #[error("b.tar.zst: {0}")]
        struct Named(#[source] io::Error);
        let named = |code| io::Error::other(Named(io::Error::from_raw_os_error(code)));
        assert!(
            hint(&named(5))
                .unwrap()
                .starts_with("the disk does not answer")
        );
        assert_eq!(hint(&named(2)), None);
        assert_eq!(hint(&io::Error::other("no code")), None);
        let hinted = |message| io::Error::new(io::ErrorKind::StorageFull, message);
        let own = Message::new("full").hint("another one");
        assert_eq!(hint(&hinted(own)), None);
        assert!(hint(&hinted("full".into())).is_some());
    }
}
