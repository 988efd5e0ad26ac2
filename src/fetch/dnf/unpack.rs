//! Decompression of metadata with limits.

use std::io::{self, BufRead, BufReader, Read};

/// Maximum size of unpacked metadata, in bytes; the largest known has a third of it.
const LARGEST: u64 = 2 * 1024 * 1024 * 1024;
/// Maximum memory for decompressing xz, in KiB.
const XZ_MEMORY_KIB: u32 = 256 * 1024;
/// Maximum window of zstd, as a power of two.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Returns a reader of a file that is compressed according to its file name extension.
///
/// # Errors
/// The extension is not known.
pub fn unpack<'a>(
    name: &str,
    packed: impl Read + Send + 'a,
) -> Result<Box<dyn BufRead + Send + 'a>, String> {
    let end = name.rsplit('.').next().unwrap_or_default();
    let content: Box<dyn Read + Send + 'a> = match end {
        "xml" | "yaml" => Box::new(packed),
        "gz" => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        "xz" => Box::new(lzma_rust2::XzReader::new_mem_limit(
            packed,
            true,
            XZ_MEMORY_KIB,
        )),
        "zst" => {
            let mut decoder = zstd::Decoder::new(packed).map_err(|error| error.to_string())?;
            decoder
                .window_log_max(ZSTD_WINDOW_LOG)
                .map_err(|error| error.to_string())?;
            Box::new(decoder)
        }
        other => {
            return Err(format!(
                "'{name}' is compressed as '{other}'; kubexm supports gz, xz and zst"
            ));
        }
    };
    let left = LARGEST;
    Ok(Box::new(BufReader::with_capacity(
        128 * 1024,
        Limited { content, left },
    )))
}

/// A reader that fails beyond its limit; `take` would report the end of the file.
struct Limited<R> {
    content: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other("it unpacks to more than 2 GiB")),
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_no_content() {
        let content = b"<metadata/>".repeat(1000);
        let gz = {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut gz, &content).unwrap();
            gz.finish().unwrap()
        };
        let zst = zstd::encode_all(content.as_slice(), 3).unwrap();
        for (name, packed) in [("a.xml.gz", gz), ("a.xml.zst", zst)] {
            let mut read = Vec::new();
            unpack(name, packed.as_slice())
                .unwrap()
                .read_to_end(&mut read)
                .unwrap();
            assert_eq!(read, content, "{name}");
            let cut = &packed[..packed.len() - 4];
            let result = unpack(name, cut).unwrap().read_to_end(&mut read);
            assert!(result.is_err(), "{name}");
        }
        assert!(unpack("a.xml.bz2", &b""[..]).is_err());
    }

    #[test]
    fn a_limit_is_no_end() {
        let mut limited = Limited {
            content: &b"123456"[..],
            left: 5,
        };
        assert!(limited.read_to_end(&mut Vec::new()).is_err());
    }
}
