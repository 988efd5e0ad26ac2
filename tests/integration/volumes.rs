//! Bundles in volumes: split anywhere, they give what the whole one gives; what is missing or damaged
//! is named.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_bundle::medium::{list_path, volume_path};
use kubexm_bundle::{Access, Bundle, Level, PackOptions};
use kubexm_types::event::Events;

use crate::example::{InMemory, assert_holds, example, kubexm, text, write_plain};

fn split(path: &Path, contents: &[Vec<u8>], volume: u64) -> InMemory {
    let (lock, blobs) = example(contents);
    let options = PackOptions {
        volume: Some(volume),
        ..PackOptions::new(Level::FAST, 1)
    };
    write_plain(path, &lock, &blobs, options).unwrap();
    blobs
}

fn some() -> Vec<Vec<u8>> {
    (0..5).map(|seed| text(seed, 40_000)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn joined(path: &Path) -> Vec<u8> {
    let volumes = (1..).map(|number| volume_path(path, number));
    volumes
        .take_while(|volume| volume.exists())
        .flat_map(|volume| std::fs::read(volume).unwrap())
        .collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn any_split_gives_what_went_in(
        lengths in proptest::collection::vec(0usize..5000, 1..8),
        volume in 1u64..9000,
        other in 1u64..9000,
    ) {
        let contents: Vec<Vec<u8>> = (0..).zip(&lengths).map(|(at, len)| text(at, *len)).collect();
        let folder = tempfile::tempdir().unwrap();
        // A volume a byte would be a file a byte: some thousand are enough.
        let volume = volume.max(lengths.iter().sum::<usize>() as u64 / 400 + 7);
        let (whole, parts) = (folder.path().join("w.tar.zst"), folder.path().join("p.tar.zst"));
        let (lock, blobs) = example(&contents);
        write_plain(&whole, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
        split(&parts, &contents, volume);
        assert!(joined(&parts) == std::fs::read(&whole).unwrap(), "the same bytes, cut");

        let bundle = Bundle::open(&parts).unwrap();
        bundle.verify(2, &Events::silent()).unwrap();
        assert_holds(&bundle, &blobs);

        // Split anew, and joined again.
        let again = folder.path().join("again").join("p.tar.zst");
        let resplit = |from: &Path, to: &Path, volume| {
            let from = Bundle::open(from).unwrap();
            kubexm_bundle::rewrite::resplit(&from, to, volume, &Events::silent(), &|| false)
        };
        resplit(&parts, &again, Some(other.max(volume / 2))).unwrap();
        assert_holds(&Bundle::open(&again).unwrap(), &blobs);
        let once = folder.path().join("once.tar.zst");
        resplit(&again, &once, None).unwrap();
        assert!(std::fs::read(&once).unwrap() == std::fs::read(&whole).unwrap(), "joined");
    }
}

#[test]
fn every_way_to_name_a_split_bundle_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 8192);
    for name in [
        path.clone(),
        volume_path(&path, 1),
        volume_path(&path, 3),
        list_path(&path),
    ] {
        let (code, words) = kubexm(&["bundle", "verify", &shown(&name)]);
        assert_eq!(code, Some(0), "{words}");
    }
    let (code, words) = kubexm(&["bundle", "verify", &shown(&volume_path(&path, 99))]);
    assert!(code == Some(3) && words.contains("no such file"), "{words}");
    let (_, words) = kubexm(&["bundle", "inspect", &shown(&path)]);
    assert!(words.contains("volumes"), "{words}");
}

#[test]
fn coreutils_check_and_join_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 8192);
    let script =
        "sha256sum --check --quiet --strict b.tar.zst.sha256 && cat b.tar.zst.??? > joined";
    let mut shell = Command::new("sh");
    let status = shell
        .args(["-ec", script])
        .current_dir(folder.path())
        .status();
    assert!(status.unwrap().success());
    Bundle::open(&folder.path().join("joined"))
        .unwrap()
        .verify(1, &Events::silent())
        .unwrap();
}

#[test]
fn volumes_on_several_sticks_are_one_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let blobs = split(&path, &some(), 30_000);
    let stick = folder.path().join("stick");
    std::fs::create_dir(&stick).unwrap();
    std::fs::rename(
        volume_path(&path, 2),
        volume_path(&stick.join("b.tar.zst"), 2),
    )
    .unwrap();
    let access = Access {
        folders: vec![stick.clone()],
        ..Access::default()
    };
    assert_holds(&Bundle::open_with(&path, &access).unwrap(), &blobs);
    let (code, words) = kubexm(&[
        "bundle",
        "verify",
        &shown(&path),
        "--volumes",
        &shown(&stick),
    ]);
    assert_eq!(code, Some(0), "{words}");
}

