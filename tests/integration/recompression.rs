//! The recompression document: what the builder proved is not proved again, and nothing else of the placement is
//! believed (`FORMAT.md`, section 5.3).

use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Mutex;

use gzip_exact::{Encoder, GoLevel, Recipe};
use kubexm_bundle::format::placement::{DecompressedGzip, DecompressedGzips};
use kubexm_bundle::read::verify::Recompressed;
use kubexm_bundle::signature::new_keys;
use kubexm_bundle::write::rewrite;
use kubexm_bundle::{
    Blobs, Bundle, BundleError, CreationTime, Level, Lock, PackOptions, Revision, Signed, Signer,
    StoredContent, arrange, oci_artifact, write,
};
use kubexm_types::Digest;
use kubexm_types::event::Events;

use crate::example::{InMemory, example, text};
use crate::opened_layers::gzip;

const CONTENT: usize = 400_000;

/// A gzip blob with its lock.
struct Sample {
    lock: Lock,
    blobs: InMemory,
    blob: Digest,
    opened: DecompressedGzip,
}

impl Sample {
    fn new() -> Self {
        let (blob, opened) = gzip(&text(1, CONTENT), &recipe(GoLevel::DEFAULT));
        let digest = Digest::of(&blob);
        let (lock, blobs) = example(&[blob]);
        Self {
            lock,
            blobs,
            blob: digest,
            opened,
        }
    }

    fn with(&self, opened: &DecompressedGzip) -> DecompressedGzips {
        DecompressedGzips::from([(self.blob, opened.clone())])
    }

    /// Writes a bundle with this content and recipe of the blob.
    fn write(&self, path: &Path, opened: &DecompressedGzip, options: PackOptions<'_>) {
        let placement = arrange(&self.lock, &self.with(opened));
        write(
            path,
            &self.lock,
            &placement,
            self,
            options,
            &Events::silent(),
        )
        .unwrap();
    }
}

/// Has the false content of [`false_content`], too.
impl Blobs for Sample {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        self.blobs.open(digest)
    }

    fn open_stored_content(
        &self,
        _: &Digest,
        opened: &DecompressedGzip,
    ) -> Result<StoredContent, BundleError> {
        let is_false = opened.content == Digest::of(&false_content());
        Ok(is_false.then(|| Box::new(Cursor::new(false_content())) as Box<dyn Read + Send>))
    }
}

/// Content as large as that of the blob.
fn false_content() -> Vec<u8> {
    text(2, CONTENT)
}

fn recipe(level: GoLevel) -> Recipe {
    Recipe {
        header: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        encoder: Encoder::Go(level),
    }
}

const fn options() -> PackOptions<'static> {
    PackOptions::new(Level::FAST, 1)
}

/// Returns the number of blobs that were not recompressed.
fn verify(bundle: &Bundle, which: Recompressed) -> Result<usize, BundleError> {
    bundle.verify(1, &Events::silent())?;
    bundle.verify_recompressed(which, &Events::silent())
}

/// Returns what a visitor reads of a blob, if it is verified.
fn visited(bundle: &Bundle, blob: Digest) -> Result<Vec<u8>, BundleError> {
    let read = Mutex::new(Vec::new());
    let visit = |_, content: &mut dyn Read| {
        // A visitor leaves the error to the caller.
        let _ = content.read_to_end(&mut read.lock().unwrap());
    };
    bundle.visit_contents(&BTreeSet::from([blob]), 1, &visit)?;
    Ok(read.into_inner().unwrap())
}

#[test]
fn what_the_builder_proved_is_recompressed_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let sample = Sample::new();
    // The builder claims another recipe than the blob has: only recompression can find that.
    let mut claimed = sample.opened.clone();
    claimed.recipe = recipe(GoLevel::new(1).unwrap()).into();
    let proven = sample.with(&claimed);
    for (proven, is_found) in [(None, true), (Some(&proven), false)] {
        let options = PackOptions {
            proven,
            ..options()
        };
        sample.write(&path, &claimed, options);
        let bundle = Bundle::open(&path).unwrap();
        assert_eq!(bundle.proves(&sample.blob, &claimed), !is_found);
        match verify(&bundle, Recompressed::Unproven) {
            Ok(proven) => assert!(proven == 1 && !is_found),
            Err(_) => assert!(is_found),
        }
        verify(&bundle, Recompressed::All).unwrap_err();
    }
}

