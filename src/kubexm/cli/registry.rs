//! `kubexm registry seed`: the images of a bundle into the registry that a cluster file names.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::out::say;
use super::subject::Opening;
use super::{Failure, interrupt};
use kubexm_config::cluster::ExternalRegistry;
use kubexm_engine::seed;
use kubexm_fetch::Cache;
use kubexm_fetch::oci::{PushAccess, Pusher};
use kubexm_types::ImageRef;
use kubexm_types::event::Events;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Push a bundle's images into the registry of the cluster file (registry.type: external), where
    /// its hosts will look for them
    Seed(Seed),
}

#[derive(Debug, Args)]
pub struct Seed {
    /// The bundle
    #[arg(long, value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    file: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Where blobs wait for being sent: takes up to half a gigabyte and the largest blob
    #[arg(long, value_name = "DIR", env = "KUBEXM_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs a command on registries.
pub async fn run(command: Command, events: &Events) -> Result<(), Failure> {
    match command {
        Command::Seed(seed) => self::seed(seed, events).await,
    }
}

async fn seed(arguments: Seed, events: &Events) -> Result<(), Failure> {
    let stop = interrupt::watch(events, "stopping: what the registry has stays there");
    let opening = arguments.opening.trusting(&arguments.file)?;
    let bundle = Arc::new(opening.open_complete(&arguments.bundle)?);
    let cluster = kubexm_config::load_cluster_for(&arguments.file, &bundle.lock().kubernetes)?;
    let Some(registry) = &cluster.registry.external else {
        return Err(Failure::configuration(format!(
            "{}: spec.registry.type is not external: `kubexm install` fills the cluster's own registry",
            arguments.file.display()
        )));
    };
    let cache = Cache::open(&arguments.cache.unwrap_or_else(Cache::default_dir))?;
    let access = access(registry)?;
    events.phase("push");
    let mut sent = 0;
    let images = &bundle.lock().images;
    for image in images {
        let place = place(registry, &image.name)?;
        let spool = cache.unfinished();
        let pusher = Pusher::new(place, access.clone(), None, &spool, events.clone()).await?;
        sent += tokio::select! {
            pushed = pusher.push_image(&bundle, image) => pushed?,
            () = stop.cancelled() => {
                let words = "stopped; the same command goes on from what was sent";
                return Err(Failure::interrupted(words));
            }
        };
    }
    say!("{} images are at {}", images.len(), registry.address);
    say!("  sent     {sent} blobs");
    Ok(())
}

fn access(registry: &ExternalRegistry) -> Result<PushAccess, Failure> {
    let ca = registry.ca_file.iter().map(|file| {
        std::fs::read(file)
            .map_err(|error| Failure::configuration(format!("{}: {error}", file.display())))
    });
    let login = match &registry.login {
        None => None,
        Some(login) => {
            let file = login.password_file.display();
            let password = login
                .password()
                .map_err(|error| Failure::configuration(format!("{file}: {error}")))?;
            Some((login.user.clone(), password))
        }
    };
    Ok(PushAccess {
        plain_http: false,
        ca: ca.collect::<Result<_, _>>()?,
        login,
    })
}

/// Where an image stands in the registry: what the hosts' mirrors lead to.
fn place(registry: &ExternalRegistry, image: &ImageRef) -> Result<ImageRef, Failure> {
    let repository = registry.repository(&seed::repository(image));
    // What is named by its digest alone needs some tag to be kept by.
    let digest = image.digest().map(|digest| digest.hex());
    let tag = image
        .tag()
        .map(str::to_owned)
        .or(digest)
        .unwrap_or_default();
    let text = format!("oci://{}/{repository}:{tag}", registry.address);
    ImageRef::parse_place(&text, None).map_err(Failure::configuration)
}
