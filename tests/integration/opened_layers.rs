//! Decompressed layers, groups of similar blobs, and filtered programs: every reader gets the published
//! bytes.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use gzip_exact::{BlockSize, Encoder, Era, GoLevel, Recipe, ZlibLevel};
use kubexm_bundle::arrange;
use kubexm_bundle::format::placement::{
    DecompressedGzip, DecompressedGzips, Entry, Group, GzipRecipe,
};
use kubexm_bundle::lock::FileFormat;
use kubexm_bundle::read::verify::Recompressed;
use kubexm_bundle::{
    Blobs, Bundle, BundleError, EncoderCache, Level, Lock, PackOptions, Placement, analyze_gzip,
    write,
};
use kubexm_types::Digest;
use kubexm_types::event::{Event, Events, Listener};

use crate::example::{InMemory, all, assert_holds, example, kubexm, text};

const OPTIONS: PackOptions<'_> = PackOptions::new(Level::FAST, 2);

/// Keeps nothing.
struct Forgetful;

impl EncoderCache for Forgetful {
    fn recall(&self, _: &Digest) -> Option<Option<DecompressedGzip>> {
        None
    }
    fn keep(&self, _: &Digest, _: Option<&DecompressedGzip>) {}
}

fn recipe(encoder: Encoder) -> Recipe {
    Recipe {
        header: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        encoder,
    }
}

pub fn gzip(content: &[u8], recipe: &Recipe) -> (Vec<u8>, DecompressedGzip) {
    let mut writer = recipe.writer();
    writer.write_all(content).unwrap();
    let opened = DecompressedGzip {
        content: Digest::of(content),
        size: content.len() as u64,
        recipe: recipe.clone().into(),
    };
    (writer.finish().unwrap(), opened)
}

fn pack(folder: &Path, lock: &Lock, storage: &Placement, blobs: &InMemory) -> Bundle {
    let path = folder.join("b.tar.zst");
    write(&path, lock, storage, blobs, OPTIONS, &Events::silent()).unwrap();
    Bundle::open(&path).unwrap()
}

/// Checks that every way to read a bundle gives these blobs.
fn assert_gives(bundle: &Bundle, blobs: &InMemory) {
    bundle.verify(2, &Events::silent()).unwrap();
    bundle
        .verify_recompressed(Recompressed::All, &Events::silent())
        .unwrap();
    assert_holds(bundle, blobs);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
    #[test]
    fn blobs_are_unchanged_in_any_arrangement_of_groups(
        plan in proptest::collection::vec(
            (0usize..3000, 0u8..6, proptest::prelude::any::<bool>(), proptest::prelude::any::<bool>()),
            1..14),
        cuts in proptest::collection::vec((1usize..6, 1u32..9), 1..6),
        seed in proptest::prelude::any::<u64>(),
    ) {
        let encoders = [
            Encoder::Go(GoLevel::DEFAULT),
            Encoder::Go(GoLevel::new(1).unwrap()),
            Encoder::Zlib(gzip_exact::Kind::Gnu, ZlibLevel::new(9).unwrap()),
            Encoder::Zlib(gzip_exact::Kind::Zlib, ZlibLevel::new(6).unwrap()),
            // Several blocks, compressed by several threads.
            Encoder::Pgzip(Era::V1_20_0, GoLevel::DEFAULT, BlockSize::new(1 << 15).unwrap()),
        ];
        let mut contents = Vec::new();
        let mut opened = DecompressedGzips::new();
        let mut filtered = BTreeSet::new();
        for (at, (length, kind, open, filter)) in plan.iter().enumerate() {
            let length = if *kind == 4 { length * 50 } else { *length };
            let content = match length % 2 {
                0 => text(seed ^ at as u64, length),
                _ => program(length / 5),
            };
            if *filter { filtered.insert(at); }
            let (blob, how) = match encoders.get(usize::from(*kind)) {
                Some(encoder) => gzip(&content, &recipe(*encoder)),
                None => { contents.push(content); continue; }
            };
            if *open { opened.insert(Digest::of(&blob), how); }
            contents.push(blob);
        }
        let (lock, blobs) = example(&contents);
        let turned: BTreeSet<Digest> = filtered.iter().map(|at| Digest::of(&contents[*at])).collect();
        let entry = |blob: &Digest| Entry {
            blob: *blob,
            opened: opened.get(blob).cloned(),
            filtered: turned.contains(blob),
        };
        let mut left: Vec<Entry> = blobs.0.keys().map(entry).collect();
        let mut groups = Vec::new();
        for (count, pieces) in cuts.into_iter().cycle() {
            if left.is_empty() { break; }
            let entries = left.split_off(left.len().saturating_sub(count));
            groups.push(Group { pieces, entries });
        }
        let storage = Placement { storage_version: Placement::VERSION, groups, base: None };
        let folder = tempfile::tempdir().unwrap();
        assert_gives(&pack(folder.path(), &lock, &storage, &blobs), &blobs);
    }
}

