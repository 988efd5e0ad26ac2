//! The size of a bundle's volumes, as people write it.

use std::str::FromStr;

/// Every volume but the last is a multiple of this number of bytes.
const UNIT: u64 = 4096;

/// The largest size of a volume in bytes, rounded down to a multiple of 4096.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeSize(u64);

impl VolumeSize {
    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Returns how many volumes a bundle of `size` bytes needs.
    pub fn count(self, size: u64) -> u64 {
        size.div_ceil(self.0).max(1)
    }
}

impl FromStr for VolumeSize {
    type Err = String;

    /// Reads `4GiB`, `650MB` or a number of bytes. The result is smaller than the given size, because the
    /// largest file on FAT32 is one byte smaller than 4 GiB.
    fn from_str(text: &str) -> Result<Self, String> {
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
            None => Err("expected a size such as 4GiB or 650MB".to_owned()),
            Some(0) => Err(format!(
                "is too small: a volume takes more than {UNIT} bytes"
            )),
            Some(bytes) => Ok(Self(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn volume_size_is_below_the_given_size() {
        let bytes = |text: &str| text.parse::<VolumeSize>().map(VolumeSize::bytes);
        assert_eq!(bytes("4GiB").unwrap(), (4 << 30) - 4096);
        assert_eq!(bytes("1 MiB").unwrap(), (1 << 20) - 4096);
        assert_eq!(bytes("10000").unwrap(), 8192);
        for wrong in ["", "GiB", "4TiB", "-1", "4096", "99999999999GiB", "1.5GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
