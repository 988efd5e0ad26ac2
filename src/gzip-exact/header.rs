//! The header of a gzip member (RFC 1952, section 2.3).

/// Maximum length of a header in bytes; headers of image layers are far shorter.
const LONGEST: usize = 1 << 16;
const FIXED: usize = 10;

/// The start of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// A complete header of this number of bytes.
    Header(usize),
    /// The header is not complete.
    Unfinished,
    /// Not gzip, or a compression method other than deflate, or a header that is too long.
    Foreign,
}

/// Flags: CRC of the header, extra fields, file name, comment.
const HCRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// Finds the end of the header.
pub(super) fn start(bytes: &[u8]) -> Start {
    let magic = [0x1f, 0x8b, 8];
    if !bytes.iter().zip(&magic).all(|(byte, magic)| byte == magic) {
        return Start::Foreign;
    }
    match end(bytes) {
        Some(length) if length <= LONGEST => Start::Header(length),
        Some(_) => Start::Foreign,
        None if bytes.len() > LONGEST => Start::Foreign,
        None => Start::Unfinished,
    }
}

fn end(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(..FIXED)?.get(3)?;
    let mut end = FIXED;
    if flags & EXTRA != 0 {
        let length = bytes.get(end..end + 2)?;
        end += 2 + usize::from(u16::from_le_bytes([length[0], length[1]]));
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            end += bytes.get(end..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    if flags & HCRC != 0 {
        end += 2;
    }
    bytes.get(..end)?;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_header_is_found() {
        let plain = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        assert_eq!(start(&plain), Start::Header(10));
        assert_eq!(start(&plain[..9]), Start::Unfinished);
        assert_eq!(start(b""), Start::Unfinished);
        assert_eq!(start(b"BZh9"), Start::Foreign);
        let mut full = vec![
            0x1f,
            0x8b,
            8,
            HCRC | EXTRA | NAME | COMMENT,
            0,
            0,
            0,
            0,
            0,
            3,
        ];
        full.extend([3, 0, 1, 2, 3]);
        full.extend(b"layer.tar\0why\0");
        full.extend([0xaa, 0xbb]);
        let length = full.len();
        full.extend(b"deflate");
        assert_eq!(start(&full), Start::Header(length));
        assert_eq!(start(&full[..length - 1]), Start::Unfinished);
        full.truncate(15);
        full.resize(LONGEST + 100, b'x');
        assert_eq!(start(&full), Start::Foreign);
    }
}