/// Returns similar programs, one of them in gzip, and a gzip blob that no encoder reproduces.
fn similar_programs() -> (Lock, InMemory, Digest) {
    let shared = text(1, 600_000);
    let program = |seed| [&text(seed, 90_000)[..], &shared].concat();
    let (packed, _) = gzip(&program(3), &recipe(Encoder::Go(GoLevel::DEFAULT)));
    let mut unknown = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(4));
    unknown.write_all(&program(5)).unwrap();
    let unknown = unknown.finish().unwrap();
    let digest = Digest::of(&packed);
    let (mut lock, blobs) = example(&[
        program(2),
        packed,
        unknown,
        b"small".to_vec(),
        program(4),
        Vec::new(),
    ]);
    for file in &mut lock.files {
        if blobs.0[&file.digest].starts_with(&[0x1f, 0x8b]) {
            file.format = FileFormat::TarGz;
        }
    }
    (lock, blobs, digest)
}

#[test]
fn grouped_files_are_unchanged() {
    let (lock, blobs, packed) = similar_programs();
    let opened = analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    assert!(opened.keys().eq([&packed]), "one of them can be made again");
    let storage = arrange(&lock, &opened);
    let folder = tempfile::tempdir().unwrap();
    let small = pack(folder.path(), &lock, &storage, &blobs);
    assert_gives(&small, &blobs);
    let inside = all(small.open_content(&packed).unwrap());
    assert!(inside == all(flate2::read::GzDecoder::new(&blobs.0[&packed][..])));
    let small = small.size();
    let plain = pack(folder.path(), &lock, &Placement::plain(&lock), &blobs);
    assert_gives(&plain, &blobs);
    // Two of the three programs have nearly everything in common with the first.
    assert!(small < plain.size() * 7 / 10, "{small} of {}", plain.size());
}

/// Returns a program for x86-64 that calls two functions from this number of places.
fn program(calls: usize) -> Vec<u8> {
    let mut program = vec![0; 4096];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (program[18], program[32], program[54], program[56]) = (62, 64, 56, 1);
    (program[64], program[68]) = (1, 5);
    program[96..104].copy_from_slice(&(4096 + calls as u64 * 5).to_le_bytes());
    for call in 0..calls {
        let target = if call % 7 == 0 { 5000 } else { 9000 };
        let next = program.len() as i32 + 5;
        program.push(0xe8);
        program.extend((target - next).to_le_bytes());
    }
    program
}

#[test]
fn filtered_programs_are_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let layer = [vec![7; 512 * 3], program(30_000), vec![0; 1024]].concat();
    let (packed, how) = gzip(&layer, &recipe(Encoder::Go(GoLevel::DEFAULT)));
    let opened = DecompressedGzips::from([(Digest::of(&packed), how)]);
    let (lock, blobs) = example(&[program(40_000), packed, text(7, 90_000)]);
    let filtered = arrange(&lock, &opened);
    let mut unfiltered = filtered.clone();
    let groups = unfiltered.groups.iter_mut();
    for entry in groups.flat_map(|group| &mut group.entries) {
        entry.filtered = false;
    }
    let [small, plain] = [filtered, unfiltered].map(|storage| {
        let bundle = pack(folder.path(), &lock, &storage, &blobs);
        assert_gives(&bundle, &blobs);
        bundle.size()
    });
    assert!(small < plain * 6 / 10, "{small} of {plain}");
}

#[test]
fn same_lock_gives_the_same_bytes() {
    let (lock, blobs, _) = similar_programs();
    let folder = tempfile::tempdir().unwrap();
    let digests: BTreeSet<Digest> = [1, 2, 5]
        .into_iter()
        .map(|threads| {
            let opened = analyze_gzip(
                &lock,
                &blobs,
                &Forgetful,
                threads,
                &Events::silent(),
                &|| false,
            );
            let storage = arrange(&lock, &opened.unwrap());
            let options = PackOptions::new(Level::FAST, threads as u32);
            let path = folder.path().join("b.tar.zst");
            let written = write(&path, &lock, &storage, &blobs, options, &Events::silent());
            written.unwrap().digest
        })
        .collect();
    assert_eq!(digests.len(), 1);
}

