//! Writes what a fuzzer begins with: one good input of each kind, below the folder that is named.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use gzip_exact::{Encoder, GoLevel, Recipe};
use kubexm_bundle::{Blobs, Bundle, BundleError, Inventory, Lock, Level, PackOptions, Placement, write};
use kubexm_types::event::Events;
use kubexm_sigstore::referrer;
use kubexm_types::Digest;

struct InMemory(BTreeMap<Digest, Vec<u8>>);

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let blob = self.0.get(digest).cloned();
        let blob = blob.ok_or_else(|| BundleError::Missing(digest.to_string()))?;
        Ok(Box::new(Cursor::new(blob)))
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A program of 4096 bytes of head, some code, and Go's table of two functions.
fn program() -> Vec<u8> {
    let mut program = vec![0; 4096];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (program[18], program[32], program[54], program[56]) = (62, 64, 56, 2);
    for (at, flags, start, size) in [(64, 5, 0, 4096 + 96), (120, 4, 4096 + 96, 1000)] {
        program[at] = 1;
        program[at + 4] = flags;
        program[at + 8..at + 16].copy_from_slice(&u64::to_le_bytes(start));
        program[at + 32..at + 40].copy_from_slice(&u64::to_le_bytes(size));
    }
    program.extend([0xe8, 1, 0, 0, 0, 0x48, 0x8d, 0x05, 9, 0, 0, 0].repeat(8));
    program.extend([0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
    let places = [2, 1, 0, 72, 72, 72, 72, 88];
    program.extend(places.into_iter().flat_map(u64::to_le_bytes));
    program.extend([0, 1, 2, 3, 0, 1, 2, 0x83, 1, 4, 0, 1, 1, 0, 0, 0]);
    let table = [0, 20, 64, 72, 128, 0, 1, 8, 0, 5, 9, 12, 2, 3, 1, 0, 15, 19];
    program.extend(table.into_iter().flat_map(u32::to_le_bytes));
    let last = [64, 9, 8, 0, 22, 25, 30, 0, 3, 2, 0];
    program.extend(last.into_iter().flat_map(u32::to_le_bytes));
    program.resize(4096 + 96 + 1000, 7);
    program
}

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
    let storage = Placement::plain(&lock);
    let options = PackOptions::new(Level::MIN, 1);
    write(&path, &lock, &storage, &blobs, options, &Events::silent())?;
    let packed = fs::read(&path)?;
    let mut head = Vec::new();
    zstd::Decoder::new(&packed[..])?.single_frame().read_to_end(&mut head)?;
    save("head", "good", &head)?;
    save("programs", "good", &program())?;
    save("lock", "three", text.as_bytes())?;
    save("storage", "plain", &serde_json::to_vec(&storage)?)?;
    let inventory = Inventory::new("a site", &[Bundle::open(&path)?]);
    save("inventory", "good", inventory_text(&inventory).as_bytes())?;
    save("documents", "cluster", include_bytes!("../../manifests/cluster-example.yaml"))?;
    save("documents", "bundle", include_bytes!("../../manifests/kubernetes-1.36.yaml"))?;
    let mirrors = "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\ndownloads: {https://a.example: http://b.example}\n";
    save("documents", "mirrors", mirrors.as_bytes())?;
    save("publishers", "root", include_bytes!("../../manifests/sigstore/trusted_root.json"))?;
    save("publishers", "signed", include_bytes!("signed.json"))?;
    let bundle = include_bytes!("bundle.json");
    save("publishers", "bundle", bundle)?;
    save("publishers", "timestamped", include_bytes!("timestamped.json"))?;
    let referrer = include_bytes!("referrer.json");
    save("publishers", "referrer", referrer)?;
    save("publishers", "list", &referrer::list_of(referrer))?;
    save("keyring", "keyring", include_bytes!("keyring.asc"))?;
    save("keyring", "changed", include_bytes!("changed.asc"))?;

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
