//! The directories of a kustomization: its own, and those of its bases and components.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::images;
use crate::FetchError;
use crate::error::wrong;
use kubexm_sandbox::Workspace;
use kubexm_types::{Message, ShownUrl, Untrusted};

/// The names of the file, of which a directory has one.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Fields whose entries are files and directories.
const RESOURCES: [&str; 3] = ["resources", "bases", "components"];
/// Fields whose entries are files or text, or objects with the `path` of a file.
const OTHERS: [&str; 9] = [
    "crds",
    "configurations",
    "generators",
    "patches",
    "patchesJson6902",
    "patchesStrategicMerge",
    "replacements",
    "transformers",
    "validators",
];
/// Fields of these whose entries can be directories with a kustomization.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];
/// Fields with charts, for which kustomize needs a helm and a network.
const CHARTS: [&str; 2] = ["helmCharts", "helmChartInflationGenerator"];
/// Maximum size of all files, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Maximum size of the file of a kustomization, in bytes.
const LARGEST_FILE: u64 = 1024 * 1024;
/// Maximum number of files and directories.
const MOST: usize = 10_000;
/// The directory of the copy.
const COPY: &str = "kustomization";

/// Returns whether a directory has a kustomization.
pub fn has_kustomization(folder: &Path) -> bool {
    file_in(folder).is_some()
}

fn file_in(folder: &Path) -> Option<PathBuf> {
    let mut files = NAMES.iter().map(|name| folder.join(name));
    files.find(|file| file.is_file())
}

/// The directories that rendering needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// The directory that contains all others.
    root: PathBuf,
    /// The directory of the kustomization.
    start: PathBuf,
    folders: BTreeSet<PathBuf>,
}

impl Tree {
    /// Reads a kustomization and its bases.
    ///
    /// # Errors
    /// A file cannot be read, or an entry is not on this machine.
    pub(super) fn of(folder: &Path) -> Result<Self, FetchError> {
        let real = |path: &Path| {
            let canonical = path.canonicalize();
            canonical.map_err(|error| wrong(&path.display(), error.to_string()))
        };
        let start = real(folder)?;
        let mut folders = BTreeSet::from([start.clone()]);
        let mut open = VecDeque::from([start.clone()]);
        while let Some(folder) = open.pop_front() {
            for base in bases(&folder)? {
                let base = real(&base)?;
                if folders.insert(base.clone()) {
                    open.push_back(base);
                }
            }
            if folders.len() > MOST {
                return Err(too_much(&start, format!("has more than {MOST} bases")));
            }
        }
        let mut root = start.clone();
        while !folders.iter().all(|folder| folder.starts_with(&root)) {
            root.pop();
        }
        Ok(Self {
            root,
            start,
            folders,
        })
    }

    /// Copies the directories, so that the program can read them. Links that lead out of them are left out. Returns the copy of
    /// that of the kustomization.
    ///
    /// # Errors
    /// A file cannot be copied, or the directories are too large.
    pub(super) fn copy(&self, workspace: &Workspace) -> Result<PathBuf, FetchError> {
        let mut left = Left {
            bytes: LARGEST,
            entries: MOST,
        };
        let mut done: Vec<&Path> = Vec::new();
        for folder in &self.folders {
            // A directory comes before those in it.
            if !done.iter().any(|above| folder.starts_with(above)) {
                let copied = self.copy_folder(folder, workspace, &mut left);
                copied.map_err(|error| too_much(folder, error.to_string()))?;
                done.push(folder);
            }
        }
        Ok(workspace.inputs().join(self.name(&self.start)))
    }

    fn copy_folder(&self, folder: &Path, workspace: &Workspace, left: &mut Left) -> io::Result<()> {
        let too_large = || io::Error::other("its directories have more than 64 MiB or 10000 files");
        workspace.directory(&self.name(folder))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            left.entries = left.entries.checked_sub(1).ok_or_else(too_large)?;
            let (kind, path) = (entry.file_type()?, entry.path());
            let place = self.name(&path);
            if kind.is_dir() && entry.file_name() != ".git" {
                self.copy_folder(&path, workspace, left)?;
            } else if kind.is_file() {
                let mut content = Vec::new();
                let file = File::open(path)?.take(left.bytes + 1);
                let size = io::BufReader::new(file).read_to_end(&mut content)? as u64;
                left.bytes = left.bytes.checked_sub(size).ok_or_else(too_large)?;
                workspace.put(&place, &content)?;
            } else if kind.is_symlink()
                && let Ok(real) = path.canonicalize()
                && self.folders.iter().any(|folder| real.starts_with(folder))
            {
                let inputs = workspace.inputs();
                symlink(inputs.join(self.name(&real)), inputs.join(place))?;
            }
        }
        Ok(())
    }

    /// Returns a text about the copy with the paths of this machine.
    pub(super) fn with_own_paths(&self, text: &str, workspace: &Workspace) -> String {
        let copy = workspace.inputs().join(COPY).display().to_string();
        text.replace(&copy, &self.root.display().to_string())
    }

    fn name(&self, folder: &Path) -> String {
        let below = folder.strip_prefix(&self.root).unwrap_or(folder);
        Path::new(COPY).join(below).display().to_string()
    }
}

/// What may still be copied.
struct Left {
    bytes: u64,
    entries: usize,
}

