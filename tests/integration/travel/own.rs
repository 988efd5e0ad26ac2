//! Artifacts of the user in a bundle: added, found and removed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use kubexm_bundle::read::verify::Recompressed;
use kubexm_bundle::{Blobs, Bundle};
use kubexm_types::ImageRef;
use wiremock::MockServer;

use super::charts::{answer, chart};
use super::*;

const WEB: &str = "apps.example/team/web:1.0";
const JOB: &str = "apps.example/team/job:2.0";

/// A test server for the registry `apps.example`, with two images.
async fn apps() -> MockServer {
    let server = MockServer::start().await;
    let mut blobs = InMemory::default();
    for (name, seed) in [(WEB, 11), (JOB, 12)] {
        let both = vec![
            platform(&mut blobs, OCI, Arch::Amd64, seed),
            platform(&mut blobs, OCI, Arch::Arm64, seed + 10),
        ];
        let image = indexed(&mut blobs, name, both, true);
        let name: ImageRef = name.parse().unwrap();
        let top = blobs.0[&image.manifest.digest].clone();
        let kind = format!("{OCI}.index.v1+json");
        let by_tag = format!(
            "/v2/{}/manifests/{}",
            name.repository(),
            name.tag().unwrap()
        );
        answer(&server, &by_tag, top, &kind).await;
        for platform in &image.platforms {
            let manifest = &platform.manifest;
            let place = format!("/v2/{}/manifests/{}", name.repository(), manifest.digest);
            let content = blobs.0[&manifest.digest].clone();
            answer(&server, &place, content, &manifest.media_type).await;
            for blob in &platform.blobs {
                let place = format!("/v2/{}/blobs/{}", name.repository(), blob.digest);
                let content = blobs.0[&blob.digest].clone();
                answer(&server, &place, content, "application/octet-stream").await;
            }
        }
    }
    server
}

/// Replacements of helm and kubectl in a directory: helm prints a rendered chart, and kubectl a file of a kustomization.
fn helm(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--values*/broken.yaml*) echo 'Error: no such value' >&2; exit 1;; esac\n\
         printf 'kind: Job\\nmetadata: {{name: j}}\\nspec: {{template: {{spec: {{containers: [{{name: main, image: \"{JOB}\"}}]}}}}}}\\n'\n"
    );
    let kubectl = "#!/bin/sh\n[ \"$1\" = kustomize ] && exec cat \"$2/app.yaml\"\n";
    for (name, script) in [("helm", script.as_str()), ("kubectl", kubectl)] {
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    bin
}