#[test]
fn content_that_only_the_placement_names_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let [good, bad] = ["good", "bad"].map(|name| folder.path().join(name));
    let sample = Sample::new();
    let mut forged = sample.opened.clone();
    forged.content = Digest::of(&false_content());

    // The header is that of the good bundle, as its signature would demand.
    sample.write(&good, &sample.opened, options());
    let original = Bundle::open(&good).unwrap();
    let as_good = |original| PackOptions {
        signed: Signed::As(original),
        ..options()
    };
    sample.write(&bad, &forged, as_good(original.documents()));
    let bundle = Bundle::open(&bad).unwrap();
    bundle.verify(1, &Events::silent()).unwrap();
    let mut content = bundle.open_content(&sample.blob).unwrap();
    content.read_to_end(&mut Vec::new()).unwrap_err();
    visited(&bundle, sample.blob).unwrap_err();

    let proven = sample.with(&sample.opened);
    let options = PackOptions {
        proven: Some(&proven),
        ..options()
    };
    sample.write(&good, &sample.opened, options);
    let original = Bundle::open(&good).unwrap();
    sample.write(&bad, &forged, as_good(original.documents()));
    let refused = crate::format::reader(&["list", bad.to_str().unwrap()]).unwrap_err();
    assert!(refused.contains("another content"), "{refused}");
    let error = Bundle::open(&bad).unwrap_err().to_string();
    assert!(
        error.contains("another content") && error.contains(&sample.blob.to_string()),
        "{error}"
    );
}

#[test]
fn content_is_the_same_with_a_proof_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let sample = Sample::new();
    let proven = sample.with(&sample.opened);
    for proven in [None, Some(&proven)] {
        let options = PackOptions {
            proven,
            ..options()
        };
        sample.write(&path, &sample.opened, options);
        let bundle = Bundle::open(&path).unwrap();
        assert_eq!(verify(&bundle, Recompressed::All).unwrap(), 0);
        let mut content = Vec::new();
        let mut reader = bundle.open_content(&sample.blob).unwrap();
        reader.read_to_end(&mut content).unwrap();
        assert!(content == text(1, CONTENT));
        assert!(visited(&bundle, sample.blob).unwrap() == content);
    }
}

#[test]
fn signing_and_reading_keep_what_is_proven() {
    let folder = tempfile::tempdir().unwrap();
    let [path, signed] = ["b.tar.zst", "signed.tar.zst"].map(|name| folder.path().join(name));
    let sample = Sample::new();
    let proven = sample.with(&sample.opened);
    let options = PackOptions {
        proven: Some(&proven),
        ..options()
    };
    sample.write(&path, &sample.opened, options);
    let key = folder.path().join("own.key");
    std::fs::write(&key, new_keys(None).unwrap().secret).unwrap();
    let revision = Revision::new(CreationTime::now(), None);
    let signer = Signer::load(&key, revision, || unreachable!()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    rewrite::sign(&bundle, &signer, &signed, None, &Events::silent(), &|| {
        false
    })
    .unwrap();
    let bundle = Bundle::open(&signed).unwrap();
    assert!(bundle.proves(&sample.blob, &sample.opened));

    // In a registry.
    let documents = oci_artifact::describe(&bundle).unwrap().documents;
    let pulled = oci_artifact::accept(&documents, &[]).unwrap();
    assert_eq!(pulled.documents, *bundle.documents());
    assert!(pulled.recompression.proves(&sample.blob, &sample.opened));
    // A program of before the document has left it out.
    let is_proof = |document: &oci_artifact::Document| document.name.contains("recompression");
    let rest: Vec<_> = documents.into_iter().filter(|one| !is_proof(one)).collect();
    let pulled = oci_artifact::accept(&rest, &[]).unwrap();
    assert!(!pulled.recompression.proves(&sample.blob, &sample.opened));
}
