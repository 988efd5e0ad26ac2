//! Parses package headers: an index of tags and a store of values
//! (<https://rpm-software-management.github.io/rpm/manual/format_header.html>).

use super::numbers::big;
use crate::os::{Manager, Package};
use crate::text::clean;

const NAME: usize = 1000;
const VERSION: usize = 1001;
const RELEASE: usize = 1002;
const EPOCH: usize = 1003;
const VENDOR: usize = 1011;
const LICENCE: usize = 1014;
const ARCH: usize = 1022;
const SOURCE: usize = 1044;

const INT32: usize = 4;
const STRING: usize = 6;
const TRANSLATED: usize = 9;

/// Size of an index entry in bytes.
const ENTRY: usize = 16;

/// Returns the package of a header, or `None` if the header is not valid.
pub fn package(bytes: &[u8]) -> Option<Package> {
    let (entries, length) = (big(bytes, 0, 4)?, big(bytes, 4, 4)?);
    let index = bytes.get(8..8usize.checked_add(entries.checked_mul(ENTRY)?)?)?;
    let store = bytes.get(8 + index.len()..)?.get(..length)?;
    let find = |tag: usize| {
        let entry = index
            .chunks_exact(ENTRY)
            .find(|entry| big(entry, 0, 4) == Some(tag))?;
        Some((big(entry, 4, 4)?, store.get(big(entry, 8, 4)?..)?))
    };
    let text = |tag: usize| {
        let (kind, value) = find(tag)?;
        let end = value.iter().position(|byte| *byte == 0)?;
        matches!(kind, STRING | TRANSLATED).then(|| clean(&String::from_utf8_lossy(&value[..end])))
    };
    let epoch = find(EPOCH)
        .filter(|(kind, _)| *kind == INT32)
        .and_then(|(_, value)| big(value, 0, 4));
    let version = format!("{}-{}", text(VERSION)?, text(RELEASE)?);
    Some(Package {
        manager: Manager::Rpm,
        name: text(NAME)?,
        source: text(SOURCE).and_then(|file| source(&file)),
        version,
        // rpm treats a missing epoch as 0.
        epoch: epoch.filter(|epoch| *epoch > 0).map(|epoch| epoch as u64),
        arch: text(ARCH).unwrap_or_default(),
        licence: text(LICENCE).filter(|licence| !licence.is_empty()),
        supplier: text(VENDOR).filter(|vendor| !vendor.is_empty() && vendor != "(none)"),
    })
}

/// Returns name and version of a source package's file name, such as `bash-5.1.8-6.el9.src.rpm`.
fn source(file: &str) -> Option<(String, String)> {
    let stem = file
        .strip_suffix(".src.rpm")
        .or_else(|| file.strip_suffix(".nosrc.rpm"))?;
    let (rest, release) = stem.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    Some((name.to_owned(), format!("{version}-{release}")))
}