#[test]
fn changed_blob_in_the_cache_is_named_and_not_packed() {
    let (lock, blobs, packed) = similar_programs();
    let opened = analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    let storage = arrange(&lock, &opened);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("never.tar.zst");
    let end = blobs.0[&packed].len() - 1;
    for at in [3, 5000, end - 4, end] {
        let mut changed = InMemory(blobs.0.clone());
        changed.0.get_mut(&packed).unwrap()[at] ^= 1;
        let error = write(&path, &lock, &storage, &changed, OPTIONS, &Events::silent());
        let error = error.unwrap_err();
        assert!(
            matches!(&error, BundleError::Source { expected, .. } if *expected == packed),
            "{at}: {error}"
        );
        assert!(!path.exists());
    }
    // An invented encoder is refused.
    let mut forged = opened.clone();
    forged.get_mut(&packed).unwrap().content = Digest::of(b"another");
    let storage = arrange(&lock, &forged);
    let error = write(&path, &lock, &storage, &blobs, OPTIONS, &Events::silent()).unwrap_err();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(error, @"
    [folder]/never.tar.zst: sha256:f9bcbd81012df1766c0af58aa8e573f3cbd96944bc1dca236848c0f50a392dd9: the decompressed content does not match the gzip analysis in the cache
    hint: run `kubexm cache gc --all` and build again
    ");
}

#[test]
fn gzip_layer_with_a_too_long_header_is_kept() {
    for (extra, decompressed) in [(2000u16, true), (3000, false)] {
        let mut header = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255];
        header.extend(extra.to_le_bytes());
        header.resize(header.len() + usize::from(extra), 7);
        let encoder = Encoder::Go(GoLevel::DEFAULT);
        let (blob, _) = gzip(&text(1, 400_000), &Recipe { header, encoder });
        let (lock, blobs) = example(&[blob]);
        let opened =
            analyze_gzip(&lock, &blobs, &Forgetful, 1, &Events::silent(), &|| false).unwrap();
        assert_eq!(opened.len(), usize::from(decompressed), "{extra}");
        let folder = tempfile::tempdir().unwrap();
        let bundle = pack(folder.path(), &lock, &arrange(&lock, &opened), &blobs);
        assert_gives(&bundle, &blobs);
    }
}

