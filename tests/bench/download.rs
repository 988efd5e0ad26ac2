//! What `tests/bench/download` needs besides the real programs: a proxy that makes a fast line slow,
//! and kubexm's downloads alone, without what a build does besides.
//!
//!     download-bench throttle --to ADDRESS --rate BYTES --latency MS --port-file FILE
//!     download-bench files --cache DIR <LIST        lines of: address sha256
//!     download-bench images --cache DIR --registry http://ADDRESS <LIST     names of images

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use kubexm_config::Mirrors;
use kubexm_fetch::http::Wanted;
use kubexm_fetch::oci::Puller;
use kubexm_fetch::{Cache, Http};
use kubexm_types::event::Events;
use kubexm_types::{Arch, ImageRef};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

type Outcome = Result<(), Box<dyn Error>>;

/// As many as a build has on their way at once.
const PARALLEL: usize = 16;
/// What a line holds at most.
const ON_THE_WAY: usize = 64;

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments: VecDeque<String> = std::env::args().skip(1).collect();
    let command = arguments.pop_front().unwrap_or_default();
    let mut options = BTreeMap::new();
    while let (Some(name), Some(value)) = (arguments.pop_front(), arguments.pop_front()) {
        options.insert(name, value);
    }
    let option = |name: &str| -> Result<&String, String> {
        options
            .get(name)
            .ok_or_else(|| format!("{name} is missing"))
    };
    match command.as_str() {
        "throttle" => {
            let line = Line {
                to: option("--to")?.clone(),
                rate: option("--rate")?.parse()?,
                latency: Duration::from_millis(option("--latency")?.parse()?),
            };
            throttle(line, Path::new(option("--port-file")?)).await
        }
        "files" => files(http(option("--cache")?, Mirrors::default())?).await,
        "images" => {
            let base = option("--registry")?;
            let hosts = ["registry.k8s.io", "ghcr.io"];
            let there = |host: &str| vec![format!("{base}/{host}")];
            let registries = hosts.map(|host| (host.to_owned(), there(host))).into();
            let mirrors = Mirrors {
                registries,
                checksums: kubexm_config::mirrors::Checksums::Mirror,
                ..Mirrors::default()
            };
            images(http(option("--cache")?, mirrors)?).await
        }
        _ => Err("the first argument must be throttle, files or images".into()),
    }
}

fn http(cache: &str, mirrors: Mirrors) -> Result<Http, Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cache = Cache::open(Path::new(cache))?;
    Ok(Http::new(mirrors, cache, Events::silent())?)
}

async fn files(http: Http) -> Outcome {
    let mut wanted = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (url, digest) = line
            .split_once(' ')
            .ok_or("a line must be: address sha256")?;
        wanted.push(Wanted {
            label: url.to_owned(),
            url: url.parse()?,
            expected: Some(digest.parse()?),
            size: None,
        });
    }
    stream::iter(&wanted)
        .map(|wanted| http.download(wanted))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(())
}

/// In the order of a build: all manifests, then all blobs, the largest first.
async fn images(http: Http) -> Outcome {
    let puller = Puller::new(http);
    let lines: Result<Vec<String>, _> = std::io::stdin().lock().lines().collect();
    let names: Result<Vec<ImageRef>, _> = lines?.iter().map(|line| line.parse()).collect();
    let locked: Vec<_> = stream::iter(&names?)
        .map(|name| puller.resolve(name, &[Arch::Amd64], None))
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let mut blobs = BTreeMap::new();
    for image in &locked {
        for blob in image.platforms.iter().flat_map(|platform| &platform.blobs) {
            blobs.entry(blob.digest).or_insert((&image.name, blob));
        }
    }
    let mut blobs: Vec<_> = blobs.into_values().collect();
    blobs.sort_by_key(|(_, blob)| std::cmp::Reverse(blob.size));
    stream::iter(blobs)
        .map(|(name, blob)| puller.blob(name, blob))
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(())
}

/// How a line is.
#[derive(Clone)]
struct Line {
    to: String,
    /// Bytes a second that one connection gets; 0 for no limit.
    rate: u64,
    /// There and back.
    latency: Duration,
}

async fn throttle(line: Line, port_file: &Path) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    std::fs::write(port_file, format!("{port}\n"))?;
    loop {
        let (client, _) = listener.accept().await?;
        let line = line.clone();
        tokio::spawn(async move {
            // A line that breaks is the business of the two at its ends.
            let _ = carry(client, &line).await;
        });
    }
}

async fn carry(client: TcpStream, line: &Line) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    // The handshake.
    tokio::time::sleep(line.latency).await;
    let server = TcpStream::connect(&line.to).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let half = line.latency / 2;
    tokio::try_join!(
        one_way(from_client, to_server, 0, half),
        one_way(from_server, to_client, line.rate, half),
    )?;
    Ok(())
}

/// Bytes leave at their rate, and arrive later by the latency.
async fn one_way(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin,
    rate: u64,
    latency: Duration,
) -> std::io::Result<()> {
    let (sender, mut line) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let reading = tokio::spawn(async move {
        let mut free = Instant::now();
        loop {
            let mut chunk = vec![0; 64 * 1024];
            let length = from.read(&mut chunk).await?;
            if length == 0 {
                return Ok::<(), std::io::Error>(());
            }
            chunk.truncate(length);
            if rate > 0 {
                free =
                    free.max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate as f64);
                tokio::time::sleep_until(free).await;
            }
            if sender
                .send((Instant::now() + latency, chunk))
                .await
                .is_err()
            {
                return Ok(());
            }
        }
    });
    while let Some((arrives, chunk)) = line.recv().await {
        tokio::time::sleep_until(arrives).await;
        if to.write_all(&chunk).await.is_err() {
            break;
        }
    }
    reading.abort();
    to.shutdown().await
}
