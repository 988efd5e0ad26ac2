//! An image with one file, as an OCI image layout.

use std::path::Path;

use kubexm_types::Digest;
use serde_json::{Value, json};

const OCI: &str = "application/vnd.oci.image";

pub fn write(folder: &Path, name: &str) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |media_type: &str, content: &[u8]| -> Value {
        let digest = Digest::of(content);
        std::fs::write(blobs.join(digest.hex()), content).unwrap();
        json!({"mediaType": format!("{OCI}.{media_type}"), "digest": digest, "size": content.len()})
    };
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(name.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "etc/name", name.as_bytes())
        .unwrap();
    let tar = tar.into_inner().unwrap();
    let layer = put("layer.v1.tar", &tar);
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&tar)]},
    });
    let config = put("config.v1+json", config.to_string().as_bytes());
    let manifest = json!({
        "schemaVersion": 2, "mediaType": format!("{OCI}.manifest.v1+json"),
        "config": config, "layers": [layer],
    });
    let manifest = put("manifest.v1+json", manifest.to_string().as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    std::fs::write(folder.join("oci-layout"), version).unwrap();
}
