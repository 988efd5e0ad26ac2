//! Comparison with the tools that wrote the databases.

use super::*;

/// Returns the standard output of a real tool.
fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns name, version, architecture and licence of the packages of a type.
fn packages(document: &Value, kind: &str) -> BTreeSet<String> {
    let start = format!("pkg:{kind}/");
    let components = document["components"].as_array().unwrap().iter();
    let ours = components.filter(|one| one["purl"].as_str().is_some_and(|p| p.starts_with(&start)));
    ours.map(|one| {
        let purl = one["purl"].as_str().unwrap();
        let arch = purl.split("arch=").nth(1).unwrap_or_default();
        let epoch = purl.split("epoch=").nth(1).unwrap_or("0");
        let licence = &one["licenses"][0];
        let licence = licence["expression"]
            .as_str()
            .or(licence["license"]["name"].as_str());
        format!(
            "{} {epoch} {} {} {}",
            one["name"].as_str().unwrap(),
            one["version"].as_str().unwrap(),
            arch.split('&').next().unwrap(),
            licence.unwrap_or_default()
        )
    })
    .collect()
}

#[test]
fn sbom_equals_dpkg_list_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst");
    let status = std::fs::read("/var/lib/dpkg/status").unwrap();
    let layer = tar(&[
        ("etc/os-release", DEBIAN.as_bytes()),
        ("var/lib/dpkg/status", &status),
    ]);
    Made::new()
        .image("registry.example/debian:v1", &[(GZIP, gzip(&layer))])
        .pack(&path);
    let format = "${db:Status-Abbrev}${Package} 0 ${Version} ${Architecture} \n";
    let theirs = tool("dpkg-query", &["-W", "-f", format]);
    let installed = theirs.lines().filter(|line| line.as_bytes()[1] == b'i');
    let theirs: BTreeSet<String> = installed.map(|line| line[3..].to_owned()).collect();
    assert!(theirs.len() > 50);
    assert_eq!(packages(&sbom(&path), "deb"), theirs);
}

/// Enough packages for a tree in the database, and headers long enough for overflow pages.
fn spec() -> String {
    let mut spec = "Name: base\nVersion: 1.0\nRelease: 1.el9\nSummary: s\nLicense: MIT\n\
        BuildArch: noarch\nVendor: Example\n%description\nd\n%files\n"
        .to_owned();
    for number in 0..40 {
        let long = "A line of a description that is long. ".repeat(number * 20);
        let epoch = if number % 3 == 1 {
            format!("Epoch: {number}\n")
        } else {
            String::new()
        };
        let licence = if number % 2 == 0 {
            "GPLv2+ and MIT"
        } else {
            "Apache-2.0"
        };
        spec += &format!(
            "%package -n part{number}\nSummary: s\nVersion: 2.{number}~rc1\n{epoch}License: {licence}\n\
             %description -n part{number}\n{long}\n%files -n part{number}\n"
        );
    }
    spec
}

#[test]
fn sbom_equals_rpm_list_for_every_database_format() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    std::fs::write(folder.path().join("t.spec"), spec()).unwrap();
    let top = format!("_topdir {place}/top");
    tool(
        "rpmbuild",
        &["--quiet", "-bb", "-D", &top, &format!("{place}/t.spec")],
    );
    let built = std::fs::read_dir(folder.path().join("top/RPMS/noarch")).unwrap();
    let built: Vec<String> = built
        .map(|one| one.unwrap().path().display().to_string())
        .collect();
    let base = format!("{place}/db");
    let mut install = vec![
        "-D",
        "_db_backend sqlite",
        "--dbpath",
        &base,
        "-i",
        "--justdb",
    ];
    install.extend(["--nodeps", "--nosignature"]);
    install.extend(built.iter().map(String::as_str));
    tool("rpm", &install);
    let format = "%{NAME} %{EPOCHNUM} %{VERSION}-%{RELEASE} %{ARCH} %{LICENSE}\n";
    let query = [
        "-D",
        "_db_backend sqlite",
        "--dbpath",
        &base,
        "-qa",
        "--qf",
        format,
    ];
    let theirs: BTreeSet<String> = tool("rpm", &query).lines().map(str::to_owned).collect();
    assert_eq!(theirs.len(), 41);

    let headers: Vec<Vec<u8>> = built.iter().map(|path| header(Path::new(path))).collect();
    let sqlite = std::fs::read(folder.path().join("db/rpmdb.sqlite")).unwrap();
    let berkeley = berkeley(&headers, &folder.path().join("Packages"));
    let ndb = ndb(&headers);
    for (file, database) in [
        ("var/lib/rpm/rpmdb.sqlite", &sqlite),
        ("var/lib/rpm/Packages", &berkeley),
        ("usr/lib/sysimage/rpm/Packages.db", &ndb),
    ] {
        let release = b"ID=\"rocky\"\nVERSION_ID=\"9.4\"\n";
        let layer = tar(&[("etc/os-release", release), (file, database)]);
        let path = folder.path().join("b.tar.zst");
        Made::new()
            .image("registry.example/rocky:v1", &[(GZIP, gzip(&layer))])
            .pack_opened(&path);
        assert_eq!(packages(&sbom(&path), "rpm"), theirs, "{file}");
    }
}