#[test]
fn a_volume_that_is_missing_short_or_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 30_000);
    let count = (1..)
        .take_while(|n| volume_path(&path, *n).exists())
        .count();
    assert!(count > 3, "{count}");
    for number in 1..=count {
        let volume = volume_path(&path, number);
        let content = std::fs::read(&volume).unwrap();
        let refused = |what: &str| {
            let (code, words) = kubexm(&["bundle", "verify", &shown(&path)]);
            assert_eq!(code, Some(3), "{what} {number}: {words}");
            assert!(words.contains(&shown(&volume)), "{what} {number}: {words}");
        };
        std::fs::remove_file(&volume).unwrap();
        refused("missing");
        std::fs::write(&volume, &content[..content.len() / 2]).unwrap();
        if number < count {
            refused("short");
        }
        let mut changed = content.clone();
        changed[content.len() / 2] ^= 1;
        std::fs::write(&volume, &changed).unwrap();
        let (code, words) = kubexm(&["bundle", "verify", "--alone", &shown(&volume)]);
        assert!(code == Some(3) && words.contains("is damaged"), "{words}");
        // The first and the last hold what a bundle opens by, which says for itself what is wrong.
        if number > 1 && number < count {
            refused("damaged");
        }
        std::fs::write(&volume, &content).unwrap();
        let (code, words) = kubexm(&["bundle", "verify", "--alone", &shown(&volume)]);
        assert_eq!(code, Some(0), "{words}");
    }
    // Without the list, the bundle's own table tells that something follows.
    std::fs::remove_file(list_path(&path)).unwrap();
    assert_eq!(kubexm(&["bundle", "verify", &shown(&path)]).0, Some(0));
    std::fs::remove_file(volume_path(&path, count)).unwrap();
    let (code, words) = kubexm(&["bundle", "verify", &shown(&path)]);
    assert_eq!(code, Some(3));
    assert!(words.contains("copy the volumes that follow"), "{words}");
}

#[test]
fn a_bundle_that_is_written_again_leaves_nothing_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 8192);
    split(&path, &some(), 60_000);
    let volumes = names(folder.path());
    assert!(volumes.len() < 8, "{volumes:?}");
    Bundle::open(&path)
        .unwrap()
        .verify(1, &Events::silent())
        .unwrap();
    let (lock, blobs) = example(&some());
    write_plain(&path, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
    assert_eq!(names(folder.path()), ["b.tar.zst"]);
    split(&path, &some(), 60_000);
    assert_eq!(names(folder.path()), volumes);
}

#[test]
fn the_command_line_splits_and_joins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let (lock, blobs) = example(&some());
    write_plain(&path, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
    let out: PathBuf = folder.path().join("stick");
    let (code, words) = kubexm(&[
        "bundle",
        "split",
        &shown(&path),
        "--size",
        "32KiB",
        "-o",
        &shown(&out),
    ]);
    assert_eq!(code, Some(0), "{words}");
    assert!(path.exists(), "what is split stays");
    let first = volume_path(&out.join("b.tar.zst"), 1);
    assert!(words.contains(&shown(&first)), "{words}");
    let whole = folder.path().join("joined.tar.zst");
    let (code, words) = kubexm(&["bundle", "join", &shown(&first), "-o", &shown(&whole)]);
    assert_eq!(code, Some(0), "{words}");
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&path).unwrap());
    let second = volume_path(&out.join("b.tar.zst"), 2);
    let mut content = std::fs::read(&second).unwrap();
    content[9] ^= 4;
    std::fs::write(&second, content).unwrap();
    std::fs::remove_file(&whole).unwrap();
    let (code, words) = kubexm(&["bundle", "join", &shown(&first), "-o", &shown(&whole)]);
    assert!(
        code == Some(3) && words.contains(&shown(&second)),
        "{words}"
    );
    assert!(!whole.exists());
    let (code, words) = kubexm(&[
        "bundle",
        "split",
        &shown(&path),
        "--size",
        "much",
        "-o",
        &shown(&out),
    ]);
    assert!(code == Some(2) && words.contains("as in 4GiB"), "{words}");
}

#[test]
fn what_a_killed_program_left_goes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let old = |name: &str| {
        let file = std::fs::File::create(at(name)).unwrap();
        file.set_modified(hour_ago).unwrap();
        file
    };
    drop(old(".kubexm-bundle-left.partial"));
    drop(old("notes.partial"));
    let held = old(".kubexm-bundle-held.partial");
    held.lock().unwrap();
    std::fs::write(at(".kubexm-bundle-young.partial"), "").unwrap();
    let (lock, blobs) = example(&some());
    write_plain(
        &at("b.tar.zst"),
        &lock,
        &blobs,
        PackOptions::new(Level::FAST, 1),
    )
    .unwrap();
    assert_eq!(
        names(folder.path()),
        [
            ".kubexm-bundle-held.partial",
            ".kubexm-bundle-young.partial",
            "b.tar.zst",
            "notes.partial"
        ]
    );
}

#[test]
fn programs_get_events_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 60_000);
    let out = folder.path().join("joined.tar.zst");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
    command.args([
        "bundle",
        "join",
        &shown(&path),
        "-o",
        &shown(&out),
        "--output",
        "json",
    ]);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let written = lines
        .iter()
        .find(|line| line["event"] == "written")
        .unwrap();
    assert_eq!(written["path"], shown(&out));
    assert_eq!(written["size"], std::fs::metadata(&out).unwrap().len());
    assert_eq!(lines.last().unwrap()["event"], "end");
}