/// Returns the directories that a kustomization names.
fn bases(folder: &Path) -> Result<Vec<PathBuf>, FetchError> {
    let Some(file) = file_in(folder) else {
        let reason = Message::new("has no kustomization.yaml");
        let hint = "name the directory of a kustomization, or the files in it";
        return Err(wrong(&folder.display(), reason.hint(hint)));
    };
    let failed = |reason: String| wrong(&file.display(), reason);
    let mut text = String::new();
    let opened = File::open(&file).map_err(|error| failed(error.to_string()))?;
    let read = opened.take(LARGEST_FILE + 1).read_to_string(&mut text);
    let size = read.map_err(|error| failed(error.to_string()))? as u64;
    if let Some(twice) = images::field_twice(&text) {
        return Err(twice.refused(&file.display()));
    }
    let content = images::parse(&text).filter(|_| size <= LARGEST_FILE);
    let content = content.ok_or_else(|| failed("is not valid YAML of at most 1 MiB".to_owned()))?;
    if let Some(field) = CHARTS.iter().find(|field| !content[**field].is_null()) {
        let reason = Message::new(format!("has {field}, which a build does not render"));
        let hint = "name the chart in spec.charts, with the file of its values";
        return Err(wrong(&file.display(), reason.hint(hint)));
    }
    let mut folders = Vec::new();
    for (field, entry) in entries(&content, &RESOURCES) {
        let path = folder.join(entry);
        let is_local = !entry.contains("://") && path.exists();
        if !is_local {
            return Err(not_here(&file, field, entry));
        }
        if path.is_dir() {
            folders.push(path);
        } else {
            inside(&file, field, entry)?;
        }
    }
    for (field, entry) in entries(&content, &OTHERS).chain(files_of_generators(&content)) {
        if is_address(entry) {
            return Err(not_here(&file, field, entry));
        }
        let path = folder.join(entry);
        if PLUGINS.contains(&field) && path.is_dir() {
            folders.push(path);
        } else if path.is_file() {
            inside(&file, field, entry)?;
        }
    }
    Ok(folders)
}

/// Returns the files from which generators of ConfigMaps and Secrets read, and that of the OpenAPI schema.
fn files_of_generators(content: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    let generators = ["configMapGenerator", "secretGenerator"].into_iter();
    let files = generators.flat_map(|field| {
        let each = content[field].as_array().into_iter().flatten();
        let named = each.flat_map(|one| {
            let lists = ["files", "envs"].into_iter();
            let listed = lists.flat_map(|name| one[name].as_array().into_iter().flatten());
            listed.chain(one.get("env"))
        });
        let texts = named.filter_map(Value::as_str);
        // A file can have a key before it, as in `key=file`.
        texts.map(move |text| (field, text.split_once('=').map_or(text, |(_, file)| file)))
    });
    let schema = content["openapi"]["path"].as_str();
    files.chain(schema.map(|path| ("openapi", path)))
}

/// Returns the entries of fields that are text, and the paths of those that are objects.
fn entries<'a>(
    content: &'a Value,
    fields: &'a [&'static str],
) -> impl Iterator<Item = (&'static str, &'a str)> {
    fields.iter().flat_map(|field| {
        let list = content[*field].as_array().into_iter().flatten();
        list.filter_map(|entry| {
            let text = entry.as_str().or_else(|| entry["path"].as_str())?;
            Some((*field, text))
        })
    })
}

/// Returns whether a text is a URL. Patches and generators are also written as text of several lines.
fn is_address(text: &str) -> bool {
    text.contains("://") && !text.trim().contains([' ', '\n'])
}

/// Returns the error for an entry that is not on this machine: an address, or a path that does not exist.
fn not_here(file: &Path, field: &str, entry: &str) -> FetchError {
    let shown = Untrusted::one_line(ShownUrl::of_text(entry).as_str(), 200).to_string();
    // As in https://…, git@github.com:org/repository and github.com/org/repository?ref=v1.
    let host = entry.split('/').next().unwrap_or_default();
    let is_remote = entry.contains("://")
        || entry.contains('@')
        || entry.contains("?ref=")
        || (entry.contains('/') && host.trim_matches('.').contains('.'));
    let message = if is_remote {
        Message::new(format!(
            "{field} names '{shown}', and a build renders without a network"
        ))
        .hint("download it into a directory beside this file, and name that path here")
    } else {
        Message::new(format!("{field} names '{shown}', which does not exist"))
            .hint("correct the path, which is relative to this file")
    };
    wrong(&file.display(), message)
}

/// Checks that a file is in the directory of its kustomization or below it, without links. kustomize reads no others.
fn inside(file: &Path, field: &str, entry: &str) -> Result<(), FetchError> {
    let folder = file.parent().unwrap_or(file);
    let real = folder.join(entry).canonicalize();
    let real = real.map_err(|error| wrong(&folder.join(entry).display(), error.to_string()))?;
    if real.starts_with(folder) {
        return Ok(());
    }
    let shown = Untrusted::one_line(entry, 200);
    let text = format!(
        "{field} names '{shown}', which is {}, outside of its directory",
        real.display()
    );
    let hint = "copy the file into the directory, or name the directory of another kustomization";
    Err(wrong(&file.display(), Message::new(text).hint(hint)))
}

fn too_much(folder: &Path, reason: String) -> FetchError {
    wrong(
        &folder.display(),
        Message::new(format!("the kustomization cannot be copied: {reason}"))
            .hint("keep a kustomization and its bases in directories of their own"),
    )
}
