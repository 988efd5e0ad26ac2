//! Writes what a fuzzer begins with: one good input of each kind, below the folder that is named.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use gzip_exact::{Encoder, GoLevel, Recipe};
use kubexm_bundle::{Blobs, Bundle, BundleError, Inventory, Lock, Level, PackOptions, Placement, write};
use kubexm_types::event::Events;
use kubexm_sigstore::referrer;
use kubexm_types::Digest;

struct InMemory(BTreeMap<Digest, Vec<u8>>);

impl Blobs for InMemory {
    fn open(&self, digest: &Digest) -> Result<Box<dyn Read + Send>, BundleError> {
        let blob = self.0.get(digest).cloned();
        let blob = blob.ok_or_else(|| BundleError::Missing(digest.to_string().into()))?;
        Ok(Box::new(Cursor::new(blob)))
    }
}

const DPKG: &str = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nSource: glibc (2.41-1)\n\
                    Version: 2.41-1\nMaintainer: x <x@example>\nDescription: x\n\n";
const RELEASE: &str = "Origin: Debian\nSuite: stable\nCodename: trixie\nValid-Until: Sat, 01 Jan 2222 00:00:00 UTC\nMD5Sum:\n \
    d41d 0 main/a\nSHA256:\n e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 12 main/binary-amd64/Packages.gz\n";
const PACKAGES: &str = "Package: tool\nVersion: 2:1.0~rc1-1\nArchitecture: amd64\nPre-Depends: libc6 (>= 2.30)\nDepends: lib (>= 1) | \
    mail-agent, none:any\nProvides: mail-agent (= 1), virtual\nFilename: pool/t/tool_1.0_amd64.deb\nSize: 4\nSHA256: \
    e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n\nPackage: lib\nVersion: 1-1\nEssential: yes\nFilename: \
    pool/l/lib.deb\nSize: 1\nSHA256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n\n";
const REPOMD: &str = r#"<?xml version="1.0"?><repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary"><checksum type="sha256">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</checksum><location href="repodata/a-primary.xml.gz"/></data><data type="modules"><checksum type="sha256">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</checksum><location href="repodata/modules.yaml.gz"/></data></repomd>"#;
const PRIMARY: &str = r#"<metadata xmlns:rpm="x"><package type="rpm" pkgid="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"><name>tool</name><arch>x86_64</arch><version epoch="1" ver="1.2" rel="3"/><checksum type="sha256" pkgid="YES">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</checksum><summary>a &amp; b</summary><size package="1" installed="2" archive="3"/><location href="Packages/t/tool.rpm"/><format><rpm:provides><rpm:entry name="tool" flags="EQ" epoch="1" ver="1.2" rel="3"/></rpm:provides><rpm:requires><rpm:entry name="(a if (b or c))"/><rpm:entry name="tool" flags="GE" ver="1"/></rpm:requires><rpm:conflicts><rpm:entry name="old" flags="LT" ver="2"/></rpm:conflicts><rpm:obsoletes><rpm:entry name="older"/></rpm:obsoletes><file>/usr/bin/tool</file></format></package></metadata>"#;
const MODULES: &str = "---\ndocument: modulemd\nversion: 2\ndata:\n  name: tool\n  stream: \"1.10\"\n  artifacts:\n    rpms:\n    - \
                       tool-0:1.2-3.noarch\n...\n---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: tool\n  stream: \"1.10\"\n...\n";
