//! What a build refuses in charts and manifests.

use std::fs;

use kubexm_config::Mirrors;
use kubexm_types::event::Events;

use super::*;
use crate::cache::Cache;

/// Returns the error of a build with this content of a directory.
async fn refusal(files: &[(&str, &str)], kind: ArtifactKind, name: &str) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (name, text) in files {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
    }
    let cache = Cache::open(&at("cache")).unwrap();
    let http = Http::new(Mirrors::default(), cache, Events::silent()).unwrap();
    let fetcher = ArtifactFetcher {
        http: &http,
        previous: None,
        kubernetes: None,
        renderers: Renderers::default(),
        values: &BTreeMap::new(),
        paths: &[],
    };
    let mut source = ArtifactSource::new(kind, ArtifactLocation::Path(at(name)));
    source.values = Some(at("values.yaml"))
        .filter(|file| file.is_file())
        .into_iter()
        .collect();
    let error = fetcher.fetch(&source).await.unwrap_err().to_string();
    error.replace(&folder.path().display().to_string(), "DIR")
}

/// As Helm itself, also if a condition switches the dependency off.
#[tokio::test]
async fn chart_without_its_dependencies_is_refused() {
    let about = "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n  - {name: folder, version: 1.0.0}\n  \
         - {name: gone, version: 1.0.0, condition: gone.enabled}\n";
    let part = "apiVersion: v2\nname: folder\nversion: 1.0.0\n";
    let files = [
        ("shop/Chart.yaml", about),
        ("shop/charts/other-name/Chart.yaml", part),
    ];
    insta::assert_snapshot!(refusal(&files, ArtifactKind::Chart, "shop").await, @"
    DIR/shop: does not have all of its dependencies in the directory charts: gone
    hint: run `helm dependency build` in the directory of the chart; a packed chart then needs `helm package`
    ");
}

#[tokio::test]
async fn field_that_is_there_twice_is_refused_with_its_line() {
    let manifest = "kind: ConfigMap\nmetadata: {name: a}\n--- # another\n# text\nkind: Secret\nmetadata:\n  name: b\n  name: c\n";
    let files = [("app.yaml", manifest)];
    insta::assert_snapshot!(refusal(&files, ArtifactKind::Manifest, "app.yaml").await, @"
    app.yaml:8: the field 'name' is there twice
    hint: remove one of the two fields
    ");
    let files = [
        ("shop/Chart.yaml", "name: shop\nversion: 1.0.0\n"),
        ("values.yaml", "image: {tag: 1}\nimage: {tag: 2}\n"),
    ];
    insta::assert_snapshot!(refusal(&files, ArtifactKind::Chart, "shop").await, @"
    DIR/values.yaml:2: the field 'image' is there twice
    hint: remove one of the two fields
    ");
}
