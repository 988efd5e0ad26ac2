//! A small bundle with everything that the format has: kinds of content, encodings, groups and chunks. The
//! golden files of all versions have this content.

use std::io::Write;
use std::path::Path;

use gzip_exact::{Encoder, GoLevel, Kind, Recipe, ZlibLevel};
use kubexm_bundle::format::placement::{Base, DecompressedGzip, DecompressedGzips, Entry, Group};
use kubexm_bundle::{Level, Lock, PackOptions, Placement, write};
use kubexm_types::Digest;
use kubexm_types::event::Events;
use serde_json::{Value, json};

use crate::example::{InMemory, text};

/// The encoding of the blobs in the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// As published.
    Keep,
    /// gzip blobs as decompressed layers.
    Decompress,
    /// The same with the ELF filter.
    Filter,
}

/// The lock and the blobs of the sample, and the placement of the blobs.
pub struct Sample {
    pub lock: Lock,
    pub blobs: InMemory,
    /// Which of them are filtered: none.
    groups: Vec<Group>,
}

/// Returns an ELF program: 4096 bytes with its headers, then code of this size, then the data.
fn program(machine: u8, code: &[u8], data: &[u8]) -> Vec<u8> {
    let mut program = vec![0; 4096];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (program[18], program[32], program[54], program[56]) = (machine, 64, 56, 2);
    let code_end = 4096 + code.len();
    for (at, flags, start, size) in [(64, 5, 0, code_end), (120, 4, code_end, data.len())] {
        (program[at], program[at + 4]) = (1, flags);
        program[at + 8..at + 16].copy_from_slice(&(start as u64).to_le_bytes());
        program[at + 32..at + 40].copy_from_slice(&(size as u64).to_le_bytes());
    }
    [&program, code, data].concat()
}

/// Returns calls and data operands in code for x86-64.
fn x86_64(count: usize) -> Vec<u8> {
    let mut code = Vec::new();
    let operand =
        |code: &[u8], target: usize| (target as i32 - code.len() as i32 - 4).to_le_bytes();
    for number in 0..count {
        code.push(0xe8);
        code.extend(operand(&code, 9000 + number % 7 * 160));
        code.extend([0x48, 0x8d, 0x05]);
        code.extend(operand(&code, 20_000 + number % 3 * 8));
        code.extend([0x0f, 0x84, 9, 0, 0, 0, 0x83, 0x3d]);
        code.extend(operand(&code, 30_000));
        code.push(1);
    }
    code.resize(code.len().next_multiple_of(16), 0x90);
    code
}

/// Returns calls (BL) and pages (ADRP) in code for AArch64.
fn aarch64(count: u32) -> Vec<u8> {
    let instruction = |number: u32| {
        let distance = (9000 + number % 5 * 64).wrapping_sub(number * 2) & 0x03ff_ffff;
        [
            0x9400_0000 | distance,
            0x9000_0003 | (number % 4) << 29 | 77 << 5,
        ]
    };
    (0..count)
        .flat_map(instruction)
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// Returns Go's table of this number of functions.
fn go_table(functions: u32) -> Vec<u8> {
    let pctab: Vec<u8> = (0..400u32)
        .map(|at| [0, 2, 8, 0x81, 1, 6][at as usize % 6])
        .collect();
    let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    let list = 72 + pctab.len() as u64;
    table.extend(
        [u64::from(functions), 1, 0, 72, 72, 72, 72, list]
            .into_iter()
            .flat_map(u64::to_le_bytes),
    );
    table.extend(pctab);
    let (mut place, mut own) = (functions * 8 + 4, Vec::new());
    for number in 0..functions {
        table.extend([number * 64, place].into_iter().flat_map(u32::to_le_bytes));
        let count = number % 5;
        let mut words = vec![
            number * 64,
            number * 30,
            8,
            0,
            number * 50,
            number * 50 + 9,
            7,
            count,
            3,
            number,
            0,
        ];
        words.extend((0..count).map(|at| number * 50 + 10 + at));
        words.extend((0..number % 3).map(|at| 700 + number * 9 + at));
        place += words.len() as u32 * 4;
        own.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    table.extend((functions * 64).to_le_bytes());
    [table, own].concat()
}

fn gzip(content: &[u8], encoder: Encoder, extra: [u8; 2]) -> (Vec<u8>, DecompressedGzip) {
    let header = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0][..], &extra].concat();
    let recipe = Recipe { header, encoder };
    let mut writer = recipe.writer();
    writer.write_all(content).unwrap();
    let opened = DecompressedGzip {
        content: Digest::of(content),
        size: content.len() as u64,
        recipe: recipe.into(),
    };
    (writer.finish().unwrap(), opened)
}

/// Returns an archive with one file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, name, content).unwrap();
    archive.into_inner().unwrap()
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(content), "size": content.len()})
}

