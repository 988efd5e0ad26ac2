//! Takes a program out of a bundle: a file, a member of an archive, or a file of an image.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kubexm_bundle::lock::{FileFormat, LockedImage, PlatformManifest};
use kubexm_bundle::{Blobs, Lock};
use kubexm_types::{Arch, Digest, Version};

/// The largest program, in bytes. The kubelet has about 60 MiB.
const LARGEST: u64 = 1 << 30;

/// Where a program is.
pub enum Source {
    /// The blob is the program.
    Binary(Digest),
    /// The blob is a gzip-compressed tar.
    Archive(Digest),
    /// The layers of an image, from the last to the first.
    Layers(Vec<Digest>),
}

/// Returns where the program of a Kubernetes version is. etcd has one version in a bundle, or that of kubeadm's image.
pub fn find(lock: &Lock, program: &str, version: &Version, arch: Arch) -> Option<Source> {
    let file = match program {
        "etcd" => lock.file(program, arch),
        _ => lock.file_version(program, version, arch),
    };
    if let Some(file) = file {
        return match file.format {
            FileFormat::Binary => Some(Source::Binary(file.digest)),
            FileFormat::TarGz => Some(Source::Archive(file.digest)),
            FileFormat::Manifest => None,
        };
    }
    let names = &lock.kubeadm(version)?.images;
    let is_of = |image: &&LockedImage| {
        let repository = image.name.repository();
        names.contains(&image.name) && repository.rsplit('/').next() == Some(program)
    };
    let image = lock.images.iter().find(is_of)?;
    let platform = image
        .platforms
        .iter()
        .find(|platform| platform.arch == Some(arch))?;
    Some(Source::Layers(layers(platform)))
}

/// Returns the layers of a platform, the last one first. The first blob is the configuration.
fn layers(platform: &PlatformManifest) -> Vec<Digest> {
    let layers = platform.blobs.iter().skip(1).rev();
    layers.map(|blob| blob.digest).collect()
}

/// Writes a program into a file that can be executed.
///
/// # Errors
/// The source does not have it, or a blob cannot be read or does not have its digest.
pub fn unpack(source: &Source, program: &str, blobs: &dyn Blobs, target: &Path) -> io::Result<()> {
    match source {
        Source::Binary(digest) => write(blobs.open(digest).map_err(io::Error::other)?, target)?,
        Source::Archive(digest) => {
            if !member(open(blobs, digest)?, program, target)? {
                return Err(missing(program));
            }
        }
        Source::Layers(layers) => {
            let mut is_found = false;
            for digest in layers {
                is_found = member(open(blobs, digest)?, program, target)?;
                if is_found {
                    break;
                }
            }
            if !is_found {
                return Err(missing(program));
            }
        }
    }
    std::fs::set_permissions(target, std::fs::Permissions::from_mode(0o755))
}

fn missing(program: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("it does not contain {program}"),
    )
}

/// Opens the tar in a blob, which may be compressed with gzip or zstd.
fn open(blobs: &dyn Blobs, digest: &Digest) -> io::Result<Box<dyn Read + Send>> {
    let mut start = [0; 4];
    let read = blobs
        .open(digest)
        .map_err(io::Error::other)?
        .read(&mut start)?;
    match &start[..read] {
        [0x1f, 0x8b, ..] => blobs.open_content(digest).map_err(io::Error::other),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let blob = blobs.open(digest).map_err(io::Error::other)?;
            Ok(Box::new(zstd::Decoder::new(BufReader::new(blob))?))
        }
        _ => blobs.open(digest).map_err(io::Error::other),
    }
}

/// Writes the regular file with this name in any directory of a tar. Reads to the end, which verifies the digest. Returns
/// whether there is such a file.
fn member(mut tar: impl Read, program: &str, target: &Path) -> io::Result<bool> {
    let mut is_found = false;
    let mut archive = tar::Archive::new(&mut tar);
    for entry in archive.entries()? {
        let entry = entry?;
        let is_program = entry
            .path()?
            .file_name()
            .is_some_and(|name| name == program);
        if is_program && entry.header().entry_type().is_file() && !is_found {
            write(entry, target)?;
            is_found = true;
        }
    }
    io::copy(&mut tar, &mut io::sink())?;
    Ok(is_found)
}

/// Writes a program. Fails if it is larger than [`LARGEST`].
fn write(content: impl Read, target: &Path) -> io::Result<()> {
    let mut file = File::create(target)?;
    let written = io::copy(&mut content.take(LARGEST + 1), &mut file)?;
    if written > LARGEST {
        Err(io::Error::other("it is too large for a program"))
    } else {
        Ok(())
    }
}