struct Site {
    folder: tempfile::TempDir,
    bundle: String,
    _apps: MockServer,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let apps = apps().await;
        let (path, _, _) = bundle(folder.path());
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        file(
            "mirrors.yaml",
            &format!(
                "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\nchecksums: mirror\nregistries: {{apps.example: \"{}\"}}\n",
                apps.uri()
            ),
        );
        file(
            "app.yaml",
            &format!(
                "kind: Deployment\nmetadata: {{name: web}}\nspec: {{template: {{spec: {{containers: [{{name: web, image: \"{WEB}\"}}]}}}}}}\n---\nkind: Pod\nmetadata: {{name: bare}}\nspec: {{containers: [{{name: c, image: nginx}}]}}\n"
            ),
        );
        std::fs::write(folder.path().join("own.tgz"), chart()).unwrap();
        helm(folder.path());
        let bundle = path.display().to_string();
        Self {
            folder,
            bundle,
            _apps: apps,
        }
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `kubexm bundle …` with the cache and the helm of this directory.
    fn run(&self, arguments: &[&str], with_helm: bool) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubexm"));
        let helm = if with_helm {
            self.at("bin")
        } else {
            self.at("nothing")
        };
        let output = command
            .arg("bundle")
            .args(arguments)
            .args(["--cache", &self.at("cache")])
            .env("PATH", format!("{helm}:/nowhere"))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn add(&self, more: &[&str], with_helm: bool) -> (Option<i32>, String, String) {
        let mirrors = self.at("mirrors.yaml");
        self.run(
            &[&["add", &self.bundle, "--mirrors", &mirrors], more].concat(),
            with_helm,
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_of_applications_has_no_kubernetes() {
    let site = Site::new().await;
    let (manifest, apps) = (site.at("apps.yaml"), site.at("apps.tar.zst"));
    let text = format!(
        "apiVersion: kubexm.io/v1alpha1\nkind: Bundle\nmetadata: {{name: apps}}\n\
         spec: {{architectures: [amd64], images: [\"{JOB}\"], manifests: [app.yaml]}}\n"
    );
    std::fs::write(&manifest, text).unwrap();
    let mirrors = site.at("mirrors.yaml");
    let build = ["build", "-f", &manifest, "--mirrors", &mirrors, "-o", &apps];
    let (code, _, err) = site.run(&build, false);
    assert_eq!(code, Some(0), "{err}");
    let (_, listed, _) = kubexm(&["bundle", "list", &apps]);
    for name in [WEB, JOB, "app.yaml"] {
        assert!(listed.contains(name), "{listed}");
    }
    let cluster = site.at("cluster.yaml");
    let text = "apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  \
                hosts: [{name: node1, address: 192.0.2.11}]\n  roleGroups: {control-plane: [node1]}\n  \
                kubernetes: {version: v1.36.3}\n";
    std::fs::write(&cluster, text).unwrap();
    let (code, _, err) = kubexm(&["plan", "-f", &cluster, "--bundle", &apps]);
    assert_eq!(code, Some(2), "{err}");
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"
    error: [folder]/cluster.yaml:7:25: spec.kubernetes.version: the bundle does not contain Kubernetes v1.36.3
    hint: its manifest does not have spec.kubernetes, so it is for applications only; use a bundle with v1.36.3
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_of_add_end_at_their_totals() {
    let site = Site::new().await;
    let (readme, tgz) = (
        format!("README={}", site.at("app.yaml")),
        site.at("own.tgz"),
    );
    let mut target = site.at("first.tar.zst");
    let first = [
        "--image", WEB, "--file", &readme, "-o", &target, "--output", "json",
    ];
    let (code, events, err) = site.add(&first, true);
    assert_eq!(code, Some(0), "{err}");
    assert_complete(&events);
    // The second one copies what the first one packed.
    let source = std::mem::replace(&mut target, site.at("second.tar.zst"));
    let mirrors = site.at("mirrors.yaml");
    let second = [
        "add",
        &source,
        "--mirrors",
        &mirrors,
        "--chart",
        &tgz,
        "-o",
        &target,
        "--output",
        "json",
    ];
    let (code, events, err) = site.run(&second, true);
    assert_eq!(code, Some(0), "{err}");
    assert_complete(&events);
}

/// Checks that each transfer ends at the total that its first event states.
fn assert_complete(events: &str) {
    let mut transfers: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for line in events.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| event[name].as_u64();
        match (event["event"].as_str(), number("id")) {
            (Some("transfer-started"), Some(id)) => {
                let total = number("total").unwrap_or_else(|| panic!("no total: {line}"));
                transfers.insert(id, (total, 0));
            }
            (Some("transfer-advanced"), Some(id)) => {
                transfers.get_mut(&id).unwrap().1 += number("bytes").unwrap();
            }
            _ => {}
        }
    }
    assert!(!transfers.is_empty());
    for (total, advanced) in transfers.values() {
        assert_eq!(total, advanced, "{events}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn added_content_has_its_images_and_remove_restores_the_bundle() {
    let site = Site::new().await;
    let (new, app, tgz) = (
        site.at("new.tar.zst"),
        site.at("app.yaml"),
        site.at("own.tgz"),
    );
    let readme = format!("README={app}");
    let all = [
        "--manifest",
        &app,
        "--chart",
        &tgz,
        "--file",
        &readme,
        "-o",
        &new,
    ];
    let (code, said, err) = site.add(&all, true);
    assert_eq!(code, Some(0), "{err}");
    for line in [
        format!("{WEB} (Deployment web, container web): added"),
        format!("{JOB} (Job j, container main): added"),
        "'nginx' (Pod bare, container c): expected a tag or a digest".to_owned(),
        "chart own 0.3.1".to_owned(),
    ] {
        assert!(said.contains(&line), "{line} in {said}");
    }
    let added = Bundle::open(Path::new(&new)).unwrap();
    added.verify(2, &Events::silent()).unwrap();
    added
        .verify_recompressed(Recompressed::All, &Events::silent())
        .unwrap();
    let image = added.lock().image(&JOB.parse().unwrap()).unwrap();
    assert_eq!(
        image.platforms.len(),
        2,
        "for every architecture of the bundle"
    );
    let lock = std::fs::read_to_string(site.at("new.lock.yaml")).unwrap();
    assert!(Lock::from_yaml(&lock).unwrap() == *added.lock());

    let (_, listed, _) = kubexm(&["bundle", "list", &new]);
    assert!(listed.contains(&format!("runs {JOB}\n")), "{listed}");
    let out = site.at("out");
    let (code, _, err) = kubexm(&[
        "bundle", "extract", &new, "own", "README", "app.yaml", "-o", &out,
    ]);
    assert_eq!(code, Some(0), "{err}");
    assert!(std::fs::read(format!("{out}/own-0.3.1.tgz")).unwrap() == chart());
    assert_eq!(
        std::fs::read(format!("{out}/README")).unwrap(),
        std::fs::read(&app).unwrap()
    );

    // Images that a chart needs are kept without --force; the old bundle is unchanged.
    let (code, _, err) = site.run(&["remove", &new, JOB, "-o", &new], true);
    assert_eq!(code, Some(2));
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(err, @"
    error: other content of the bundle needs what you remove; nothing was written
      chart own 0.3.1: its pods run apps.example/team/job:2.0
    hint: --force removes it anyway
    ");
    let (code, _, err) = site.run(&["remove", &new, "nothing", "-o", &new], true);
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(err, @"error: the bundle has no 'nothing'; kubexm bundle list shows what there is");
    let forced = site.at("forced.tar.zst");
    let (code, said, err) = site.run(&["remove", &new, JOB, "--force", "-o", &forced], true);
    assert!(
        code == Some(0) && said.contains(&format!("- image {JOB}")),
        "{err}"
    );
    let without = Bundle::open(Path::new(&forced)).unwrap();
    let layer = image.platforms[0].blobs[1].digest;
    assert!(without.open(&layer).is_err(), "no image needs it any more");

    // In place. Without the artifacts it equals the original bundle.
    let names = [
        "remove", &new, "own", "README", "app.yaml", WEB, JOB, "-o", &new,
    ];
    let (code, _, err) = site.run(&names, true);
    assert_eq!(code, Some(0), "{err}");
    assert!(std::fs::read(&new).unwrap() == std::fs::read(&site.bundle).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_groups_are_copied_and_a_damaged_one_is_refused() {
    let site = Site::new().await;
    let (new, app) = (site.at("new.tar.zst"), site.at("app.yaml"));
    let (readme, before) = (
        format!("README={app}"),
        std::fs::read(&site.bundle).unwrap(),
    );
    // Another level would give other bytes.
    let (code, _, err) = site.add(&["--file", &readme, "--level", "1", "-o", &new], false);
    assert_eq!(code, Some(0), "{err}");
    let middle = before.len() / 2;
    let part = &before[middle..middle + 256];
    let after = std::fs::read(&new).unwrap();
    assert!(after.windows(part.len()).any(|window| window == part));

    let mut damaged = before.clone();
    damaged[middle] ^= 1;
    std::fs::write(&site.bundle, damaged).unwrap();
    std::fs::remove_file(&new).unwrap();
    let (code, _, err) = site.add(&["--file", &readme, "-o", &new], false);
    assert_eq!(code, Some(3));
    assert!(err.contains("is damaged: "), "{err}");
    assert!(err.contains("hint: copy the bundle again"), "{err}");
    assert!(!Path::new(&new).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_a_chart_that_is_not_rendered_are_only_guesses() {
    let site = Site::new().await;
    let (new, tgz, broken) = (
        site.at("new.tar.zst"),
        site.at("own.tgz"),
        site.at("broken.yaml"),
    );
    std::fs::write(&broken, "{}").unwrap();
    let plain = ["--chart", &tgz, "-o", &new];
    let failing = [&plain[..], &["--values", &broken]].concat();
    for (arguments, with_helm, why) in [
        (&plain[..], false, "nor is helm installed"),
        (&failing[..], true, "no such value"),
    ] {
        let (code, said, err) = site.add(arguments, with_helm);
        assert_eq!(code, Some(0), "{err}");
        let guess = format!("{JOB} (own/values.yaml, image): a guess");
        for printed in [
            why,
            &guess,
            "docker.io/x/y:7 (own/values.yaml, other.image)",
            "only helm can resolve",
        ] {
            assert!(said.contains(printed), "{printed} in {said}");
        }
        let lock = Bundle::open(Path::new(&new)).unwrap().lock().clone();
        assert!(lock.image(&JOB.parse().unwrap()).is_none() && lock.artifacts.len() == 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_helm_runs_only_if_the_user_asks_for_it() {
    let site = Site::new().await;
    let (new, tgz) = (site.at("new.tar.zst"), site.at("own.tgz"));
    let mirrors = site.at("mirrors.yaml");
    let (cache, path) = (
        site.at("cache"),
        format!("PATH={}:/nowhere", site.at("bin")),
    );
    // A user of a namespace that cannot create user namespaces, as in some containers.
    let add = |more: &[&str]| {
        let forbid = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
        command.args(["env", &path, env!("CARGO_BIN_EXE_kubexm"), "bundle", "add"]);
        command.args([&site.bundle, "--chart", &tgz, "-o", &new, "--cache", &cache]);
        command.args(["--mirrors", &mirrors]);
        let output = command.args(more).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, said) = add(&[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(!Path::new(&new).exists());
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(said, @"
    == download
    error: helm: cannot isolate the program: user.max_user_namespaces permits no other namespace
    hint: run kubexm as root, or permit user namespaces (`sysctl user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`); --no-sandbox runs downloaded programs with all of your rights
    ");
    let (code, out, said) = add(&["--no-sandbox"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains(JOB), "{out}");
    let warning = "kubeadm, helm and kubectl run without a sandbox, with all rights of this user";
    assert!(said.contains(warning), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_additions_are_reported_and_nothing_is_written() {
    let site = Site::new().await;
    let (new, app) = (site.at("new.tar.zst"), site.at("app.yaml"));
    let (gone, blank) = (site.at("gone.yaml"), format!("a b={app}"));
    let folder = site.at("bin");
    let mut all = String::new();
    for (arguments, code) in [
        (&["--manifest", &gone][..], 3),
        (&["--chart", &app], 3),
        (&["--chart", &folder], 3),
        (&["--file", &blank], 2),
        (&["--file", "x=https://user:secret@dl.example/x"], 2),
        (&["--image", "apps.example/team/none:1"], 3),
        (&["--image", "nginx"], 2),
        (&[], 2),
    ] {
        let (got, _, err) = site.add(&[arguments, &["-o", &new]].concat(), false);
        assert_eq!(got, Some(code), "{arguments:?}: {err}");
        // The error has the reason why this host name does not resolve, which depends on the network.
        let lines = err.lines().filter(|line| !line.starts_with("warning: "));
        all.extend(lines.map(|line| format!("{line}\n")));
        // clap prints the argument as typed; a lock would store it.
        assert!(!Path::new(&new).exists());
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    == download
    error: [folder]/gone.yaml: the file does not exist
    hint: check the path; a bundle manifest's paths are relative to the manifest
    == download
    error: [folder]/app.yaml: is not a packed Helm chart: invalid gzip header
    hint: pack the chart with `helm package`
    == download
    error: [folder]/bin: is not a regular file
    hint: name a file, or the directory with the Chart.yaml of a chart
    == download
    error: 'a b' is not a valid name of a file
    hint: give it a name without blanks and slashes
    error: invalid value 'x=https://user:secret@dl.example/x' for '--file <NAME=PATH|URL>': address 'https://dl.example/x': contains a user or password, which would be written into the lock

    For more information, try '--help'.
    == download
    error: apps.example/team/none:1: http://127.0.0.1:[port]/v2/team/none/manifests/1 answered 404
    hint: check that the image and the tag exist
    error: invalid value 'nginx' for '--image <NAME>': image 'nginx': expected a tag or a digest, as in registry.k8s.io/pause:3.10

    For more information, try '--help'.
    error: nothing to add: give --image, --artifact, --file, --chart or --manifest
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_found_with_the_object_that_needs_them() {
    let site = Site::new().await;
    let (chart, app, list) = (site.at("chart"), site.at("app.yaml"), site.at("images.txt"));
    std::fs::create_dir(&chart).unwrap();
    std::fs::write(
        format!("{chart}/Chart.yaml"),
        "name: own\nversion: 1.0.0\nannotations: {images: '[{\"image\": \"a.example/more:1\"}]'}\n",
    )
    .unwrap();
    std::fs::write(&list, "# of the site\na.example/listed:1\n").unwrap();
    let find = ["find-images", &chart, &app, &list];
    let (code, printed, err) = site.run(&find, true);
    assert_eq!(code, Some(0), "{err}");
    let printed = printed.replace(&list, "images.txt");
    insta::assert_snapshot!(printed, @"
    images:
      # chart own 1.0.0
      - apps.example/team/job:2.0 # Job j, container main
      # Not included. Add those that pods need:
      # - a.example/more:1 # Chart.yaml, annotations.images line 1
      # manifest app.yaml
      - apps.example/team/web:1.0 # Deployment web, container web
      # Not included. Add those that pods need:
      # 'nginx' # Pod bare, container c: expected a tag or a digest, as in registry.k8s.io/pause:3.10
      # list images.txt
      - a.example/listed:1 # images.txt
    ");
    let kustomization = site.at("site");
    std::fs::create_dir(&kustomization).unwrap();
    let of_kustomization = |text: &str, with_kubectl: bool| {
        std::fs::write(format!("{kustomization}/kustomization.yaml"), text).unwrap();
        site.run(&["find-images", &kustomization], with_kubectl)
    };
    std::fs::copy(&app, format!("{kustomization}/app.yaml")).unwrap();
    let (code, printed, err) = of_kustomization("resources: [app.yaml]", true);
    assert_eq!(code, Some(0), "{err}");
    assert!(printed.contains("# manifest site.yaml\n"), "{printed}");
    assert!(printed.contains(WEB), "{printed}");
    let (code, _, err) = of_kustomization("resources: [app.yaml]", false);
    assert_ne!(code, Some(0));
    assert!(
        err.contains("nor is kubectl installed") && err.contains("spec.components"),
        "{err}"
    );
    let (code, _, err) = of_kustomization("bases: [github.com/org/app]", true);
    assert_ne!(code, Some(0));
    assert!(err.contains("renders without a network"), "{err}");
}
