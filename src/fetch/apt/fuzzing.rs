//! Entry points of `tests/fuzz`.

use super::stanza::List;
use super::{locked_package, release, resolved};
use kubexm_bundle::lock::LockedPackage;

const ARCHIVE: &str = "https://deb.example/debian";
/// Packages that are resolved; each one takes a search through the list.
const MOST: usize = 50;

pub fn release(text: &str) -> Vec<Result<(), String>> {
    let entry = release::entry(text, "main/binary-amd64/Packages.gz");
    let entry = entry.map(drop).ok_or_else(|| "no list".to_owned());
    vec![
        release::check_validity(text).map_err(|problem| problem.text),
        release::check_suite(text, "trixie").map_err(|problem| problem.text),
        release::check_suite(text, "buster/updates").map_err(|problem| problem.text),
        entry,
    ]
}

pub fn packages(packed: &[u8]) -> Result<Vec<LockedPackage>, String> {
    let list = List::unpack(packed, ARCHIVE)?;
    let all: Vec<LockedPackage> = list
        .packages()
        .map(|package| locked_package(&package))
        .collect::<Result<_, _>>()?;
    let names: Vec<String> = list
        .packages()
        .take(MOST)
        .map(|package| package.name.to_owned())
        .collect();
    let chosen = resolved(&[list], &names).map_err(|problems| problems.join("\n"))?;
    // The index of a bundle is read again by the host's apt, as any other list.
    let index = List::from_text(chosen.index, ARCHIVE);
    let again = index.packages().count();
    if again == chosen.packages.len() {
        Ok(all)
    } else {
        let count = chosen.packages.len();
        Err(format!("{again} packages in the index of {count}"))
    }
}
