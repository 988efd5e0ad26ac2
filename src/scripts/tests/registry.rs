//! The storage of registries: what it has, names that are removed, and images in use.

mod answers;
mod garbage;
mod uploads;

use super::machine::Machine;
use crate::registry;

pub const DATA: &str = "/srv/registry";

/// Returns the digest of a blob of these tests: scripts compare none.
pub fn hex(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn blob(digit: char) -> String {
    let hex = hex(digit);
    format!(
        "{DATA}/docker/registry/v2/blobs/sha256/{}/{hex}/data",
        &hex[..2]
    )
}

fn repository(name: &str) -> String {
    format!("{DATA}/docker/registry/v2/repositories/{name}")
}

fn revision(name: &str, digit: char) -> String {
    let hex = hex(digit);
    format!(
        "{}/_manifests/revisions/sha256/{hex}/link",
        repository(name)
    )
}

fn layer(name: &str, digit: char) -> String {
    format!("{}/_layers/sha256/{}/link", repository(name), hex(digit))
}

/// Writes an index with the tag `v1` (`0`) of two platforms (`1`, and `2`, of which the registry has no manifest), a
/// configuration `3`, layers `4` and `5`, and a signature `6` that refers to the index; and the garbage `7` and `8`, of which
/// `8` was a manifest. Another repository has the manifest `9` with the layer `4` alone.
pub fn storage(machine: &Machine) {
    let digest = |digit: char| format!("\"digest\":\"sha256:{}\"", hex(digit));
    let manifests = [
        (
            '0',
            format!(
                "{{\"manifests\":[{{{}}},{{{}}}]}}",
                digest('1'),
                digest('2')
            ),
        ),
        (
            '1',
            format!(
                "{{\"config\":{{{}}},\"layers\":[{{{}}},{{{}}}]}}",
                digest('3'),
                digest('4'),
                digest('5')
            ),
        ),
        ('6', format!("{{\"subject\":{{{}}}}}", digest('0'))),
        ('8', format!("{{\"layers\":[{{{}}}]}}", digest('7'))),
        ('9', format!("{{\"layers\":[{{{}}}]}}", digest('4'))),
    ];
    for (digit, text) in &manifests {
        machine.write(&blob(*digit), text);
    }
    for digit in ['3', '4', '5', '7'] {
        machine.write(&blob(digit), "content");
    }
    for digit in ['0', '1', '6'] {
        machine.write(
            &revision("r.io/a", digit),
            &format!("sha256:{}", hex(digit)),
        );
    }
    machine.write(&revision("r.io/b", '9'), &format!("sha256:{}", hex('9')));
    let tag = format!("{}/_manifests/tags/v1", repository("r.io/a"));
    let link = format!("sha256:{}", hex('0'));
    machine.write(&format!("{tag}/current/link"), &link);
    machine.write(&format!("{tag}/index/sha256/{}/link", hex('0')), &link);
    for digit in ['3', '4', '5', '7'] {
        machine.write(&layer("r.io/a", digit), &format!("sha256:{}", hex(digit)));
    }
    machine.write(&layer("r.io/b", '4'), &format!("sha256:{}", hex('4')));
    machine.write(&layer("r.io/old", '7'), &format!("sha256:{}", hex('7')));
}

#[test]
fn list_waits_for_a_collection_of_garbage_that_still_works() {
    Machine::with_each_shell(|machine| {
        let blob = format!("{DATA}/docker/registry/v2/blobs/sha256/aa/aa11/data");
        machine.write(&blob, "x");
        machine.write("/run/kubexm/garbage.lock", "");
        let removes = format!(
            "(flock 8; echo >/run/begun; sleep 1; rm {blob}) 8>/run/kubexm/garbage.lock >/dev/null 2>&1 &\n\
                               until [ -e /run/begun ]; do sleep 0.1; done"
        );
        let ended = machine.run_after(&removes, registry::LIST, &[DATA], "");
        assert_eq!(
            (ended.status, ended.printed.as_str()),
            (0, ""),
            "{}",
            ended.complained
        );
    });
}

/// A part of a storage must not look like the whole: `registry move` would copy only this part, and remove the rest.
#[test]
fn storage_is_listed_completely_or_not_at_all() {
    Machine::with_each_shell(|machine| {
        let list = || machine.run(registry::LIST, &[DATA]);
        let nothing = list();
        assert_eq!((nothing.status, nothing.printed.as_str()), (0, ""));
        storage(machine);
        let path = "repositories/r.io/b/_manifests/revisions/sha256/";
        let link = |digest: &str| format!("link {path}{}/link {digest}", hex('9'));
        let printed = machine.done(registry::LIST, &[DATA]);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!((lines.len(), lines[9]), (22, "storage"), "{printed}");
        let named = format!("blob blobs/sha256/77/{} 7", hex('7'));
        assert!(lines.contains(&named.as_str()), "{printed}");
        assert!(lines.contains(&link(&format!("sha256:{}", hex('9'))).as_str()));
        machine.write(&revision("r.io/b", '9'), "");
        let printed = machine.done(registry::LIST, &[DATA]);
        assert!(printed.lines().any(|line| line == link("")), "{printed}");
        // A damaged file: cat reads it, too, after the shell got nothing.
        machine.fake("cat", "case $* in *9999/link*) exit 1 ;; esac");
        let ended = list();
        assert!(
            ended.status == 1 && ended.complained.contains("\nhint: "),
            "{}",
            ended.complained
        );
        machine.write(&revision("r.io/b", '9'), &format!("sha256:{}", hex('9')));
        for folder in ["blobs", "repositories"] {
            let find = format!("/usr/bin/find \"$@\"; [ $1 != {folder} ]");
            machine.fake("find", &find);
            assert_eq!(list().status, 1, "{folder}");
        }
    });
}

#[test]
fn tags_and_manifests_are_removed_and_nothing_else() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let root = format!("{DATA}/docker/registry/v2/");
        let below = |path: &str| path.strip_prefix(&root).unwrap().to_owned();
        let manifest = revision("r.io/a", '0');
        let manifest = below(manifest.strip_suffix("/link").unwrap());
        let tag = "repositories/r.io/a/_manifests/tags/v1";
        let lines = format!("{manifest}\n{tag}\n");
        let run = |verb: &'static str, lines: &str| {
            machine.run_after(":", registry::REMOVE.verb(verb), &[DATA], lines)
        };
        assert_eq!(run("check", &lines).status, 1);
        assert_eq!(run("apply", &lines).status, 0);
        assert_eq!(run("check", &lines).status, 0);
        assert!(!machine.has(&format!("{root}{tag}")) && !machine.has(&revision("r.io/a", '0')));
        assert!(machine.has(&revision("r.io/a", '1')) && machine.has(&blob('0')));
        for wrong in [
            "blobs/sha256/00",
            "repositories/r.io/a/_manifests/tags/../../../b",
            "repositories/r.io/a/_layers/sha256/1",
            "/etc",
        ] {
            let ended = run("apply", &format!("{wrong}\n"));
            assert_eq!(ended.status, 2, "{wrong}: {}", ended.complained);
        }
        assert!(machine.has(&repository("r.io/b")));
    });
}

