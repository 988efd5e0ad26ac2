//! `repomd.xml`: the metadata files of a repository.

use super::LONGEST_TEXT;
use crate::xml::{self, Piece};
use kubexm_types::Digest;

/// A metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The path below the repository's address.
    pub path: String,
    /// SHA-256 of the compressed file.
    pub digest: Digest,
}

/// The metadata files that kubexm reads.
#[derive(Debug, Clone)]
pub struct Repomd {
    /// All packages.
    pub primary: Part,
    /// All files of all packages.
    pub filelists: Option<Part>,
    /// Module streams and their packages.
    pub modules: Option<Part>,
}

/// Parses a `repomd.xml`.
///
/// # Errors
/// A required field is missing or not valid.
pub fn parse(text: &[u8]) -> Result<Repomd, String> {
    let (mut primary, mut filelists, mut modules) = (None, None, None);
    let (mut kind, mut path, mut digest, mut other) = (None, None, None, None);
    xml::walk(text, LONGEST_TEXT, |piece| {
        match piece {
            Piece::Open(tag) => match tag.name() {
                "data" => {
                    kind = tag.attribute("type");
                    (path, digest, other) = (None, None, None);
                }
                "location" => path = tag.attribute("href"),
                "checksum" => other = tag.attribute("type").filter(|kind| kind != "sha256"),
                _ => {}
            },
            Piece::Close("checksum", text) if other.is_none() => {
                digest = Some(text.parse::<Digest>().map_err(|error| error.to_string())?);
            }
            Piece::Close("data", _) => {
                let place = match kind.as_deref() {
                    Some("primary") => &mut primary,
                    Some("filelists") => &mut filelists,
                    Some("modules") => &mut modules,
                    _ => return Ok(()),
                };
                let kind = kind.as_deref().unwrap_or_default();
                if let Some(other) = &other {
                    return Err(format!(
                        "its {kind} has a checksum of type {other}; kubexm requires sha256"
                    ));
                }
                let path = path.take().filter(|path| is_inside(path));
                let path = path.ok_or_else(|| format!("its {kind} has no valid location"))?;
                let digest = digest.take();
                let digest = digest.ok_or_else(|| format!("its {kind} has no checksum"))?;
                *place = Some(Part { path, digest });
            }
            Piece::Close(..) => {}
        }
        Ok(())
    })?;
    Ok(Repomd {
        primary: primary.ok_or("it does not list 'primary'")?,
        filelists,
        modules,
    })
}

/// Whether a relative path stays below its base address.
pub fn is_inside(path: &str) -> bool {
    let good = |part: &str| !part.is_empty() && part != ".." && part != ".";
    let odd = |c: char| c.is_control() || c.is_whitespace() || "\\?#".contains(c);
    path.split('/').all(good) && !path.contains(odd) && !path.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repomd(kind: &str, href: &str) -> Result<Repomd, String> {
        let hex = Digest::of(b"").hex();
        parse(
            format!(
                r#"<repomd xmlns="x"><data type="primary"><checksum type="{kind}">{hex}</checksum>
                <open-checksum type="sha1">00</open-checksum><location href="{href}"/></data></repomd>"#
            )
            .as_bytes(),
        )
    }

    #[test]
    fn parts_have_places_and_digests() {
        let read = repomd("sha256", "repodata/a&amp;b.xml.gz").unwrap();
        assert_eq!(read.primary.path, "repodata/a&b.xml.gz");
        assert_eq!(read.primary.digest, Digest::of(b""));
        for (kind, href) in [
            ("sha1", "repodata/a.xml"),
            ("sha256", "../a.xml"),
            ("sha256", "/a.xml"),
            ("sha256", "http://other.example/a.xml"),
            ("sha256", ""),
        ] {
            assert!(repomd(kind, href).is_err(), "{kind} {href}");
        }
        assert!(parse(b"<repomd/>").is_err());
        assert!(parse(b"<repomd><data type=\"primary\">").is_err());
        assert!(parse(b"<!DOCTYPE a [<!ENTITY b \"c\">]><repomd>&b;</repomd>").is_err());
    }
}
