//! Packs the directory of a chart.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use kubexm_types::Message;

use super::chart::LARGEST_CHART;
use super::helmignore::{self, Rules};

/// The directory in the archive. Helm reads the name of the chart from its `Chart.yaml`.
const ROOT: &str = "chart";
/// Maximum number of files and directories. Links can multiply them.
const MOST: usize = 20_000;

/// Returns whether a directory has a chart.
pub fn has_chart(folder: &Path) -> bool {
    folder.join("Chart.yaml").is_file()
}

/// Packs a chart as `helm package` does, without times, owners and `.git`, so that the same files give the same archive.
///
/// # Errors
/// A file cannot be read or is outside of the directory, `.helmignore` is wrong, or the chart is larger than Helm permits.
pub fn pack(folder: &Path) -> Result<Vec<u8>, Message> {
    let unreadable = |error: io::Error| unreadable("", &error);
    let root = folder.canonicalize().map_err(unreadable)?;
    let rules = match fs::read_to_string(root.join(helmignore::NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unreadable(error).within(helmignore::NAME)),
    };
    let gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut packing = Packing {
        archive: tar::Builder::new(gzip),
        rules: Rules::parse(&rules)?,
        open: vec![root.clone()],
        root,
        bytes: LARGEST_CHART,
        entries: MOST,
    };
    packing.add(folder, "")?;
    let gzip = packing.archive.into_inner().map_err(unreadable)?;
    gzip.finish().map_err(unreadable)
}

struct Packing {
    archive: tar::Builder<GzEncoder<Vec<u8>>>,
    rules: Rules,
    /// The directory of the chart, without links.
    root: PathBuf,
    /// The directories around an entry, without links.
    open: Vec<PathBuf>,
    /// What may still be packed.
    bytes: u64,
    entries: usize,
}

impl Packing {
    /// Adds the content of a directory. `below` is its path in the chart with a slash at its end, and empty for that of the chart.
    fn add(&mut self, folder: &Path, below: &str) -> Result<(), Message> {
        let unreadable = |error: io::Error| unreadable(below.trim_end_matches('/'), &error);
        let entries = fs::read_dir(folder).map_err(unreadable)?;
        let entries = entries.collect::<io::Result<Vec<_>>>();
        let mut entries = entries.map_err(unreadable)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.entries = self.entries.checked_sub(1).ok_or_else(too_large)?;
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            self.entry(&entry.path(), &name)?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &str) -> Result<(), Message> {
        let unreadable = |error: io::Error| unreadable(name, &error);
        let is_directory = path.is_dir();
        if self.rules.leave_out(name, is_directory) {
            return Ok(());
        }
        let real = path.canonicalize().map_err(unreadable)?;
        if !real.starts_with(&self.root) {
            let text = format!(
                "{name} is a symbolic link to {}, outside of the chart",
                real.display()
            );
            let hint = format!(
                "copy the content into the chart, or add {name} to {}",
                helmignore::NAME
            );
            return Err(Message::new(text).hint(hint));
        }
        if is_directory {
            if path.ends_with(".git") {
                return Ok(());
            }
            if self.open.contains(&real) {
                let text = format!("{name} is a symbolic link to a directory that contains it");
                let hint = format!("remove the link, or add {name} to {}", helmignore::NAME);
                return Err(Message::new(text).hint(hint));
            }
            self.open.push(real);
            self.add(path, &format!("{name}/"))?;
            self.open.pop();
            return Ok(());
        }
        if !real.is_file() {
            let text = format!("{name} is neither a file nor a directory");
            let hint = format!("remove it, or add {name} to {}", helmignore::NAME);
            return Err(Message::new(text).hint(hint));
        }
        let mut content = Vec::new();
        let file = File::open(&real).map_err(unreadable)?;
        let size = file.take(self.bytes + 1).read_to_end(&mut content);
        let size = size.map_err(unreadable)? as u64;
        self.bytes = self.bytes.checked_sub(size).ok_or_else(too_large)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        let place = format!("{ROOT}/{name}");
        let added = self
            .archive
            .append_data(&mut header, place, content.as_slice());
        added.map_err(unreadable)
    }
}

fn unreadable(name: &str, error: &io::Error) -> Message {
    let message = Message::new(error.to_string());
    if name.is_empty() {
        message
    } else {
        message.within(name)
    }
}

fn too_large() -> Message {
    Message::new("the chart is larger than Helm's limit, or has more than 20000 files")
}

#[cfg(test)]
mod tests;