#[test]
fn recompression_to_other_bytes_is_detected() {
    let (lock, blobs, packed) = similar_programs();
    let mut opened =
        analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    opened.get_mut(&packed).unwrap().recipe = recipe(Encoder::Go(GoLevel::new(1).unwrap())).into();
    let folder = tempfile::tempdir().unwrap();
    let bundle = pack(folder.path(), &lock, &arrange(&lock, &opened), &blobs);
    bundle.verify(2, &Events::silent()).unwrap();
    let error = bundle
        .verify_recompressed(Recompressed::All, &Events::silent())
        .unwrap_err()
        .to_string();
    let _filters = crate::snapshots::filters();
    let error = error.replace(&packed.to_string(), "[packed]");
    insta::assert_snapshot!(error, @"
    [folder]/b.tar.zst: damaged: expected [packed], got sha256:15faf64f655e2c8637f5bea5b8c47b9ced23c3cfd0c4253363dd60980854b6f2
    hint: copy the bundle again
    ");
    let mut read = Vec::new();
    let error = bundle.open(&packed).unwrap().read_to_end(&mut read);
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn an_unknown_encoder_affects_only_its_blob() {
    let (lock, blobs, packed) = similar_programs();
    let mut opened =
        analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    let recipe = &mut opened.get_mut(&packed).unwrap().recipe;
    *recipe = GzipRecipe::Unknown {
        header: recipe.header().to_vec(),
        encoder: "later:3".to_owned(),
    };
    let folder = tempfile::tempdir().unwrap();
    let storage = arrange(&lock, &opened);
    let path = folder.path().join("b.tar.zst");
    // The later program proves that its encoder makes the blob.
    let options = PackOptions {
        proven: Some(&opened),
        ..OPTIONS
    };
    write(&path, &lock, &storage, &blobs, options, &Events::silent()).unwrap();
    let bundle = Bundle::open(&path).unwrap();
    assert!(*bundle.storage() == storage);

    bundle.verify(2, &Events::silent()).unwrap();
    let inside = all(bundle.open_content(&packed).unwrap());
    assert!(inside == all(flate2::read::GzDecoder::new(&blobs.0[&packed][..])));
    for (digest, blob) in blobs.0.iter().filter(|(digest, _)| **digest != packed) {
        assert!(all(bundle.open(digest).unwrap()) == *blob);
    }
    let path = bundle.path().display().to_string();
    let (code, words) = kubexm(&["bundle", "list", &path]);
    assert_eq!(code, Some(0), "{words}");

    let error = bundle.open(&packed).err().unwrap().to_string();
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(error.replace(&packed.to_string(), "[packed]"), @"
    [folder]/b.tar.zst: cannot read [packed]: this kubexm does not have its gzip encoder 'later:3'
    hint: use the kubexm that built the bundle, or a newer one
    ");
    let (code, words) = kubexm(&["bundle", "verify", &path]);
    assert_eq!(code, Some(3), "{words}");
    insta::assert_snapshot!(words.replace(&packed.to_string(), "[packed]"), @"
    verify [folder]/b.tar.zst: done, 2.29 MiB in [time]
    error: [folder]/b.tar.zst: 1 gzip blobs cannot be verified, the first is part0001 ([packed]): this kubexm does not have its gzip encoder 'later:3'
    hint: use the kubexm that built the bundle, or a newer one
    ");
    // A copy keeps the encoder's name, so that a kubexm that has it reads the blob.
    let copy = folder.path().join("copy.tar.zst");
    write(&copy, &lock, &storage, &bundle, OPTIONS, &Events::silent()).unwrap();
    assert!(*Bundle::open(&copy).unwrap().storage() == storage);
}

/// Adds up the progress of transfers.
#[derive(Default)]
struct Progress(Mutex<(u64, u64)>);

impl Listener for Progress {
    fn on(&self, event: &Event) {
        let mut progress = self.0.lock().unwrap();
        match event {
            Event::TransferStarted { total, .. } => progress.0 += total.unwrap(),
            Event::TransferAdvanced { bytes, .. } => progress.1 += bytes,
            _ => {}
        }
    }
}

#[test]
fn pack_progress_ends_at_its_total() {
    let (lock, blobs, _) = similar_programs();
    let opened = analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (storage, plain) = (arrange(&lock, &opened), Placement::plain(&lock));
    let decompressed = pack(folder.path(), &lock, &storage, &blobs);
    let path = folder.path().join("again.tar.zst");
    let sources: [&dyn Blobs; 2] = [&blobs, &decompressed];
    for (source, storage) in sources
        .into_iter()
        .flat_map(|s| [(s, &storage), (s, &plain)])
    {
        let progress = Arc::new(Progress::default());
        let events = Events::new(Arc::clone(&progress) as Arc<dyn Listener>);
        write(&path, &lock, storage, source, OPTIONS, &events).unwrap();
        let (total, done) = *progress.0.lock().unwrap();
        assert_eq!(done, total);
    }
}

#[test]
fn closed_reader_ends_the_stream() {
    let (lock, blobs, _) = similar_programs();
    let opened = analyze_gzip(&lock, &blobs, &Forgetful, 2, &Events::silent(), &|| false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = pack(folder.path(), &lock, &arrange(&lock, &opened), &blobs);
    let wanted: BTreeSet<Digest> = blobs.0.keys().copied().collect();
    let mut taken = 0;
    let error = bundle.stream(&wanted, &mut |_| {
        taken += 1;
        match taken {
            4 => Err(std::io::Error::other("the host is gone")),
            _ => Ok(()),
        }
    });
    assert_eq!(error.unwrap_err().to_string(), "the host is gone");
    assert_eq!(taken, 4);
    let unknown = BTreeSet::from([Digest::of(b"not in it")]);
    let error = bundle.stream(&unknown, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn recorded_encoder_is_reused_and_a_damaged_record_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let cache = kubexm_fetch::Cache::open(folder.path()).unwrap();
    let (blob, opened) = gzip(b"content", &recipe(Encoder::Go(GoLevel::DEFAULT)));
    let (blob, other) = (Digest::of(&blob), Digest::of(b"other"));
    assert_eq!(cache.recall(&blob), None);
    cache.keep(&blob, Some(&opened));
    cache.keep(&other, None);
    assert_eq!(cache.recall(&blob), Some(Some(opened)));
    assert_eq!(cache.recall(&other), Some(None));
    let note = |digest: &Digest| folder.path().join(format!("recipes/{}.json", digest.hex()));
    let text = std::fs::read(note(&blob)).unwrap();
    for damaged in [&text[..text.len() / 2], b"", b"null", b"{}"] {
        std::fs::write(note(&blob), damaged).unwrap();
        assert_eq!(cache.recall(&blob), None);
    }
    // The record of another blob is ignored as well.
    std::fs::write(note(&other), &text).unwrap();
    assert_eq!(cache.recall(&other), None);
}
