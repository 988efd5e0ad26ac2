//! Bundles in volumes: volumes of any size have the content of the whole bundle, and missing or damaged ones
//! are named.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubexm_bundle::format::volumes::{list_path, volume_path};
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
    fn blobs_are_unchanged_for_every_volume_size(
        lengths in proptest::collection::vec(0usize..5000, 1..8),
        volume in 1u64..9000,
        other in 1u64..9000,
    ) {
        let contents: Vec<Vec<u8>> = (0..).zip(&lengths).map(|(at, len)| text(at, *len)).collect();
        let folder = tempfile::tempdir().unwrap();
        // A limit, because a volume size of one byte would write a file per byte.
        let volume = volume.max(lengths.iter().sum::<usize>() as u64 / 400 + 7);
        let (whole, parts) = (folder.path().join("w.tar.zst"), folder.path().join("p.tar.zst"));
        let (lock, blobs) = example(&contents);
        write_plain(&whole, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
        split(&parts, &contents, volume);
        assert!(joined(&parts) == std::fs::read(&whole).unwrap(), "the same bytes, cut");

        let bundle = Bundle::open(&parts).unwrap();
        bundle.verify(2, &Events::silent()).unwrap();
        assert_holds(&bundle, &blobs);

        // Split again, and joined.
        let again = folder.path().join("again").join("p.tar.zst");
        let resplit = |from: &Path, to: &Path, volume| {
            let from = Bundle::open(from).unwrap();
            kubexm_bundle::write::rewrite::resplit(&from, to, volume, &Events::silent(), &|| false)
        };
        resplit(&parts, &again, Some(other.max(volume / 2))).unwrap();
        assert_holds(&Bundle::open(&again).unwrap(), &blobs);
        let once = folder.path().join("once.tar.zst");
        resplit(&again, &once, None).unwrap();
        assert!(std::fs::read(&once).unwrap() == std::fs::read(&whole).unwrap(), "joined");
    }
}

#[test]
fn split_bundle_opens_by_each_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 8192);
    for name in [
        path.clone(),
        volume_path(&path, 1),
        volume_path(&path, 3),
        list_path(&path),
    ] {
        let (code, printed) = kubexm(&["bundle", "verify", &shown(&name)]);
        assert_eq!(code, Some(0), "{printed}");
    }
    let (code, printed) = kubexm(&["bundle", "verify", &shown(&volume_path(&path, 99))]);
    assert_eq!(code, Some(3));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    error: [folder]/b.tar.zst.099: the bundle does not exist
    hint: give the path of a bundle that `kubexm bundle build` wrote
    ");
    let (_, printed) = kubexm(&["bundle", "inspect", &shown(&path)]);
    insta::assert_snapshot!(printed, @"
    example ([folder]/b.tar.zst)
      size           97.11 KiB
      volumes        13
      signature      none
      lock           sha256:c821fc2c7eb56d282b9166aa83aa257ef42885396e914d14eabc52db11ab16c0
      kubernetes     1.36.3
      architectures  amd64
      files          5
      images         0
      trust          5 files: digest in the bundle manifest
        file part0000 1.0.0 amd64
        file part0001 1.0.0 amd64
        file part0002 1.0.0 amd64
        file part0003 1.0.0 amd64
        file part0004 1.0.0 amd64
    ");
}

