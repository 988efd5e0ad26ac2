//! What `tests/online/run` runs.
//!
//!     online [--only versions,packages,mirrors] [--arch amd64,arm64] [--cache DIR]

mod check;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use check::{Check, Pinned};
use kubexm_catalog::Catalog;
use kubexm_config::Mirrors;
use kubexm_fetch::{Cache, Http};
use kubexm_types::Arch;
use kubexm_types::event::Events;

/// The groups of checks.
const GROUPS: [&str; 3] = ["versions", "packages", "mirrors"];

struct Options {
    groups: Vec<String>,
    arches: Vec<Arch>,
    cache: PathBuf,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        groups: GROUPS.map(str::to_owned).to_vec(),
        arches: vec![Arch::Amd64, Arch::Arm64],
        cache: Cache::default_dir(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let values = value.split(',');
        match name.as_str() {
            "--only" => options.groups = values.map(str::to_owned).collect(),
            "--arch" => {
                let arches = values.map(Arch::parse).collect::<Result<_, _>>();
                options.arches = arches.map_err(|error| error.to_string())?;
            }
            "--cache" => options.cache = value.into(),
            _ => return Err(format!("{name} is not an option")),
        }
    }
    match options
        .groups
        .iter()
        .find(|group| !GROUPS.contains(&group.as_str()))
    {
        Some(unknown) => Err(format!("'{unknown}' is not one of {}", GROUPS.join(", "))),
        None => Ok(options),
    }
}

async fn run(options: Options) -> Result<usize, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pinned = Pinned::shipped(&root)?;
    let catalog = Catalog::embedded().map_err(|error| text(&error))?;
    let cache = Cache::open(&options.cache).map_err(|error| text(&error))?;
    let http = Http::new(Mirrors::default(), cache, Events::silent());
    let http = http.map_err(|error| text(&error))?;
    let mut check = Check::new(&catalog, http).map_err(|error| text(&error))?;
    check.arches = options.arches;
    let has = |group: &str| options.groups.iter().any(|one| one == group);
    if has("versions") {
        check.versions(&pinned).await;
    }
    if has("packages") {
        for source in &pinned.packages {
            check.packages(source).await;
        }
    }
    if has("mirrors") {
        for set in kubexm_catalog::mirror_sets() {
            let mirrors = kubexm_catalog::mirrors(set).map_err(|error| text(&error))?;
            check.mirrors(set, &mirrors, &pinned).await;
        }
    }
    println!(
        "{} passed, {} failed",
        check.rows.len() - check.failed(),
        check.failed()
    );
    Ok(check.failed())
}

fn main() -> ExitCode {
    // This program starts the sandbox of kubeadm.
    kubexm_sandbox::enter().unwrap_or_else(checked)
}

#[tokio::main]
async fn checked() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ran = match options() {
        Ok(options) => run(options).await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
