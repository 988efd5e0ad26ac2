//! Programs that current tools do not produce, assembled by the rules of their formats.

use super::*;

const ADDRESS: u64 = 0x40_0000;
/// The size in bytes of the ELF header and one program header.
const BEFORE: usize = 64 + 56;

/// Returns a 64-bit little-endian program: one segment that maps the whole file, and sections by name, each
/// with its position in the body. The body begins at [`BODY`].
fn elf(body: &[u8], sections: &[(&str, usize, usize)]) -> Vec<u8> {
    let mut names = b"\0".to_vec();
    let mut table = vec![0u8; 64];
    let mut section = |name: usize, offset: usize, size: usize| {
        let mut entry = vec![0u8; 64];
        entry[..4].copy_from_slice(&(name as u32).to_le_bytes());
        entry[4] = 1;
        entry[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        entry[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        table.extend(entry);
    };
    for (name, offset, size) in sections {
        section(names.len(), BODY + offset, *size);
        names.extend(name.bytes());
        names.push(0);
    }
    let names_at = BODY + body.len();
    section(0, names_at, names.len());
    let table_at = (names_at + names.len()) as u64;

    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(32, &64u64.to_le_bytes());
    put(40, &table_at.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &1u16.to_le_bytes());
    put(58, &64u16.to_le_bytes());
    put(60, &(sections.len() as u16 + 2).to_le_bytes());
    put(62, &(sections.len() as u16 + 1).to_le_bytes());
    let mut segment = vec![0u8; 56];
    segment[0] = 1;
    segment[16..24].copy_from_slice(&ADDRESS.to_le_bytes());
    segment[32..40].copy_from_slice(&table_at.to_le_bytes());
    file.extend(segment);
    file.resize(BODY, 0);
    file.extend(body);
    file.extend(names);
    file.extend(table);
    file
}

/// A multiple of 16 after the headers.
const BODY: usize = BEFORE.next_multiple_of(16);

fn module_text(lines: &str) -> Vec<u8> {
    let frame = "-".repeat(16);
    format!("{frame}{lines}{frame}").into_bytes()
}

/// The form of Go 1.17: pointers to string headers, which point to texts.
fn old_go() -> Vec<u8> {
    let modules =
        module_text("path\tx.io/old\nmod\tx.io/old\tv1.0.0\th1:=\ndep\tx.io/dep\tv0.3.0\th1:=\n");
    let address = |offset: usize| (ADDRESS + (BODY + offset) as u64).to_le_bytes();
    let mut body = b"go1.17.13".to_vec();
    let modules_at = body.len();
    body.extend(&modules);
    body.resize(body.len().next_multiple_of(16), 0);
    let headers_at = body.len();
    for (at, size) in [(0, 9u64), (modules_at, modules.len() as u64)] {
        body.extend(address(at));
        body.extend(size.to_le_bytes());
    }
    let info_at = body.len();
    body.extend(b"\xff Go buildinf:\x08\x00");
    body.extend(address(headers_at));
    body.extend(address(headers_at + 16));
    let size = body.len() - info_at;
    elf(&body, &[(".text", 0, 16), (".go.buildinfo", info_at, size)])
}

/// The form of Go 1.18 and later: texts after the header.
fn inline(go: &str, modules: &[u8]) -> Vec<u8> {
    let mut info = b"\xff Go buildinf:\x08\x02".to_vec();
    info.resize(32, 0);
    for text in [go.as_bytes(), modules] {
        let mut size = text.len();
        while size > 0x7f {
            info.push(size as u8 | 0x80);
            size >>= 7;
        }
        info.push(size as u8);
        info.extend(text);
    }
    info
}

/// Returns a Go program that has the build information of another one in its texts.
fn with_decoy() -> Vec<u8> {
    let decoy = inline("go1.18", &module_text("mod\tdecoy.io/x\tv6.6.6\t\n"));
    let mut body = vec![0u8; 32];
    body.extend(&decoy);
    body.resize(body.len().next_multiple_of(16), 0);
    let at = body.len();
    // Long enough to continue in another block of the reader.
    let many: String = (0..3000)
        .map(|n| format!("dep\tx.io/dep{n}\tv1.0.{n}\th1:=\n"))
        .collect();
    let info = inline(
        "go1.26.8",
        &module_text(&format!("mod\tx.io/main\tv2.0.0\t\n{many}")),
    );
    body.extend(&info);
    elf(
        &body,
        &[(".rodata", 0, at), (".go.buildinfo", at, info.len())],
    )
}

fn auditable() -> Vec<u8> {
    let list = r#"{"packages":[{"name":"serde","version":"1.0.200","source":"crates.io"},
        {"name":"cc","version":"1.0.1","source":"crates.io","kind":"build"},
        {"name":"own","version":"0.1.0","source":"local","root":true}]}"#;
    let level = flate2::Compression::default();
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), level);
    packed.write_all(list.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    elf(&packed, &[(".dep-v0", 0, packed.len())])
}

#[test]
fn modules_of_go_and_rust_programs_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let filler = vec![3; 70_000];
    let layer = tar(&[
        ("filler", &filler),
        ("bin/old", &old_go()),
        ("bin/decoy", &with_decoy()),
        ("bin/rusty", &auditable()),
        ("bin/plain", &elf(&[0; 64], &[(".text", 0, 64)])),
    ]);
    let made = Made::new()
        .image("registry.example/programs:v1", &[(GZIP, gzip(&layer))])
        .file("old", "1.0.0", FileFormat::Binary, &old_go());
    for opened in [false, true] {
        if opened {
            made.pack_opened(&path)
        } else {
            made.pack(&path)
        }
        let document = sbom(&path);
        let of = |name: &str| below(&document, &component(&document, name)["bom-ref"]);
        let set = |all: &[&str]| {
            all.iter()
                .map(|one| (*one).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let old = set(&[
            "pkg:golang/stdlib@1.17.13",
            "pkg:golang/x.io/old@v1.0.0",
            "pkg:golang/x.io/dep@v0.3.0",
        ]);
        assert_eq!(of("old"), old);
        assert_eq!(
            of("rusty"),
            set(&["pkg:cargo/serde@1.0.200", "pkg:cargo/own@0.1.0"])
        );
        let decoy = of("decoy");
        assert_eq!(decoy.len(), 3002);
        assert!(!decoy.iter().any(|purl| purl.contains("decoy.io")));
        let image = component(&document, "registry.example/programs");
        assert_eq!(
            below(&document, &image["bom-ref"]).len(),
            3,
            "the program without build information has no modules"
        );
    }
}

#[test]
fn truncated_or_false_build_information_is_skipped() {
    let whole = with_decoy();
    let mut files: Vec<Vec<u8>> = (1..40)
        .map(|part| whole[..whole.len() * part / 40].to_vec())
        .collect();
    // Tables and sizes that point outside of the file.
    for at in (32..64).step_by(2) {
        let mut odd = old_go();
        odd[at..at + 2].copy_from_slice(&[0xff; 2]);
        files.push(odd);
    }
    let named: Vec<(String, &[u8])> = files
        .iter()
        .enumerate()
        .map(|(number, file)| (format!("bin/{number}"), file.as_slice()))
        .collect();
    let named: Vec<(&str, &[u8])> = named
        .iter()
        .map(|(name, file)| (name.as_str(), *file))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let layer = gzip(&tar(&named));
    Made::new()
        .image("registry.example/odd:v1", &[(GZIP, layer)])
        .pack(&path);
    assert!(
        purls(&sbom(&path), "golang")
            .iter()
            .all(|purl| !purl.contains("decoy.io"))
    );
}
