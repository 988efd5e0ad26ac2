//! `bundle verify`: compares a bundle with its digests and signatures.

use std::path::PathBuf;

use serde::Serialize;

use crate::inspect::{SignatureInfo, SignedBy};
use kubexm_bundle::format::volumes::check_volume;
use kubexm_bundle::read::publishers::Publishers;
use kubexm_bundle::read::verify::Recompressed;
use kubexm_bundle::{Bundle, Sequence};
use kubexm_fetch::signatures::trusted_roots;
use kubexm_session::{BundleAccess, CommandError, Stop, background, threads};
use kubexm_types::event::Events;

/// How much to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Depth {
    /// One volume, against the list beside it.
    Volume,
    /// The index and the placement document; no content is read.
    Index,
    /// Every byte, every digest, and the publishers' signatures. Gzip blobs that the builder recompressed
    /// are compared by their content.
    Content,
    /// As `Content`, and all decompressed gzip is recompressed.
    Deep,
}

/// What to verify.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The bundle, or any of its volumes.
    pub bundle: PathBuf,
    /// How it is opened.
    pub access: BundleAccess,
    /// How much to verify.
    pub depth: Depth,
    /// Trusted root files of private Sigstore instances.
    pub trusted_roots: Vec<PathBuf>,
    /// The least sequence number that the signature of the bundle must state.
    pub min_sequence: Option<Sequence>,
}

/// What was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The bundle or the volume.
    pub path: PathBuf,
    /// How much was verified.
    pub verified: Depth,
    /// The number of gzip blobs whose content was compared, because the builder recompressed them.
    pub proven: usize,
    /// The signature of the bundle; `None` if it is not signed, or if only a volume was verified.
    pub signature: Option<SignatureInfo>,
    /// What each publisher signed; verified.
    pub publishers: Vec<SignedBy>,
    /// The items whose signatures only a base bundle contains.
    pub signed_in_base: usize,
    /// The items that are signed under a trusted root that was not given.
    pub not_verified: Vec<String>,
}

/// Verifies a bundle.
///
/// # Errors
/// The bundle is damaged, a signature is invalid, a file cannot be read, or the user stopped the command.
#[tracing::instrument(skip_all, fields(bundle = %options.bundle.display()))]
pub async fn verify(
    options: VerifyOptions,
    events: &Events,
    stop: &Stop,
) -> Result<Verification, CommandError> {
    let events = events.clone();
    tokio::select! {
        result = background::run(move || verify_now(&options, &events)) => result,
        // The thread that reads the bundle ends with the process.
        () = stop.cancelled() => Err(CommandError::interrupted("stopped: the bundle was not verified")),
    }
}

fn verify_now(options: &VerifyOptions, events: &Events) -> Result<Verification, CommandError> {
    let mut publishers = Publishers::default();
    let mut signature = None;
    let mut proven = 0;
    // Wrong paths are reported before the whole bundle is read.
    let roots = trusted_roots(&options.trusted_roots)?;
    match options.depth {
        Depth::Volume => {
            check_volume(&options.bundle, &options.access.volumes)?;
        }
        Depth::Index => {
            let bundle = open(options)?;
            signature = bundle.signature().map(SignatureInfo::from);
        }
        Depth::Content | Depth::Deep => {
            let bundle = open(options)?;
            signature = bundle.signature().map(SignatureInfo::from);
            bundle.verify(threads(), events)?;
            let which = match options.depth {
                Depth::Deep => Recompressed::All,
                _ => Recompressed::Unproven,
            };
            proven = bundle.verify_recompressed(which, events)?;
            publishers = bundle.verify_publishers(&roots)?;
        }
    }
    let verified = publishers.verified.into_iter();
    Ok(Verification {
        path: options.bundle.clone(),
        verified: options.depth,
        proven,
        signature,
        publishers: verified
            .map(|(signer, count)| SignedBy::new(signer, count))
            .collect(),
        signed_in_base: publishers.elsewhere,
        not_verified: publishers.under_other_roots,
    })
}

/// Opens the bundle and compares its sequence number.
fn open(options: &VerifyOptions) -> Result<Bundle, CommandError> {
    let bundle = options.access.open(&options.bundle)?;
    let Some(least) = options.min_sequence else {
        return Ok(bundle);
    };
    let signature = bundle.signature();
    let (cause, hint) = match signature.map(|signature| (signature.verified, signature.revision)) {
        Some((true, Some(revision))) if revision.sequence >= least => return Ok(bundle),
        Some((true, Some(revision))) => {
            let sequence = revision.sequence;
            let cause = format!("its sequence number {sequence} is less than {least}");
            (cause, "get the newest bundle")
        }
        Some((true, None)) => (
            "its signature has no sequence number".to_owned(),
            "sign the bundle again with `kubexm bundle sign` of this version",
        ),
        Some((false, _)) | None => (
            "its sequence number is not verified".to_owned(),
            "name the key that signed the bundle with --trust",
        ),
    };
    let path = bundle.path().display();
    Err(CommandError::bundle(format!("{path}: {cause}")).hint(hint))
}
