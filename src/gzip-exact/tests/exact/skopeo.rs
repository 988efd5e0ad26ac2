//! The installed skopeo, which compresses as podman and buildah do.

use std::path::Path;
use std::process::Command;

use gzip_exact::Encoder;

use crate::content::mixture;
use crate::reproduced;

/// Writes a blob to a file with its digest as the name. Returns the SHA-256 digest and the size.
fn put(folder: &Path, bytes: &[u8]) -> (String, usize) {
    let file = folder.join("blob");
    std::fs::write(&file, bytes).unwrap();
    let output = Command::new("sha256sum").arg(&file).output().unwrap();
    let digest = String::from_utf8(output.stdout).unwrap()[..64].to_owned();
    std::fs::rename(file, folder.join(&digest)).unwrap();
    (digest, bytes.len())
}

#[test]
fn layers_that_skopeo_compresses_are_reproduced() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skopeo");
    let _ = std::fs::remove_dir_all(&folder);
    let source = folder.join("source");
    std::fs::create_dir_all(&source).unwrap();
    // skopeo does not parse the layer.
    let content = mixture(2_500_000, 5);
    let (layer, layer_size) = put(&source, &content);
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{}},
            "rootfs":{{"type":"layers","diff_ids":["sha256:{layer}"]}}}}"#
    );
    let (config, config_size) = put(&source, config.as_bytes());
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
            "config":{{"mediaType":"application/vnd.oci.image.config.v1+json",
                "digest":"sha256:{config}","size":{config_size}}},
            "layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar",
                "digest":"sha256:{layer}","size":{layer_size}}}]}}"#
    );
    std::fs::write(source.join("manifest.json"), manifest).unwrap();
    std::fs::write(source.join("version"), "Directory Transport Version: 1.1\n").unwrap();
    let status = Command::new("skopeo")
        .args([
            "--insecure-policy",
            "copy",
            "--quiet",
            "--dest-compress-format",
            "gzip",
        ])
        .args(["dir:source", "oci:layout:image"])
        .current_dir(&folder)
        .status()
        .expect("skopeo is installed");
    assert!(status.success());
    let blobs = std::fs::read_dir(folder.join("layout/blobs/sha256")).unwrap();
    let mut blobs = blobs.map(|blob| std::fs::read(blob.unwrap().path()).unwrap());
    let packed = blobs.find(|blob| blob.starts_with(&[0x1f, 0x8b])).unwrap();
    let (encoder, again) = reproduced(&packed, &content).expect("it is recognised");
    assert!(matches!(encoder, Encoder::Pgzip(..)), "{encoder}");
    assert!(again == packed);
}
