//! What a registry gives for a bundle that was pushed there: the manifest, and the documents that it
//! names.
#![no_main]
use kubexm_bundle::oci_artifact::{Document, accept, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: (&[u8], Vec<&[u8]>)| {
    let (manifest, contents) = data;
    let Some(named) = read(manifest) else { return };
    let documents: Vec<Document> = named
        .into_iter()
        .zip(contents)
        .map(|((name, descriptor), bytes)| Document {
            name,
            media_type: descriptor.media_type,
            bytes: bytes.to_vec(),
        })
        .collect();
    let _ = accept(&documents, &[]);
});
