use std::fs;
use std::path::PathBuf;

use super::*;

/// A site with a base, as `kubectl kustomize` documents it.
fn site(folder: &Path) -> PathBuf {
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put(
        "base/kustomization.yaml",
        "resources: [shop.yaml]\nconfigMapGenerator: [{name: text, files: [texts/a.txt]}]\n",
    );
    put("base/texts/a.txt", "first");
    put(
        "base/shop.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: shop}\nspec: {template: {spec: {containers: [{name: shop, \
         image: registry.example/shop}]}}}\n",
    );
    put(
        "overlays/site/kustomization.yml",
        "resources: [../../base]\nnamespace: site\nimages: [{name: registry.example/shop, newTag: \"2\"}]\n\
         patches: [{path: replicas.yaml, target: {kind: Deployment}}]\n",
    );
    put(
        "overlays/site/replicas.yaml",
        "- {op: add, path: /spec/replicas, value: 3}\n",
    );
    folder.join("overlays/site")
}

fn refusal(folder: &Path, text: &str) -> String {
    fs::write(folder.join("kustomization.yaml"), text).unwrap();
    let error = Tree::of(folder).unwrap_err().to_string();
    error.replace(&folder.canonicalize().unwrap().display().to_string(), "DIR")
}

#[test]
fn kustomization_is_copied_with_its_bases_only() {
    let folder = tempfile::tempdir().unwrap();
    let overlay = site(folder.path());
    fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", overlay.join("link")).unwrap();
    fs::create_dir(overlay.join(".git")).unwrap();
    let tree = Tree::of(&overlay).unwrap();
    let workspace = Workspace::create("kubexm-test-").unwrap();
    let copy = tree.copy(&workspace).unwrap();
    let mut names: Vec<String> = fs::read_dir(&copy)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["kustomization.yml", "replicas.yaml"]);
    assert!(copy.join("../../base/texts/a.txt").is_file());
    assert!(!copy.join("../../secret").exists());
    let message = format!("accumulating {}/base: x", copy.join("../..").display());
    let message = message.replace("overlays/site/../../", "");
    let shown = tree.with_own_paths(&message, &workspace);
    let root = folder.path().canonicalize().unwrap();
    assert_eq!(shown, format!("accumulating {}/base: x", root.display()));
}

#[test]
fn entries_that_are_not_on_this_machine_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("empty")).unwrap();
    insta::assert_snapshot!(refusal(folder, "resources: ['https://x.example/install.yaml']"), @"
    DIR/kustomization.yaml: resources names 'https://x.example/install.yaml', and a build renders without a network
    hint: download it into a directory beside this file, and name that path here
    ");
    for remote in [
        "bases: [github.com/org/app//overlay?ref=v1]",
        "components: ['git@github.com:org/app']",
        "resources: ['https://user:pass@git.example/app.git']",
        "patches: [{path: 'https://x.example/patch.yaml'}]",
        "transformers: ['http://x.example/t.yaml']",
        "configMapGenerator: [{name: a, files: ['a.txt=https://x.example/a.txt']}]",
        "secretGenerator: [{name: a, env: 'https://x.example/a.env'}]",
        "openapi: {path: 'https://x.example/schema.json'}",
    ] {
        let error = refusal(folder, remote);
        assert!(error.contains("renders without a network"), "{error}");
        assert!(!error.contains("pass"), "{error}");
    }
    insta::assert_snapshot!(refusal(folder, "resources: [shop.yaml]"), @"
    DIR/kustomization.yaml: resources names 'shop.yaml', which does not exist
    hint: correct the path, which is relative to this file
    ");
    let error = refusal(folder, "resources: [empty]");
    assert!(
        error.contains("DIR/empty: has no kustomization.yaml"),
        "{error}"
    );
    let error = refusal(folder, "helmCharts: [{name: app}]");
    assert!(error.contains("name the chart in spec.charts"), "{error}");
    let error = refusal(folder, "transformers: [empty]");
    assert!(
        error.contains("DIR/empty: has no kustomization.yaml"),
        "{error}"
    );
    let error = refusal(folder, "resources: [");
    assert!(error.contains("is not valid YAML"), "{error}");
    insta::assert_snapshot!(refusal(folder, "images: []\nnamespace: a\nnamespace: b"), @"
    DIR/kustomization.yaml:3: the field 'namespace' is there twice
    hint: remove one of the two fields
    ");
}

/// As kustomize itself, which reads files of the directory and of directories below it.
#[test]
fn files_outside_of_the_directory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("site")).unwrap();
    fs::create_dir(folder.join("site/files")).unwrap();
    fs::write(folder.join("site/files/shop.yaml"), "kind: ConfigMap").unwrap();
    fs::write(folder.join("other.yaml"), "kind: Secret").unwrap();
    let site = folder.join("site");
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, site.join(name));
    link("files/shop.yaml", "inside.yaml").unwrap();
    link("../other.yaml", "outside.yaml").unwrap();
    fs::write(
        site.join("kustomization.yaml"),
        "resources: [inside.yaml]\n",
    )
    .unwrap();
    let tree = Tree::of(&site).unwrap();
    let workspace = Workspace::create("kubexm-test-").unwrap();
    let copy = tree.copy(&workspace).unwrap();
    let read = |name: &str| fs::read_to_string(copy.join(name)).ok();
    assert_eq!(read("inside.yaml").as_deref(), Some("kind: ConfigMap"));
    assert_eq!(read("outside.yaml"), None);
    let real = folder.canonicalize().unwrap().display().to_string();
    let error = refusal(&site, "resources: [outside.yaml]").replace(&real, "TMP");
    insta::assert_snapshot!(error, @"
    DIR/kustomization.yaml: resources names 'outside.yaml', which is TMP/other.yaml, outside of its directory
    hint: copy the file into the directory, or name the directory of another kustomization
    ");
    for outside in [
        "patches: [{path: outside.yaml}]",
        "secretGenerator: [{name: a, files: [key=../other.yaml]}]",
    ] {
        let error = refusal(&site, outside);
        assert!(error.contains("outside of its directory"), "{error}");
    }
}

#[test]
fn bases_that_name_each_other_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    for (name, base) in [("a", "../b"), ("b", "../a")] {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("Kustomization"), format!("resources: [{base}]")).unwrap();
    }
    let tree = Tree::of(&folder.path().join("a")).unwrap();
    let workspace = Workspace::create("kubexm-test-").unwrap();
    assert!(tree.copy(&workspace).unwrap().ends_with("kustomization/a"));
}

#[tokio::test]
#[ignore = "needs the programs of tests/lab/upstream/build"]
async fn real_kubectl_renders_an_overlay() {
    let cache = std::env::var_os("KUBEXM_LAB_CACHE").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kubexm-lab"),
        PathBuf::from,
    );
    let kubectl = Kubectl(Unpacked {
        program: cache.join("upstream/bin/kubernetes-1.36.3/kubectl"),
        _workspace: Workspace::create("kubexm-test-").unwrap(),
    });
    let folder = tempfile::tempdir().unwrap();
    let overlay = site(folder.path());
    let render = async || render(&overlay, Some(&kubectl), &Sandbox::Off).await;
    let text = String::from_utf8(render().await.unwrap()).unwrap();
    for expected in [
        "image: registry.example/shop:2",
        "namespace: site",
        "replicas: 3",
        "a.txt: first",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    fs::write(overlay.join("replicas.yaml"), "- {op: none}").unwrap();
    let error = render().await.unwrap_err().to_string();
    assert!(error.contains("kubectl kustomize failed ("), "{error}");
    assert!(error.contains("Unexpected kind"), "{error}");
}