/// An rpm header without entries.
const RPM_HEADER: [u8; 16] = [0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const INDEX: &str = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":7,"platform":{"os":"linux","architecture":"amd64"}}]}"#;
const MANIFEST: &str = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":7},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":9}]}"#;
const FACTS: &str = "arch=x86_64\nkernel=6.12.0\nhostname=a\nglibc=glibc 2.41\nmachine_id=00\ncpus=2\nmemory=MemTotal: 4096 kB\n\
                     address=192.0.2.11\nroute=00000000 010200C0 00000000\nroute=000200C0 00000000 00FFFFFF\n\
                     route6=fd000000000000000000000000000000 40 00000000000000000000000000000000\nlisten=0016\nmodule=dummy\ntool=tar\n\
                     firewalld=no\nufw=no\nnetworkmanager=no\nselinux=1\ncontainer_selinux=no\nfstab=/var/lib/etcd\nfolder=/etc\nwritable=no\n\
                     path=/var/lib/etcd\nwritable=yes\nspace=9 10 4096 9 10\nmount=1 1 0:1 / / rw - ext4 /dev/vda rw\nexists=yes\n\
                     resolved=/var/lib/etcd\nfile=/etc/os-release SUQ9ImEgYiIK\nfile=/etc/kubernetes/manifests/kube-apiserver.yaml \
                     ICAgIC0gLS1zZWN1cmUtcG9ydD02NDQzCg==\nkubeconfig=/etc/kubernetes/admin.conf c2VydmVyOiBodHRwczovL2EK\n\
                     present=/var/lib/kubexm/done/kubeadm-init\nruntime=/run/containerd/containerd.sock\nclock=1767323045.5\n";
