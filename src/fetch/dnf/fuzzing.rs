//! Entry points of `tests/fuzz`.

use std::collections::BTreeSet;

use super::modules::Modules;
use super::package::Package;
use super::{closure, index, locked_at, primary, repomd, rpm_file, universe, unpack};
use crate::openpgp::OpenPgpKeyring;
use kubexm_bundle::lock::LockedPackage;

const BASE: &str = "https://rpm.example/el9";
const MACHINE: &str = "x86_64";
/// Packages that are resolved.
const MOST: usize = 20;

/// A file of a dnf repository.
pub enum DnfFile {
    Repomd,
    /// Compressed as its extension says.
    Primary(&'static str),
    Filelists,
    Modules,
    Rpm,
}

pub fn read(
    file: &DnfFile,
    bytes: &[u8],
    keyring: &OpenPgpKeyring,
) -> Result<Vec<LockedPackage>, String> {
    match file {
        DnfFile::Repomd => {
            repomd::parse(bytes)?;
        }
        DnfFile::Primary(name) => {
            let packages = primary::parse(unpack::unpack(name, bytes)?, MACHINE, 0)?;
            return resolve(&packages);
        }
        DnfFile::Filelists => {
            primary::owners(bytes, &BTreeSet::from(["/usr/bin/tool".to_owned()]))?;
        }
        DnfFile::Modules => {
            let modules = Modules::default().with(bytes)?;
            modules.visible(vec![example()?]);
        }
        DnfFile::Rpm => {
            let verified = rpm_file::verify(bytes, &example()?, keyring);
            verified.map_err(|error| format!("{error:?}"))?;
            return Err("no key signed this".to_owned());
        }
    }
    Ok(Vec::new())
}

fn resolve(packages: &[Package]) -> Result<Vec<LockedPackage>, String> {
    let locked = packages.iter().map(|package| locked_at(package, BASE));
    let locked = locked
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let names: Vec<String> = packages
        .iter()
        .take(MOST)
        .map(|one| one.name.clone())
        .collect();
    let universe = universe::Universe::new(packages);
    let chosen = closure::closure(&universe, &names, &[]);
    let chosen = chosen.map_err(|problems| problems.join("\n"))?;
    let chosen: Vec<Package> = chosen.into_iter().cloned().collect();
    let text = index::write(&chosen);
    let again = primary::parse(text.as_bytes(), MACHINE, 0)?.len();
    if again == chosen.len() {
        Ok(locked)
    } else {
        Err(format!("{again} packages in the index of {}", chosen.len()))
    }
}

fn example() -> Result<Package, String> {
    const TEXT: &str = r#"<metadata><package type="rpm"><name>tool</name><arch>noarch</arch>
        <version epoch="0" ver="1.2" rel="3"/><checksum type="sha256" pkgid="YES">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</checksum>
        <size package="1" installed="1" archive="1"/><location href="tool.rpm"/></package></metadata>"#;
    let mut packages = primary::parse(TEXT.as_bytes(), MACHINE, 0)?;
    packages.pop().ok_or_else(|| "no package".to_owned())
}
