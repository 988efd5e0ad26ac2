//! `kubexm render`: every file that would be put on every host, without any host.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::out::say;
use super::{Failure, session};
use crate::bundle::Bundle;
use crate::{deploy, spec};

#[derive(Debug, Args)]
pub struct Render {
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
    /// The bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Folder for <host>/<absolute path>
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes all files. Secrets appear as words in angle brackets.
pub fn run(arguments: &Render) -> Result<(), Failure> {
    let bundle = Arc::new(Bundle::open(&arguments.bundle)?);
    let cluster = spec::load_cluster_for(&arguments.file, &bundle.lock().kubernetes)?;
    let deployment = deploy::plan(&session::inputs_without_hosts(&cluster, &bundle))?;
    let mut count = 0;
    for (host, files) in deploy::rendered(&deployment.plan) {
        for file in files {
            let relative = file.path.as_str().trim_start_matches('/');
            let path = arguments.out.join(host.as_str()).join(relative);
            let folder = path.parent().unwrap_or(&arguments.out);
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, &file.content))
                .map_err(|error| Failure::configuration(format!("{}: {error}", path.display())))?;
            count += 1;
        }
    }
    say!("{count} files in {}", arguments.out.display());
    Ok(())
}
