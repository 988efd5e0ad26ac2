//! `kubexm bundle split|join|sign|keygen|apply`: the same content in another form.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args;

use super::build::{lock_path, write_lock};
use super::bundle::threads;
use super::out::say;
use super::subject::Opening;
use super::volume_size::{VolumeSize, at_most};
use super::{Failure, interrupt};
use crate::report;
use kubexm_bundle::signature::{KeyError, new_keys};
use kubexm_bundle::write::rewrite;
use kubexm_bundle::{BundleSet, Level, PackOptions, Signed, Signer, Written};
use kubexm_engine::plan::Stop;
use kubexm_types::event::{Event, Events};

/// The environment's name for a signing key's password.
pub const PASSWORD: &str = "KUBEXM_KEY_PASSWORD";

#[derive(Debug, Args)]
pub struct Split {
    /// The bundle, or any of its volumes
    bundle: PathBuf,
    /// Largest size of a volume, as in 4GiB (what FAT32 takes) or 650MB
    #[arg(long, value_name = "SIZE", value_parser = at_most)]
    size: VolumeSize,
    /// The folder of the volumes
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

#[derive(Debug, Args)]
pub struct Join {
    /// Any volume of the bundle, or their list
    bundle: PathBuf,
    /// The file to be written
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

#[derive(Debug, Args)]
pub struct Sign {
    /// The bundle
    bundle: PathBuf,
    /// The minisign secret key; its password is read from KUBEXM_KEY_PASSWORD, or asked for
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The file to be written [default: in place of the bundle]
    #[arg(short, long, value_name = "BUNDLE")]
    out: Option<PathBuf>,
    /// Split what is written into volumes of at most this size
    #[arg(long, value_name = "SIZE", value_parser = at_most)]
    split: Option<VolumeSize>,
    #[command(flatten)]
    opening: Opening,
}

#[derive(Debug, Args)]
pub struct Keygen {
    /// Writes FILE.key, to be kept, and FILE.pub, to be given to those who shall trust it
    #[arg(value_name = "FILE")]
    name: PathBuf,
    /// Write the secret key as it is, without a password
    #[arg(long)]
    no_password: bool,
}

#[derive(Debug, Args)]
pub struct Apply {
    /// What the site has, in any order; the bundle with what was new comes last
    #[arg(required = true, num_args = 2.., value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// The whole bundle to be written
    #[arg(short, long, value_name = "BUNDLE")]
    out: PathBuf,
    /// Compression level, 1 (fast) to 19 (small)
    #[arg(long, default_value_t)]
    level: Level,
    /// Split what is written into volumes of at most this size
    #[arg(long, value_name = "SIZE", value_parser = at_most)]
    split: Option<VolumeSize>,
    #[command(flatten)]
    opening: Opening,
}

/// Cuts a bundle into volumes.
pub async fn split(arguments: Split, events: &Events) -> Result<(), Failure> {
    let bundle = arguments.opening.open(&arguments.bundle)?;
    let name = bundle.path().file_name().unwrap_or_default();
    let (path, size) = (arguments.out.join(name), arguments.size);
    let work = move |events: &Events, stop: &dyn Fn() -> bool| {
        rewrite::resplit(&bundle, &path, Some(size.bytes()), events, stop).map(|w| (path, w))
    };
    let (path, written) = in_background(events, work).await?;
    tell(events, &path, written, Some(size));
    Ok(())
}

/// Makes one file of volumes.
pub async fn join(arguments: Join, events: &Events) -> Result<(), Failure> {
    let bundle = arguments.opening.open(&arguments.bundle)?;
    let path = arguments.out;
    let work = move |events: &Events, stop: &dyn Fn() -> bool| {
        rewrite::resplit(&bundle, &path, None, events, stop).map(|w| (path, w))
    };
    let (path, written) = in_background(events, work).await?;
    tell(events, &path, written, None);
    Ok(())
}

/// Signs a bundle that is there.
pub async fn sign(arguments: Sign, events: &Events) -> Result<(), Failure> {
    let bundle = arguments.opening.open(&arguments.bundle)?;
    let signer = signer(&arguments.key)?;
    let trusted = signer.public_key().map_err(Failure::configuration)?;
    let split = arguments.split;
    if arguments.out.is_none() && split.is_none() && bundle.volumes().is_some() {
        return Err(Failure::configuration(
            "the bundle is in volumes: give --split SIZE for new ones, or --out FILE",
        ));
    }
    let path = arguments.out.unwrap_or_else(|| bundle.path().to_owned());
    let work = move |events: &Events, stop: &dyn Fn() -> bool| {
        let volume = split.map(VolumeSize::bytes);
        rewrite::sign(&bundle, &signer, &path, volume, events, stop).map(|w| (path, w))
    };
    let (path, written) = in_background(events, work).await?;
    tell(events, &path, written, split);
    say!("  trust    {trusted}");
    Ok(())
}

/// Makes a pair of keys.
pub fn keygen(arguments: &Keygen) -> Result<(), Failure> {
    let password = match arguments.no_password {
        true => None,
        false => Some(new_password()?),
    };
    let keys = new_keys(password).map_err(Failure::configuration)?;
    let named = |suffix: &str| {
        let mut name = arguments.name.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (secret, public) = (named(".key"), named(".pub"));
    create_new(&secret, &keys.secret, 0o600)?;
    create_new(&public, &keys.public, 0o644)?;
    say!("{} (keep it)", secret.display());
    say!(
        "{} (give it to those who shall trust you)",
        public.display()
    );
    Ok(())
}

/// Makes a whole bundle of one that carries only what was new.
pub async fn apply(arguments: Apply, events: &Events) -> Result<(), Failure> {
    kubexm_bundle::check_folder(&arguments.out)?;
    let whole = arguments.opening.open_whole(&arguments.bundles)?;
    let lock = whole.lock().clone();
    let (path, level, split) = (arguments.out, arguments.level, arguments.split);
    let work = move |events: &Events, stop: &dyn Fn() -> bool| {
        let options = PackOptions {
            level,
            threads: threads() as u32,
            volume: split.map(VolumeSize::bytes),
            signed: Signed::As(whole.bundle().texts()),
        };
        pack_whole(&whole, &path, options, events, stop).map(|w| (path, w))
    };
    let (path, written) = in_background(events, work).await?;
    write_lock(&lock_path(&path), &lock)?;
    tell(events, &path, written, split);
    Ok(())
}

fn pack_whole(
    whole: &BundleSet,
    path: &Path,
    options: PackOptions<'_>,
    events: &Events,
    stop: &dyn Fn() -> bool,
) -> Result<Written, kubexm_bundle::BundleError> {
    events.phase("pack");
    let lock = whole.lock();
    let openings = kubexm_bundle::openings(lock, whole, whole, 1, events, &|| false)?;
    let storage = kubexm_bundle::arrange(lock, &openings);
    kubexm_bundle::write_until(path, lock, &storage, whole, options, events, stop)
}

/// Reads a secret key; its password comes from the environment, or from whoever sits there.
pub fn signer(path: &Path) -> Result<Signer, Failure> {
    let password = || match std::env::var(PASSWORD) {
        Ok(password) => Ok(password),
        Err(_) => rpassword::prompt_password(format!("password of {}: ", path.display()))
            .map_err(|error| format!("nobody can be asked ({error}); set {PASSWORD}")),
    };
    Signer::load(path, password).map_err(|error: KeyError| Failure::configuration(error))
}

fn new_password() -> Result<String, Failure> {
    if let Ok(password) = std::env::var(PASSWORD) {
        return Ok(password);
    }
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt).map_err(|error| {
            Failure::configuration(format!(
                "nobody can be asked for a password ({error}); set {PASSWORD}, or give --no-password"
            ))
        })
    };
    let password = ask("password of the new key: ")?;
    match password == ask("the same again: ")? {
        true => Ok(password),
        false => Err(Failure::configuration("the two passwords differ")),
    }
}

/// Keys are never written over.
fn create_new(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::configuration(format!("{}: {error}", path.display()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

/// Runs what reads and writes files where it holds up nobody, until the user stops it.
async fn in_background<T: Send + 'static>(
    events: &Events,
    work: impl FnOnce(&Events, &dyn Fn() -> bool) -> Result<T, kubexm_bundle::BundleError>
    + Send
    + 'static,
) -> Result<T, Failure> {
    let stop: Stop = interrupt::watch(events, interrupt::STOPPING);
    let events = events.clone();
    let result = tokio::task::spawn_blocking(move || work(&events, &|| stop.is_cancelled()))
        .await
        .map_err(Failure::bundle)?;
    Ok(result?)
}

/// Says what was written.
pub fn tell(events: &Events, path: &Path, written: Written, split: Option<VolumeSize>) {
    let volumes = split.map(|split| written.size.div_ceil(split.bytes()).max(1));
    events.tell(Event::Written {
        path: path.display().to_string(),
        size: written.size,
        sha256: written.digest.hex(),
        volumes,
    });
    match volumes {
        None => say!("{}", path.display()),
        Some(count) => {
            let first = kubexm_bundle::format::volumes::volume_path(path, 1);
            say!("{} and on: {count} volumes", first.display());
            let list = kubexm_bundle::format::volumes::list_path(path);
            say!("  list     {}", list.display());
        }
    }
    say!("  size     {}", report::bytes(written.size));
    say!("  sha256   {}", written.digest.hex());
}
