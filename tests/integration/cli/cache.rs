//! `kubexm cache`.

use super::*;
use kubexm_fetch::record::Version;

#[test]
fn cache_is_listed_verified_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let (lock, InMemory(blobs)) = alike(1, 5000);
    let needed = cache.insert(blobs.values().next().unwrap()).unwrap();
    let other = cache.insert(b"an unused content").unwrap();
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
    let _filters = filters();
    insta::assert_snapshot!(said, @"
       4.88 KiB sha256:120017acd130c8bdd23380b6f6bcd3f64a713875365b0eb1a08220fe85268d5b
           17 B sha256:6d5aa7f3f403400cb8009874fa20ffcee08852a4785106e3fcea45d24b7c3c19
       1.46 KiB [folder]/partial/93a61345bcd8ff4fa88d162b78e69dd08b5d7363ee953dbb1a211ca864c860bd (not complete of 3.91 KiB)
    2 blobs, 4.90 KiB; 1 not complete
    ");

    let gc = ["cache", "gc", "--cache", &place, "--keep", &lock_file];
    let (_, said, _) = run(&[&gc[..], &["--dry-run"]].concat());
    insta::assert_snapshot!(said, @"1 blobs and 1 incomplete downloads would be removed, 1.48 KiB");
    assert!(cache.size(&other).is_some(), "a dry run removed something");
    // The download of a running build is kept.
    let at_work = cache.partial(&half.hex()).unwrap();
    assert_eq!(at_work.length(), 1500);
    let (code, said, err) = run(&gc);
    assert_eq!(code, Some(0), "{err}");
    insta::assert_snapshot!(said, @"1 blobs and 0 incomplete downloads removed, 17 B");
    drop(at_work);
    assert_eq!(names(&folder.path().join("partial")).len(), 2);
    let (_, said, _) = run(&gc);
    insta::assert_snapshot!(said, @"0 blobs and 1 incomplete downloads removed, 1.46 KiB");
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
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(err, @"
    error: cannot read the lock /no/such.lock.yaml: there is no such file
    hint: `kubexm bundle build` writes NAME.lock.yaml beside NAME.tar.zst, and `kubexm bundle lock` writes a lock
    ");
    assert!(
        cache.size(&needed).is_some(),
        "a lock that cannot be read counts as none"
    );

    assert_eq!(run(&["cache", "verify", "--cache", &place]).0, Some(0));
    std::fs::write(cache.path(&needed), "changed").unwrap();
    let (code, _, err) = run(&["cache", "verify", "--cache", &place]);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"
    error: 1 of 1 blobs were damaged and were removed; the next build downloads them again
      [folder]/blobs/sha256/120017acd130c8bdd23380b6f6bcd3f64a713875365b0eb1a08220fe85268d5b
    ");
    assert!(
        cache.size(&needed).is_none(),
        "what was changed is still there"
    );
}