#[test]
fn blobs_are_printed_with_their_sizes() {
    Machine::with_each_shell(|machine| {
        storage(machine);
        let lines = format!("{}\n{}\n", hex('3'), hex('2'));
        let ended = machine.run_after(":", registry::BLOBS, &[DATA], &lines);
        assert_eq!(ended.printed, format!("{} 7\ncontent\n", hex('3')));
        let part = |digit, first| {
            let (data, digest) = (format!("data={DATA}"), format!("digest={}", hex(digit)));
            machine.run(registry::PART, &[&data, &digest, first, "count=8"])
        };
        let present = part('3', "first=0");
        assert_eq!((present.status, &*present.printed), (0, "content"));
        assert_ne!(part('2', "first=0").status, 0);
    });
}

#[test]
fn images_of_static_pods_and_sandboxes_are_printed() {
    Machine::with_each_shell(|machine| {
        machine.write(
            "/etc/kubernetes/manifests/a.yaml",
            "spec:\n  containers:\n  - image: r.io/a:1\n    imagePullPolicy: IfNotPresent\n  - name: b\n    image: \"r.io/b:2\"\n",
        );
        machine.write(
            "/etc/containerd/config.toml",
            "[x.pinned_images]\nsandbox = \"r.io/pause:3\"\n",
        );
        machine.write(
            "/etc/systemd/system/cri-dockerd.service",
            "  --pod-infra-container-image r.io/pause:4 \\\n",
        );
        machine.write(
            "/etc/isulad/daemon.json",
            "  \"pod-sandbox-image\": \"r.io/pause:5\",\n",
        );
        machine.write(
            "/etc/crio/crio.conf.d/10-kubexm.conf",
            "pause_image = \"r.io/pause:6\"\n",
        );
        let arguments = [
            "sandbox\\|pause_image\\|pod-infra-container-image\\|pod-sandbox-image",
            "/etc/containerd/config.toml",
            "/etc/crio/crio.conf.d/*.conf",
            "/etc/isulad/daemon.json",
            "/etc/systemd/system/cri-dockerd.service",
        ];
        let printed = machine.done(registry::NODE_IMAGES, &arguments);
        let lines: Vec<&str> = printed.lines().collect();
        let expected = [
            "r.io/a:1",
            "r.io/b:2",
            "r.io/pause:3",
            "r.io/pause:6",
            "r.io/pause:5",
            "r.io/pause:4",
        ];
        assert_eq!(lines, expected);
    });
}

/// A revision has the values of the user, and Secrets among its objects.
#[test]
fn revisions_of_releases_print_their_images_and_nothing_else() {
    Machine::with_each_shell(|machine| {
        let manifest = r#"kind: Pod\n  containers:\n  - image: nginx:1.29\n    args: [\"--run=r.io/a/b:2\"]\n    image: \"r.io/c@sha256:ab\"\n  password: hunter2\n"#;
        let list =
            |release: &str| format!("release=$({release}); echo \"web shop 3 $release\"; echo");
        let stored = format!(
            "printf %s '{{\"name\":\"shop\",\"manifest\":\"{manifest}\"}}' | gzip -c | base64 | tr -d '\\n' | base64 | tr -d '\\n'"
        );
        machine.fake("kubectl", &list(&stored));
        let printed = machine.done(registry::RELEASE_IMAGES, &["https://192.0.2.11:6443"]);
        let expected =
            "web shop 3 nginx:1.29\nweb shop 3 r.io/a/b:2\nweb shop 3 r.io/c@sha256:ab\n";
        assert_eq!(printed, expected);
        machine.fake("kubectl", &list("echo aGVsbG8="));
        let broken = machine.run(registry::RELEASE_IMAGES, &["https://192.0.2.11:6443"]);
        assert_eq!((broken.status, broken.printed.as_str()), (1, ""));
    });
}
