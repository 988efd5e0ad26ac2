//! What downloads are kept.

use super::*;

#[test]
fn the_cache_is_listed_verified_and_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let (lock, InMemory(blobs)) = alike(1, 5000);
    let needed = cache.insert(blobs.values().next().unwrap()).unwrap();
    let other = cache.insert(b"nobody needs this").unwrap();
    std::fs::write(folder.path().join("partial/abc"), "half").unwrap();
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
        said.contains("2 blobs") && said.contains("1 not complete"),
        "{said}"
    );

    let gc = ["cache", "gc", "--cache", &place, "--keep", &lock_file];
    let (_, said, _) = run(&[&gc[..], &["--dry-run"]].concat());
    assert!(said.contains("1 blobs would be removed"), "{said}");
    assert!(cache.size(&other).is_some(), "a dry run removed something");
    let (code, _, err) = run(&gc);
    assert_eq!(code, Some(0), "{err}");
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
