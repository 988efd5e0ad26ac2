//! What downloads are kept.

use super::*;
use kubexm::fetch::record::Version;

#[test]
fn the_cache_is_listed_verified_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let (lock, InMemory(blobs)) = alike(1, 5000);
    let needed = cache.insert(blobs.values().next().unwrap()).unwrap();
    let other = cache.insert(b"nobody needs this").unwrap();
    let half = Digest::of(b"what the lock does not name");
    let partial = cache.partial(&half.hex()).unwrap();
    let version = Version {
        total: Some(4000),
        ..Version::default()
    };
    partial.set_version(version).unwrap();
    partial.write(0, &[1; 1000]).unwrap();
    partial.write(3000, &[1; 500]).unwrap();
    drop(partial);
    let place = folder.path().display().to_string();
    let lock_file = folder.path().join("b.lock.yaml");
    std::fs::write(&lock_file, serde_saphyr::to_string(&lock).unwrap()).unwrap();
    let lock_file = lock_file.display().to_string();

    let (code, said, _) = run(&["cache", "ls", "--cache", &place]);
    assert_eq!(code, Some(0));
    assert!(
        said.contains(&needed.to_string()) && said.contains(&other.to_string()),
        "{said}"
    );
    assert!(
        said.contains("2 blobs")
            && said.contains("1 not complete")
            && said.contains("1.46 KiB")
            && said.contains("(not complete of 3.91 KiB)"),
        "{said}"
    );

    let gc = ["cache", "gc", "--cache", &place, "--keep", &lock_file];
    let (_, said, _) = run(&[&gc[..], &["--dry-run"]].concat());
    assert!(
        said.contains("1 blobs and 1 incomplete downloads would be removed"),
        "{said}"
    );
    assert!(cache.size(&other).is_some(), "a dry run removed something");
    // A build that is at it keeps its download.
    let at_work = cache.partial(&half.hex()).unwrap();
    assert_eq!(at_work.length(), 1500);
    let (code, said, err) = run(&gc);
    assert_eq!(code, Some(0), "{err}");
    assert!(said.contains("and 0 incomplete"), "{said}");
    drop(at_work);
    assert_eq!(names(&folder.path().join("partial")).len(), 2);
    let (_, said, _) = run(&gc);
    assert!(said.contains("and 1 incomplete"), "{said}");
    assert_eq!(names(&folder.path().join("partial")), [""; 0]);
    assert!(cache.size(&other).is_none() && cache.size(&needed).is_some());
    let (code, _, err) = run(&[
        "cache",
        "gc",
        "--cache",
        &place,
        "--keep",
        "/no/such.lock.yaml",
    ]);
    assert!(
        code == Some(2) && err.contains("/no/such.lock.yaml"),
        "{err}"
    );
    assert!(
        cache.size(&needed).is_some(),
        "a lock that cannot be read counts as none"
    );

    assert_eq!(run(&["cache", "verify", "--cache", &place]).0, Some(0));
    std::fs::write(cache.path(&needed), "changed").unwrap();
    let (code, _, err) = run(&["cache", "verify", "--cache", &place]);
    assert!(code == Some(3) && err.contains(&needed.hex()), "{err}");
    assert!(
        cache.size(&needed).is_none(),
        "what was changed is still there"
    );
}
