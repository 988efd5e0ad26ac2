//! Steps of each kind, with the state of the host before, and a change by another process.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use kubexm_engine::plan::Ensure;
use kubexm_engine::steps::{
    Content, InstallFiles, ManagedBlock, Payload, RunScript, Source, TrackNewDirs, Undo, WriteFile,
};
use kubexm_types::Digest;

use crate::example::InMemory;
use crate::sandbox::{Sandbox, path};

pub fn names() -> ManagedBlock {
    ManagedBlock {
        path: path("/etc/hosts"),
        lines: vec!["10.0.0.1 node1".to_owned(), "10.0.0.2 node2".to_owned()],
    }
}

pub fn folders() -> TrackNewDirs {
    TrackNewDirs::new(
        "data",
        "data folders",
        &["/srv/own", "/srv/theirs", "/srv/unmounted"],
    )
    .unwrap()
}

fn script() -> RunScript {
    RunScript::new(
        "switch",
        "Switch it on",
        "[ \"$(cat /etc/switch 2>/dev/null)\" = \"$1\" ] || { echo is off; exit 1; }",
        "cat >/etc/switch",
    )
    .arguments(["on"])
    .input(Arc::new(|| Ok(b"on".to_vec())))
    .undo(Undo::RemoveFile {
        path: path("/etc/switch"),
        folders: Vec::new(),
    })
}

pub fn binaries() -> InstallFiles {
    let mut blobs = InMemory::default();
    let (tool, noise) = (b"#!/bin/sh\n".to_vec(), vec![7u8; 200_000]);
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::fast(),
    ));
    for (name, content) in [("bin/other", &tool), ("bin/noise", &noise)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        archive
            .append_data(&mut header, name, content.as_slice())
            .unwrap();
    }
    let archive = archive.into_inner().unwrap().finish().unwrap();
    let archive = blobs.add(&archive);
    let payload = |source, content: &[u8], at: &str| Payload {
        source,
        digest: Digest::of(content),
        size: content.len() as u64,
        path: path(at),
        mode: 0o755,
    };
    blobs.add(&tool);
    let member = Source::Member {
        archive,
        path: "bin/noise".to_owned(),
    };
    InstallFiles {
        title: "tools 1.0".to_owned(),
        payloads: vec![
            payload(Source::Blob, &tool, "/opt/tools/bin/tool"),
            payload(member, &noise, "/opt/tools/bin/noise"),
        ],
        blobs: Arc::new(blobs),
    }
}

/// A step, the state of its host before, and a change of its result by another process.
pub struct Case {
    pub name: &'static str,
    pub step: Box<dyn Ensure>,
    pub before: fn(&Sandbox),
    pub disturb: fn(&Sandbox),
}

pub fn cases() -> Vec<Case> {
    let file = |content: &str| WriteFile::new(path("/etc/app/deep/conf"), content);
    let case = |name, step, before: fn(&Sandbox), disturb: fn(&Sandbox)| Case {
        name,
        step,
        before,
        disturb,
    };
    vec![
        case(
            "write a new file",
            Box::new(file("a=1\n")),
            |_| {},
            |host| {
                host.write("/etc/app/deep/conf", "a=2\n");
            },
        ),
        case(
            "write over a file",
            Box::new(file("a=1\n")),
            |host| {
                host.write("/etc/app/deep/conf", "theirs\n");
                host.set_mode("/etc/app/deep/conf", 0o640);
                let _ = std::os::unix::fs::chown(host.at("/etc/app/deep/conf"), Some(7), Some(8));
            },
            |host| host.set_mode("/etc/app/deep/conf", 0o666),
        ),
        case(
            "write over a link",
            Box::new(file("a=1\n")),
            |host| {
                host.write("/etc/app/deep/real", "theirs\n");
                symlink("real", host.at("/etc/app/deep/conf")).unwrap();
            },
            |host| {
                // The right content with another owner.
                host.write("/etc/app/other", "a=1\n");
                std::fs::remove_file(host.at("/etc/app/deep/conf")).unwrap();
                symlink("../other", host.at("/etc/app/deep/conf")).unwrap();
            },
        ),
        case(
            "write over a link that leads nowhere",
            Box::new(file("a=1\n")),
            |host| {
                std::fs::create_dir_all(host.at("/etc/app/deep")).unwrap();
                symlink("nothing", host.at("/etc/app/deep/conf")).unwrap();
            },
            |host| std::fs::remove_file(host.at("/etc/app/deep/conf")).unwrap(),
        ),
        case(
            "write a secret that is known late",
            Box::new(WriteFile {
                path: path("/etc/key"),
                mode: 0o600,
                user: None,
                group: None,
                content: Content::Deferred {
                    preview: "<key>".to_owned(),
                    render: Arc::new(|| Ok("k".to_owned())),
                },
                secret: true,
                removed_elsewhere: false,
            }),
            |_| {},
            |host| host.set_mode("/etc/key", 0o644),
        ),
        case(
            "block in a file",
            Box::new(names()),
            |host| {
                host.write("/etc/hosts", "127.0.0.1 localhost\n");
                host.set_mode("/etc/hosts", 0o664);
            },
            |host| {
                let text = host.read("/etc/hosts").replace("node2", "node3");
                host.write("/etc/hosts", &text);
            },
        ),
        case(
            "block in a file whose last line does not end",
            Box::new(names()),
            |host| {
                host.write("/etc/hosts", "127.0.0.1 localhost");
            },
            |host| host.write("/etc/hosts", "127.0.0.1 localhost"),
        ),
        case(
            "block in a file that is not there",
            Box::new(names()),
            |_| {},
            |host| {
                std::fs::remove_file(host.at("/etc/hosts")).unwrap();
            },
        ),
        case(
            "block in a file behind a link",
            Box::new(names()),
            |host| {
                host.write("/etc/hosts.real", "127.0.0.1 localhost\n");
                symlink("hosts.real", host.at("/etc/hosts")).unwrap();
            },
            |host| host.write("/etc/hosts", "127.0.0.1 localhost\n"),
        ),
        case(
            "install binaries",
            Box::new(binaries()),
            |host| {
                host.write("/opt/tools/bin/tool", "theirs");
            },
            |host| host.set_mode("/opt/tools/bin/noise", 0o700),
        ),
        case(
            "a script with input",
            Box::new(script()),
            |_| {},
            |host| host.write("/etc/switch", "off"),
        ),
    ]
}