#[test]
fn directory_with_one_bundle_is_this_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let stick = folder.path().join("stick.sha256");
    std::fs::create_dir(&stick).unwrap();
    let verify = || kubexm(&["bundle", "verify", &shown(&stick)]);
    let nothing = verify();
    split(&stick.join("b.tar.zst"), &some(), 8192);
    std::fs::write(stick.join("._c.tar.zst"), "of another system").unwrap();
    std::fs::write(stick.join("readme.txt"), "").unwrap();
    let (code, printed) = verify();
    assert_eq!(code, Some(0), "{printed}");
    std::fs::remove_file(volume_path(&stick.join("b.tar.zst"), 2)).unwrap();
    let missing = verify();
    std::fs::write(stick.join("a.tar.zst"), "").unwrap();
    let several = verify();
    let all = [nothing, missing, several].map(|(code, printed)| {
        assert_eq!(code, Some(3), "{printed}");
        printed
    });
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all.concat(), @"
    error: [folder]/stick.sha256: this directory does not contain a bundle (a file that ends with .tar.zst, or its volumes)
    hint: give the path of a bundle, as in bundles/kubernetes-1.36.tar.zst
    error: [folder]/stick.sha256/b.tar.zst.002: this volume of the bundle is missing
    hint: copy it into the directory of the others, or name its directory with --volumes
    error: [folder]/stick.sha256: this directory contains several bundles: a.tar.zst, b.tar.zst
    hint: give the path of one of them
    ");
}

