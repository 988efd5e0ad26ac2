//! Manifests and indexes of images, as a registry returns them, and the documents of an OCI layout.
#![no_main]
use kubexm_bundle::format::oci_layout;
use kubexm_fetch::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match fuzzing::image(data) {
        Ok(Some(platform)) => assert!(!platform.blobs.is_empty()),
        Ok(None) => {}
        Err(error) => assert!(error.to_string().starts_with("registry.example/team/app:1")),
    }
    let _ = oci_layout::manifest_in_index(data);
    let _ = oci_layout::images_in_index(data);
    let _ = oci_layout::document_in_manifest(data, "application/vnd.kubexm.lock.v1+yaml");
});
