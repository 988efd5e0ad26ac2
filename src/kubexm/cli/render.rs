//! `kubexm render`: every file that would be put on every host, without any host.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::Failure;
use super::out::say;
use super::subject::Subject;
use kubexm_deploy::Inputs;

#[derive(Debug, Args)]
pub struct Render {
    #[command(flatten)]
    subject: Subject,
    /// Folder for <host>/<absolute path>
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes all files. Secrets appear as words in angle brackets.
pub fn run(arguments: &Render) -> Result<(), Failure> {
    let (bundle, cluster) = arguments.subject.open()?;
    let deployment = kubexm_deploy::plan(&Inputs::unseen(
        &cluster,
        bundle.lock(),
        Arc::clone(&bundle) as _,
    ))?;
    let mut count = 0;
    for (host, files) in kubexm_deploy::rendered(&deployment.plan) {
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
