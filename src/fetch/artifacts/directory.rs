//! Packs the directory of a chart.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::chart::LARGEST_CHART;

/// The directory in the archive. Helm reads the name of the chart from its `Chart.yaml`.
const ROOT: &str = "chart";

type Archive = tar::Builder<GzEncoder<Vec<u8>>>;

/// Returns whether a directory has a chart.
pub fn has_chart(folder: &Path) -> bool {
    folder.join("Chart.yaml").is_file()
}

/// Packs a chart as `helm package` does, without times and owners, so that the same files give the same archive.
///
/// # Errors
/// A file cannot be read, or the chart is larger than Helm permits.
pub fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(gzip);
    let mut left = LARGEST_CHART;
    add(&mut archive, folder, ROOT, &mut left)?;
    archive.into_inner()?.finish()
}

fn add(archive: &mut Archive, folder: &Path, name: &str, left: &mut u64) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let file_name = entry.file_name();
        let path = format!("{name}/{}", file_name.to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if file_name != ".git" {
                add(archive, &entry.path(), &path, left)?;
            }
        } else if kind.is_file() {
            let mut content = Vec::new();
            let file = File::open(entry.path())?;
            let size = file.take(*left + 1).read_to_end(&mut content)? as u64;
            *left = left
                .checked_sub(size)
                .ok_or_else(|| io::Error::other("it is larger than Helm's limit"))?;
            let mut header = tar::Header::new_gnu();
            header.set_size(size);
            header.set_mode(0o644);
            archive.append_data(&mut header, &path, content.as_slice())?;
        }
    }
    Ok(())
}