const RECEIPT: &str = r#"{"step":"write /etc/a","undo":{"kind":"removeFile","path":"/etc/kubernetes/a","folders":["/etc/kubernetes"]}}
{"step":"b","undo":{"kind":"restoreFile","path":"/etc/b","backup":"/var/lib/kubexm/backup/b"}}
{"step":"c","undo":{"kind":"removeDirectory","path":"/var/lib/etcd"}}
{"step":"d","undo":{"kind":"removeTree","path":"/var/lib/etcd"}}
{"step":"e","undo":{"kind":"run","script":"unit-remove","arguments":["containerd.service"]},"cluster":"0123456789abcdef0123456789abcdef"}
{"step":"f","undo":{"kind":"script","title":"x","script":"true","arguments":[]}}
"#;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A program of 4096 bytes of head, some code, and Go's table of two functions.
fn program() -> Vec<u8> {
    let mut program = vec![0; 4096];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (program[18], program[32], program[54], program[56]) = (62, 64, 56, 2);
    for (at, flags, start, size) in [(64, 5, 0, 4096 + 96), (120, 4, 4096 + 96, 1000)] {
        program[at] = 1;
        program[at + 4] = flags;
        program[at + 8..at + 16].copy_from_slice(&u64::to_le_bytes(start));
        program[at + 32..at + 40].copy_from_slice(&u64::to_le_bytes(size));
    }
    program.extend([0xe8, 1, 0, 0, 0, 0x48, 0x8d, 0x05, 9, 0, 0, 0].repeat(8));
    program.extend([0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
    let places = [2, 1, 0, 72, 72, 72, 72, 88];
    program.extend(places.into_iter().flat_map(u64::to_le_bytes));
    program.extend([0, 1, 2, 3, 0, 1, 2, 0x83, 1, 4, 0, 1, 1, 0, 0, 0]);
    let table = [0, 20, 64, 72, 128, 0, 1, 8, 0, 5, 9, 12, 2, 3, 1, 0, 15, 19];
    program.extend(table.into_iter().flat_map(u32::to_le_bytes));
    let last = [64, 9, 8, 0, 22, 25, 30, 0, 3, 2, 0];
    program.extend(last.into_iter().flat_map(u32::to_le_bytes));
    program.resize(4096 + 96 + 1000, 7);
    program
}

fn main() -> Outcome {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    let save = |target: &str, name: &str, content: &[u8]| -> std::io::Result<()> {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), content)
    };
    let text = include_str!("three.lock.yaml");
    let lock = Lock::from_yaml(text)?;
    let blobs = [&b"kubexm"[..], &[7; 700], b""];
    let blobs = InMemory(blobs.iter().map(|b| (Digest::of(b), b.to_vec())).collect());
    let path = folder.join("three.tar.zst");
    let storage = Placement::plain(&lock);
    let options = PackOptions::new(Level::MIN, 1);
    write(&path, &lock, &storage, &blobs, options, &Events::silent())?;
    let packed = fs::read(&path)?;
    let mut head = Vec::new();
    zstd::Decoder::new(&packed[..])?.single_frame().read_to_end(&mut head)?;
    save("head", "good", &head)?;
    save("programs", "good", &program())?;
    save("lock", "three", text.as_bytes())?;
    save("storage", "plain", &serde_json::to_vec(&storage)?)?;
    let inventory = Inventory::new("a site", &[Bundle::open(&path)?]);
    save("inventory", "good", inventory_text(&inventory).as_bytes())?;
    save("documents", "cluster", include_bytes!("../../manifests/cluster-example.yaml"))?;
    save("documents", "bundle", include_bytes!("../../manifests/kubernetes-1.36.yaml"))?;
    let mirrors = "apiVersion: kubexm.io/v1alpha1\nkind: Mirrors\ndownloads: {https://a.example: http://b.example}\n";
    save("documents", "mirrors", mirrors.as_bytes())?;
    save("publishers", "root", include_bytes!("../../manifests/sigstore/trusted_root.json"))?;
    save("publishers", "signed", include_bytes!("signed.json"))?;
    let bundle = include_bytes!("bundle.json");
    save("publishers", "bundle", bundle)?;
    save("publishers", "timestamped", include_bytes!("timestamped.json"))?;
    let referrer = include_bytes!("referrer.json");
    save("publishers", "referrer", referrer)?;
    save("publishers", "list", &referrer::list_of(referrer))?;
    save("keyring", "keyring", include_bytes!("keyring.asc"))?;
    save("keyring", "changed", include_bytes!("changed.asc"))?;

    save("rpm", "sqlite", include_bytes!("rpm/rpmdb.sqlite"))?;
    save("rpm", "berkeley", include_bytes!("rpm/Packages"))?;
    save("rpm", "ndb", include_bytes!("rpm/Packages.db"))?;
    save("rpm", "dpkg", DPKG.as_bytes())?;
    save("rpm", "apk", b"P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\no:musl\n\n")?;
    save("apt", "release", RELEASE.as_bytes())?;
    save("apt", "packages", PACKAGES.as_bytes())?;
    save("dnf", "repomd", format!("r{REPOMD}").as_bytes())?;
    save("dnf", "primary", format!("p{PRIMARY}").as_bytes())?;
    save("dnf", "filelists", format!("f{PRIMARY}").as_bytes())?;
    save("dnf", "modules", format!("m{MODULES}").as_bytes())?;
    let zst = zstd::encode_all(PRIMARY.as_bytes(), 1)?;
    save("dnf", "zst", &[b"z", &zst[..]].concat())?;
    save("dnf", "rpm", &[b"R", &[0xed, 0xab, 0xee, 0xdb][..], &[0; 92], &RPM_HEADER, &RPM_HEADER].concat())?;
    save("image", "index", INDEX.as_bytes())?;
    save("image", "manifest", MANIFEST.as_bytes())?;
    save("host", "facts", FACTS.as_bytes())?;
    save("host", "output", b"Welcome!\nkubexm: output begins\nkubexm: process group 12\nfirst\x1b[31m\n")?;
    save("receipt", "records", RECEIPT.as_bytes())?;

    let recipe = Recipe {
        header: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
        encoder: Encoder::Go(GoLevel::DEFAULT),
    };
    let mut writer = recipe.writer();
    writer.write_all(text.as_bytes())?;
    save("gzip", "go", &writer.finish()?)?;
    Ok(())
}

fn inventory_text(inventory: &Inventory) -> String {
    let blobs: Vec<String> = inventory.blobs.iter().map(ToString::to_string).collect();
    format!(
        "inventoryVersion: 1\nsite: {}\nbundles: []\nblobs: [{}]\n",
        inventory.site,
        blobs.join(", ")
    )
}