impl Sample {
    pub fn new() -> Self {
        let x86 = program(62, &x86_64(60), &go_table(40));
        let arm = program(183, &aarch64(60), &text(1, 300));
        let (note, empty) = (text(2, 900), Vec::new());
        let similar = [text(3, 1500), [text(3, 1200), text(4, 500)].concat()];
        let runtime = archive("bin/runtime", &x86);
        let go = Encoder::Go(GoLevel::DEFAULT);
        let (runtime_gz, runtime_opened) = gzip(&runtime, go, [0, 255]);
        let layer = archive("usr/bin/pause", &arm);
        let zlib = Encoder::Zlib(Kind::Zlib, ZlibLevel::new(6).unwrap());
        let (layer_gz, layer_opened) = gzip(&layer, zlib, [0, 255]);
        let chart = archive("chart/Chart.yaml", b"name: site");
        let gnu = Encoder::Zlib(Kind::Gnu, ZlibLevel::new(9).unwrap());
        let (chart_gz, chart_opened) = gzip(&chart, gnu, [2, 3]);

        let (package, index) = (
            text(5, 400),
            b"Package: conntrack\nFilename: ./c.deb\n".to_vec(),
        );
        let config = br#"{"architecture":"amd64","os":"linux"}"#.to_vec();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer_gz)],
        })
        .to_string()
        .into_bytes();

        let mut blobs = InMemory::default();
        let mut group = |pieces, entries: &[(&Vec<u8>, Option<DecompressedGzip>)]| Group {
            pieces,
            entries: entries
                .iter()
                .map(|(blob, opened)| Entry {
                    opened: opened.clone(),
                    ..Entry::kept(blobs.add(blob))
                })
                .collect(),
        };
        let small = [&note, &empty, &package, &index, &config, &manifest];
        let groups = vec![
            group(1, &small.map(|blob| (blob, None))),
            group(4, &[(&similar[0], None), (&similar[1], None)]),
            group(3, &[(&x86, None), (&runtime_gz, Some(runtime_opened))]),
            group(1, &[(&layer_gz, Some(layer_opened))]),
            group(1, &[(&chart_gz, Some(chart_opened))]),
        ];

        let file = |component: &str, version: &str, format: &str, content: &[u8]| {
            json!({
                "component": component, "version": version, "arch": "amd64", "fileName": component,
                "url": format!("https://dl.example/{version}/{component}"), "size": content.len(),
                "digest": Digest::of(content), "checksum": "firstSeen", "format": format,
            })
        };
        let mut runtime_file = file("runtime", "2.1.0", "tar-gz", &runtime_gz);
        runtime_file["checksum"] = json!({"published": "https://dl.example/2.1.0/SHA256SUMS"});
        runtime_file["members"] =
            json!([{"path": "bin/runtime", "size": x86.len(), "digest": Digest::of(&x86)}]);
        let lock = json!({
            "lockVersion": 1, "name": "golden", "kubernetes": ["1.36.3"], "architectures": ["amd64"],
            "files": [
                file("empty", "1.0.0", "binary", &empty),
                file("kubeadm", "1.36.3", "binary", &x86),
                file("kubectl", "1.36.3", "binary", &similar[0]),
                file("kubelet", "1.36.3", "binary", &similar[1]),
                file("network", "0.9.0-rc.1", "manifest", &note),
                runtime_file,
            ],
            "images": [{
                "name": "registry.example/pause:3.10",
                "manifest": descriptor("application/vnd.oci.image.manifest.v1+json", &manifest),
                "platforms": [{
                    "arch": "amd64",
                    "manifest": descriptor("application/vnd.oci.image.manifest.v1+json", &manifest),
                    "blobs": [
                        descriptor("application/vnd.oci.image.config.v1+json", &config),
                        descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer_gz),
                    ],
                }],
            }],
            "packages": [{
                "distribution": "debian", "release": "trixie", "arch": "amd64",
                "requested": ["conntrack"], "format": "deb",
                "index": descriptor("application/vnd.debian.packages-index", &index),
                "packages": [{
                    "name": "conntrack", "version": "1:1.4.8-2", "fileName": "c.deb",
                    "url": "https://deb.example/a/path/that/is/longer/than/the/eighty/characters/of/a/line/c.deb",
                    "size": package.len(), "digest": Digest::of(&package),
                }],
            }],
            "kubeadm": [{
                "version": "1.36.3", "images": ["registry.example/pause:3.10"], "minimumEtcd": "3.5.24-0",
            }],
            "own": [{
                "kind": "chart", "name": "site", "version": "0.1.0", "size": chart_gz.len(),
                "digest": Digest::of(&chart_gz), "checksum": "firstSeen",
            }],
        });
        Self {
            lock: serde_json::from_value(lock).unwrap(),
            blobs,
            groups,
        }
    }

    pub fn storage(&self, layers: Layers) -> Placement {
        if layers == Layers::Keep {
            return Placement::plain(&self.lock);
        }
        let mut groups = self.groups.clone();
        for group in &mut groups {
            for entry in &mut group.entries {
                let programs = group.pieces == 3 || entry.opened.is_some();
                entry.filtered = layers == Layers::Filter && programs;
            }
        }
        Placement {
            groups,
            ..Placement::plain(&self.lock)
        }
    }

    /// The blobs that an incremental bundle does not have: those of the first two groups.
    pub fn base(&self) -> Base {
        let there = self.groups[..2].iter().flat_map(|group| &group.entries);
        Base {
            name: "the site".to_owned(),
            digest: Digest::of(b"informative"),
            blobs: there.map(|entry| entry.blob).collect(),
        }
    }

    /// Returns the gzip blobs with their content and recipe.
    pub fn gzip(&self) -> DecompressedGzips {
        let entries = self.groups.iter().flat_map(|group| &group.entries);
        entries
            .filter_map(|entry| Some((entry.blob, entry.opened.clone()?)))
            .collect()
    }

    pub fn write(&self, path: &Path, storage: &Placement) {
        self.write_proven(path, storage, None);
    }

    /// Writes the bundle with a recompression document for these blobs.
    pub fn write_proven(
        &self,
        path: &Path,
        storage: &Placement,
        proven: Option<&DecompressedGzips>,
    ) {
        let options = PackOptions {
            proven,
            ..PackOptions::new(Level::DEFAULT, 1)
        };
        let events = Events::silent();
        write(path, &self.lock, storage, &self.blobs, options, &events).unwrap();
    }
}
