//! How large volumes of a bundle may be, as people write it.

/// What volumes are a multiple of, in bytes.
const UNIT: u64 = 4096;

/// Bytes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeSize(u64);

impl VolumeSize {
    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// Reads `4GiB`, `650MB` or a number of bytes. A volume stays below that: the largest file of FAT32 has
/// one byte less than 4 GiB.
pub fn at_most(text: &str) -> Result<VolumeSize, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: Option<u64> = match unit.trim() {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1000),
        "MB" => Some(1000 * 1000),
        "GB" => Some(1000 * 1000 * 1000),
        "KiB" | "K" => Some(1 << 10),
        "MiB" | "M" => Some(1 << 20),
        "GiB" | "G" => Some(1 << 30),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    match bytes.map(|bytes| bytes.saturating_sub(1) / UNIT * UNIT) {
        None => Err("wants a size, as in 4GiB or 650MB".to_owned()),
        Some(0) => Err(format!(
            "is too small: a volume takes more than {UNIT} bytes"
        )),
        Some(bytes) => Ok(VolumeSize(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_fit_what_was_named() {
        assert_eq!(at_most("4GiB").unwrap().bytes(), (4 << 30) - 4096);
        assert_eq!(at_most("1 MiB").unwrap().bytes(), (1 << 20) - 4096);
        assert_eq!(at_most("10000").unwrap().bytes(), 8192);
        for wrong in ["", "GiB", "4TiB", "-1", "4096", "99999999999GiB", "1.5GiB"] {
            assert!(at_most(wrong).is_err(), "{wrong}");
        }
    }
}