#[test]
fn sha256sum_and_cat_check_and_join_volumes() {
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
fn volumes_in_several_directories_are_one_bundle() {
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
    let (code, printed) = kubexm(&[
        "bundle",
        "verify",
        &shown(&path),
        "--volumes",
        &shown(&stick),
    ]);
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn missing_short_and_damaged_volumes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    split(&path, &some(), 30_000);
    let count = (1..)
        .take_while(|n| volume_path(&path, *n).exists())
        .count();
    assert!(count > 3, "{count}");
    let mut alone = String::new();
    let mut all = String::new();
    for number in 1..=count {
        let volume = volume_path(&path, number);
        let content = std::fs::read(&volume).unwrap();
        let mut refused = |what: &str| {
            let (code, printed) = kubexm(&["bundle", "verify", &shown(&path)]);
            assert_eq!(code, Some(3), "{what} {number}: {printed}");
            assert!(
                printed.contains(&shown(&volume)),
                "{what} {number}: {printed}"
            );
            all += &format!("=== {what} {number}\n{printed}");
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
        let (code, printed) = kubexm(&["bundle", "verify", "--volume-only", &shown(&volume)]);
        assert_eq!(code, Some(3));
        alone += &printed;
        // The first and the last volume have the structures with which a bundle is opened; these have their
        // own errors.
        if number > 1 && number < count {
            refused("damaged");
        }
        std::fs::write(&volume, &content).unwrap();
        let (code, printed) = kubexm(&["bundle", "verify", "--volume-only", &shown(&volume)]);
        assert_eq!(code, Some(0), "{printed}");
    }
    // Without the list, the seek table of the bundle shows that a volume follows.
    std::fs::remove_file(list_path(&path)).unwrap();
    assert_eq!(kubexm(&["bundle", "verify", &shown(&path)]).0, Some(0));
    std::fs::remove_file(volume_path(&path, count)).unwrap();
    let (code, printed) = kubexm(&["bundle", "verify", &shown(&path)]);
    assert_eq!(code, Some(3));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    error: [folder]/b.tar.zst: the bundle ends too early, after [folder]/b.tar.zst.003
    hint: copy the volumes that follow, and their list, beside it
    ");
    insta::assert_snapshot!(all, @"
    === missing 1
    error: [folder]/b.tar.zst.001: this volume of the bundle is missing
    hint: copy it into the directory of the others, or name its directory with --volumes
    === short 1
    error: [folder]/b.tar.zst.001: this volume has 15000 bytes, and the others have 30000
    hint: copy it again
    === missing 2
    error: [folder]/b.tar.zst.002: this volume of the bundle is missing
    hint: copy it into the directory of the others, or name its directory with --volumes
    === short 2
    error: [folder]/b.tar.zst.002: this volume has 15000 bytes, and the others have 30000
    hint: copy it again
    === damaged 2
    verify [folder]/b.tar.zst: stopped, [size] in [time]
    error: [folder]/b.tar.zst: 1 of 6 parts are damaged:
      part0002 (sha256:30db83200b7da7b562c673754671f2184debbaa53da78b7f47fb85923c066c9d): damaged: expected sha256:30db83200b7da7b562c673754671f2184debbaa53da78b7f47fb85923c066c9d, got sha256:9ca2ff08137bf47f279f807feee01666092fa1a227b6deed51672db35ca9f502
      [folder]/b.tar.zst.002: this volume is damaged
    hint: copy the bundle again
    === missing 3
    error: [folder]/b.tar.zst.003: this volume of the bundle is missing
    hint: copy it into the directory of the others, or name its directory with --volumes
    === short 3
    error: [folder]/b.tar.zst.003: this volume has 15000 bytes, and the others have 30000
    hint: copy it again
    === damaged 3
    verify [folder]/b.tar.zst: stopped, [size] in [time]
    error: [folder]/b.tar.zst: 1 of 6 parts are damaged:
      part0003 (sha256:57444edf3f1091d8d93562f211952b741e59b4f8205ee635959f867733fe35bd): damaged: expected sha256:57444edf3f1091d8d93562f211952b741e59b4f8205ee635959f867733fe35bd, got sha256:9c1e9914a2737b2bcc753c4b2c97fe83ea7ffcf3eb3e36171ce61237fc24406a
      [folder]/b.tar.zst.003: this volume is damaged
    hint: copy the bundle again
    === missing 4
    error: [folder]/b.tar.zst.004: this volume of the bundle is missing
    hint: copy it into the directory of the others, or name its directory with --volumes
    ");
    insta::assert_snapshot!(alone, @"
    error: [folder]/b.tar.zst.001: this volume is damaged
    hint: copy it again
    error: [folder]/b.tar.zst.002: this volume is damaged
    hint: copy it again
    error: [folder]/b.tar.zst.003: this volume is damaged
    hint: copy it again
    error: [folder]/b.tar.zst.004: this volume is damaged
    hint: copy it again
    ");
}

#[test]
fn rewritten_bundle_leaves_no_volume_of_the_former() {
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
fn split_and_join_commands_reproduce_the_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let (lock, blobs) = example(&some());
    write_plain(&path, &lock, &blobs, PackOptions::new(Level::FAST, 1)).unwrap();
    let out: PathBuf = folder.path().join("stick");
    let (code, printed) = kubexm(&[
        "bundle",
        "split",
        &shown(&path),
        "--size",
        "32KiB",
        "-o",
        &shown(&out),
    ]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(path.exists(), "what is split stays");
    let first = volume_path(&out.join("b.tar.zst"), 1);
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(printed, @"
    [folder]/stick/b.tar.zst.001 and on: 4 volumes
      list     [folder]/stick/b.tar.zst.sha256
      size     97.11 KiB
      sha256   c4e198d0bc90bac9cc5038922603d7aa213777db8dc61f3c5019deb1e643f2a0
    copy [folder]/stick/b.tar.zst: done, 97.11 KiB in [time]
    ");
    let whole = folder.path().join("joined.tar.zst");
    let (code, printed) = kubexm(&["bundle", "join", &shown(&first), "-o", &shown(&whole)]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&path).unwrap());
    let second = volume_path(&out.join("b.tar.zst"), 2);
    let mut content = std::fs::read(&second).unwrap();
    content[9] ^= 4;
    std::fs::write(&second, content).unwrap();
    std::fs::remove_file(&whole).unwrap();
    let (code, printed) = kubexm(&["bundle", "join", &shown(&first), "-o", &shown(&whole)]);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(printed, @"
    copy [folder]/joined.tar.zst: stopped, [size] in [time]
    error: [folder]/stick/b.tar.zst.002: this volume is damaged
    hint: copy it again
    ");
    assert!(!whole.exists());
    let (code, printed) = kubexm(&[
        "bundle",
        "split",
        &shown(&path),
        "--size",
        "much",
        "-o",
        &shown(&out),
    ]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(printed, @"
    error: invalid value 'much' for '--size <SIZE>': expected a size such as 4GiB or 650MB

    For more information, try '--help'.
    ");
}

#[test]
fn remains_of_a_killed_split_are_deleted_and_nothing_else() {
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
fn json_output_of_split_has_only_events() {
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
