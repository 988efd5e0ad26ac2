//! Writes what a fuzzer begins with: one good input of each kind, below the folder that is named.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use gzip_exact::{Encoder, GoLevel, Recipe};
use kubexm::bundle::{Blobs, Bundle, BundleError, Inventory, Lock, PackOptions, Storage, write};
use kubexm::event::Events;
use kubexm::sigstore::referrer;
use kubexm::spec::Digest;

struct InMemory(BTreeMap<Digest, Vec<u8>>);

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let blob = self.0.get(digest).cloned();
        let blob = blob.ok_or_else(|| BundleError::Missing(digest.to_string()))?;
        Ok(Box::new(Cursor::new(blob)))
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    let save = |target: &str, name: &str, content: &[u8]| -> std::io::Result<()> {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), content)
    };
    let text = include_str!("three.lock.yaml");
    let lock = Lock::from_yaml(text)?;
    let blobs = [&b"kubexm"[..], &[7; 700], b""];
    let blobs = InMemory(blobs.iter().map(|b| (Digest::of(b), b.to_vec())).collect());
    let path = folder.join("three.tar.zst");
    let storage = Storage::plain(&lock);
    let options = PackOptions::new(1, 1);
    write(&path, &lock, &storage, &blobs, options, &Events::silent())?;
    let packed = fs::read(&path)?;
    let mut head = Vec::new();
    zstd::Decoder::new(&packed[..])?.single_frame().read_to_end(&mut head)?;
    save("head", "good", &head)?;
    save("lock", "three", text.as_bytes())?;
    save("storage", "plain", &serde_json::to_vec(&storage)?)?;
    let inventory = Inventory::of("a site", &[Bundle::open(&path)?]);
    save("inventory", "good", inventory_text(&inventory).as_bytes())?;
    save("documents", "cluster", include_bytes!("../../manifests/cluster-example.yaml"))?;
    save("documents", "bundle", include_bytes!("../../manifests/kubernetes-1.36.yaml"))?;
    let mirrors = "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\ndownloads: {https://a.example: http://b.example}\n";
    save("documents", "mirrors", mirrors.as_bytes())?;
    save("publishers", "root", include_bytes!("../../manifests/sigstore/trusted_root.json"))?;
    save("publishers", "signed", include_bytes!("signed.json"))?;
    let bundle = include_bytes!("bundle.json");
    save("publishers", "bundle", bundle)?;
    let referrer = include_bytes!("referrer.json");
    save("publishers", "referrer", referrer)?;
    save("publishers", "list", &referrer::list_of(referrer))?;

    let recipe = Recipe {
        header: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        encoder: Encoder::Go(GoLevel::DEFAULT),
    };
    let mut writer = recipe.writer();
    writer.write_all(text.as_bytes())?;
    save("gzip", "go", &writer.finish()?)?;
    Ok(())
}

fn inventory_text(inventory: &Inventory) -> String {
    let blobs: Vec<String> = inventory.blobs.iter().map(ToString::to_string).collect();
    format!(
        "inventoryVersion: 1\nsite: {}\nbundles: []\nblobs: [{}]\n",
        inventory.site,
        blobs.join(", ")
    )
}