/// Returns the header of a built package as databases store it: without lead, signature and magic number.
fn header(package: &Path) -> Vec<u8> {
    let package = std::fs::read(package).unwrap();
    let length = |start: &[u8]| {
        let number = |at: usize| u32::from_be_bytes(start[at..at + 4].try_into().unwrap()) as usize;
        16 * number(0) + number(4) + 8
    };
    let signature = &package[96 + 8..];
    let header = &signature[length(signature).next_multiple_of(8) + 8..];
    header[..length(header)].to_vec()
}

/// Writes a table of older rpm versions with the tool of Berkeley DB.
fn berkeley(headers: &[Vec<u8>], path: &Path) -> Vec<u8> {
    let mut text = "VERSION=3\nformat=bytevalue\ntype=hash\nHEADER=END\n".to_owned();
    // The first value is the number of the last package.
    text += " 00000000\n 29000000\n";
    for (number, header) in headers.iter().enumerate() {
        let key = (number as u32 + 1).to_le_bytes();
        text += &format!(" {}\n {}\n", hex::encode(key), hex::encode(header));
    }
    text += "DATA=END\n";
    let dump = path.with_extension("dump");
    std::fs::write(&dump, text).unwrap();
    let (dump, path) = (dump.display().to_string(), path.display().to_string());
    tool("db5.3_load", &["-f", &dump, &path]);
    std::fs::read(path).unwrap()
}

/// Returns a database in the format of SUSE's rpm, assembled by the rules in rpm's source: Debian's rpm
/// cannot write it.
fn ndb(headers: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut file = [b"RpmP".to_vec(), words(&[0, 1, 1, 42, 0, 0, 0])].concat();
    let mut blobs = Vec::new();
    for (number, header) in (1u32..).zip(headers) {
        let offset = (4096 + blobs.len()) as u32 / 16;
        let blocks = (header.len() as u32 + 16 + 12).div_ceil(16);
        file.extend([b"Slot".to_vec(), words(&[number, offset, blocks])].concat());
        blobs.extend([b"BlbS".to_vec(), words(&[number, 1, header.len() as u32])].concat());
        blobs.extend(header);
        blobs.resize(blobs.len().next_multiple_of(16), 0);
        blobs.resize(((offset + blocks) * 16 - 4096) as usize, 0);
    }
    file.resize(4096, 0);
    file.extend(blobs);
    file
}

/// Returns the output of `go version -m`: modules with versions, and Go itself.
fn go_version(program: &str) -> BTreeSet<String> {
    let text = tool("go", &["version", "-m", program]);
    let mut lines = text.lines();
    let go = lines.next().unwrap().rsplit("go").next().unwrap();
    let mut all = BTreeSet::from([format!("stdlib {}", go.split(' ').next().unwrap())]);
    for line in lines {
        let fields: Vec<&str> = line.trim().split('\t').collect();
        if matches!(fields[0], "mod" | "dep") {
            let version = fields.get(2).filter(|version| version.starts_with('v'));
            all.insert(format!("{} {}", fields[1], version.unwrap_or(&"-")));
        }
    }
    all
}

#[test]
fn sbom_equals_go_version_output() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    let put = |path: &str, text: &str| {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "main.go",
        "package main\n\nimport \"dep.example/one\"\n\nfunc main() { println(one.One) }\n",
    );
    put(
        "go.mod",
        "module main.example/program\n\ngo 1.21\n\nrequire dep.example/one v1.2.3\n",
    );
    put(
        "vendor/dep.example/one/one.go",
        "package one\n\nconst One = 1\n",
    );
    put(
        "vendor/modules.txt",
        "# dep.example/one v1.2.3\n## explicit\ndep.example/one\n",
    );
    let built = Command::new("go")
        .args(["build", "-mod=vendor", "-o", "program", "."])
        .current_dir(place)
        .env("CGO_ENABLED", "0")
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    let program = place.join("program");
    let root = tool("go", &["env", "GOROOT"]);
    // Go's own command also has the mark of build information in its texts.
    let go = format!("{}/bin/go", root.trim());
    let archive = gzip(&tar(&[(
        "./bin/program",
        &std::fs::read(&program).unwrap(),
    )]));
    let path = place.join("b.tar.zst");
    Made::new()
        .file("archive", "1.0.0", FileFormat::TarGz, &archive)
        .file(
            "go",
            "1.0.0",
            FileFormat::Binary,
            &std::fs::read(&go).unwrap(),
        )
        .pack_opened(&path);
    let document = sbom(&path);
    for (name, program) in [("program", program.to_str().unwrap()), ("go", &go)] {
        let reference = &component(&document, name)["bom-ref"];
        let modules = below(&document, reference);
        let components = document["components"].as_array().unwrap().iter();
        let ours = components.filter(|one| modules.contains(one["bom-ref"].as_str().unwrap()));
        let ours: BTreeSet<String> = ours
            .map(|one| {
                let version = one["version"].as_str().unwrap_or("-");
                format!("{} {version}", one["name"].as_str().unwrap())
            })
            .collect();
        let mut theirs = go_version(program);
        if name == "program" {
            // The lock has the version that the build does not state.
            assert!(theirs.remove("main.example/program -"));
            theirs.insert("main.example/program v1.0.0".to_owned());
            assert!(theirs.contains("dep.example/one v1.2.3"));
        }
        assert_eq!(ours, theirs, "{name}");
    }
}
