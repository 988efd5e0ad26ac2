//! Known vulnerabilities, from a database that the user provides.

use super::*;
use serde_json::json;

const STATUS: &[u8] = b"Package: libssl3\nStatus: install ok installed\nArchitecture: amd64\n\
Source: openssl (3.0.1-1)\nVersion: 3.0.1-1+b1\n";

/// Returns a program of Go 1.20.1 with golang.org/x/net v0.7.0, reduced: no sections, only the mark in a
/// segment.
fn program() -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(64, 0);
    file.extend(b"\xff Go buildinf:\x08\x02");
    file.resize(96, 0);
    let frame = "-".repeat(16);
    let modules =
        format!("{frame}mod\tmain.io/x\t(devel)\t\ndep\tgolang.org/x/net\tv0.7.0\t\n{frame}");
    for text in ["go1.20.1", &modules] {
        file.push(text.len() as u8);
        file.extend(text.bytes());
    }
    file
}

fn bundle(path: &Path) {
    let layer = tar(&[
        ("etc/os-release", DEBIAN.as_bytes()),
        ("var/lib/dpkg/status", STATUS),
        ("bin/program", &program()),
    ]);
    Made::new()
        .image("registry.example/x:v1", &[(GZIP, gzip(&layer))])
        .pack(path);
}

fn go(id: &str, name: &str, events: &Value) -> Value {
    json!({
        "id": id, "modified": "2026-01-02T03:04:05Z", "summary": format!("summary of {id}"),
        "affected": [{"package": {"ecosystem": "Go", "name": name},
                      "ranges": [{"type": "SEMVER", "events": events}]}],
    })
}

/// Returns records of several databases about the same components.
fn records() -> Vec<Value> {
    let net = json!([{"introduced": "0"}, {"fixed": "0.17.0"}]);
    let mut of_go = go("GO-2023-2102", "golang.org/x/net", &net);
    of_go["aliases"] = json!(["CVE-2023-39325", "GHSA-4374-p667-p6c8"]);
    let mut of_github = go("GHSA-4374-p667-p6c8", "golang.org/x/net", &net);
    of_github["aliases"] = json!(["CVE-2023-39325"]);
    of_github["severity"] =
        json!([{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H"}]);
    let library = json!([{"introduced": "1.20.0-0"}, {"fixed": "1.20.2"}]);
    let mut withdrawn = go("GO-2023-0001", "stdlib", &json!([{"introduced": "0"}]));
    withdrawn["withdrawn"] = json!("2024-01-01T00:00:00Z");
    let debian = json!({
        "id": "DEBIAN-CVE-2022-0778", "modified": "2026-02-01T00:00:00Z", "upstream": ["CVE-2022-0778"],
        "affected": [
            {"package": {"ecosystem": "Debian:11", "name": "openssl"},
             "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]},
            {"package": {"ecosystem": "Debian:12", "name": "openssl"},
             "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.0.2-1"}]}],
             "ecosystem_specific": {"urgency": "low"}},
        ],
    });
    vec![
        of_go,
        of_github,
        go("GO-2023-1621", "stdlib", &library),
        go(
            "GO-2024-9999",
            "stdlib",
            &json!([{"introduced": "1.21.0-0"}]),
        ),
        go("GO-2024-9998", "main.io/x", &json!([{"introduced": "0"}])),
        withdrawn,
        debian,
    ]
}

fn zip(records: &[Value]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for record in records {
        let name = format!("{}.json", record["id"].as_str().unwrap());
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(record.to_string().as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn each_vulnerability_is_reported_once_for_every_database_form() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = at("b.tar.zst").display().to_string();
    bundle(Path::new(&path));
    let all = records();
    std::fs::write(at("all.zip"), zip(&all)).unwrap();
    std::fs::write(at("array.json"), json!(all).to_string()).unwrap();
    let lines: Vec<String> = all.iter().rev().map(Value::to_string).collect();
    std::fs::write(at("lines.json"), lines.join("\n")).unwrap();
    std::fs::create_dir_all(at("folder/Go")).unwrap();
    for (number, record) in all.iter().enumerate() {
        std::fs::write(at(&format!("folder/Go/{number}.json")), record.to_string()).unwrap();
    }
    let mut reports = BTreeSet::new();
    for form in ["all.zip", "array.json", "lines.json", "folder"] {
        let database = at(form).display().to_string();
        let (out, err) = kubexm(&[
            "bundle",
            "vulnerabilities",
            &path,
            "--database",
            &database,
            "--format",
            "json",
        ]);
        insta::allow_duplicates!(
            insta::assert_snapshot!(err, @"note: registry.example/x:v1 (amd64): /bin/program: the build information does not contain the version of main.io/x; kubexm cannot find its vulnerabilities")
        );
        reports.insert(out);
    }
    assert_eq!(reports.len(), 1, "{reports:#?}");
    let report: Value = serde_json::from_str(reports.first().unwrap()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found: Vec<String> = findings
        .iter()
        .map(|one| {
            format!(
                "{} {} {} {} {}",
                one["severity"], one["score"], one["id"], one["component"], one["fixed"]
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            r#""high" 7.5 "CVE-2023-39325" "golang.org/x/net" ["0.17.0"]"#,
            r#""low" null "CVE-2022-0778" "libssl3" ["3.0.2-1"]"#,
            r#""unknown" null "GO-2023-1621" "stdlib" ["1.20.2"]"#,
        ]
    );
    assert_eq!(
        findings[0]["aliases"],
        json!(["GHSA-4374-p667-p6c8", "GO-2023-2102"])
    );
    assert_eq!(
        findings[0]["places"],
        json!(["registry.example/x:v1 (amd64): /bin/program"])
    );
    assert_eq!(
        (&report["records"], &report["newest"]),
        (&json!(7), &json!("2026-02-01T00:00:00Z"))
    );
}

#[test]
fn table_has_the_age_of_the_database_and_exit_code_follows_fail_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.zst").display().to_string();
    let database = folder.path().join("all.zip").display().to_string();
    bundle(Path::new(&path));
    std::fs::write(&database, zip(&records())).unwrap();
    let base = ["bundle", "vulnerabilities", &path, "--database", &database];
    let (table, _) = kubexm(&base);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+ days old", "[age] days old");
    let _age = settings.bind_to_scope();
    insta::assert_snapshot!(table, @"
    SEVERITY  SCORE  ID              COMPONENT         VERSION     FIXED    WHERE
    high      7.5    CVE-2023-39325  golang.org/x/net  v0.7.0      0.17.0   registry.example/x:v1 (amd64): /bin/program
    low       -      CVE-2022-0778   libssl3           3.0.1-1+b1  3.0.2-1  registry.example/x:v1 (amd64): /var/lib/dpkg/status
    unknown   -      GO-2023-1621    stdlib            1.20.1      1.20.2   registry.example/x:v1 (amd64): /bin/program

    3 findings: 1 high, 1 low, 1 unknown
    3 names and versions compared with 7 records; the newest record is of 2026-02-01 ([age] days old: get a newer one)

    Not known:
      registry.example/x:v1 (amd64): /bin/program: the build information does not contain the version of main.io/x; kubexm cannot find its vulnerabilities
    ");
    for (limit, code) in [("critical", 0), ("high", 3), ("medium", 3), ("any", 3)] {
        let arguments: Vec<&str> = base.into_iter().chain(["--fail-on", limit]).collect();
        let (got, _, err) = kubexm_as_it_ends(&arguments);
        assert_eq!(got, Some(code), "{limit}: {err}");
    }
}

#[test]
fn invalid_database_is_refused_and_unreadable_records_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = at("b.tar.zst").display().to_string();
    bundle(Path::new(&path));
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::write(at("text"), "hello").unwrap();
    std::fs::write(at("cut.zip"), &zip(&records())[..500]).unwrap();
    let mut all = String::new();
    for wrong in ["empty", "text", "cut.zip", "absent"] {
        let database = at(wrong).display().to_string();
        let arguments = ["bundle", "vulnerabilities", &path, "--database", &database];
        let (code, out, err) = kubexm_as_it_ends(&arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{wrong}");
        all += &err;
    }
    let _filters = crate::snapshots::filters();
    insta::assert_snapshot!(all, @"
    error: [folder]/empty: does not contain records of OSV
    hint: give an export of the OSV database: a zip, a directory of records or a file of them
    error: [folder]/text: does not contain records of OSV: expected value at line 1 column 1
    hint: give an export of the OSV database: a zip, a directory of records or a file of them
    error: [folder]/cut.zip: cannot read the zip: invalid Zip archive: Could not find EOCD
    hint: give an export of the OSV database: a zip, a directory of records or a file of them
    error: cannot read the vulnerability database [folder]/absent: No such file or directory (os error 2)
    hint: give --database an export of OSV: a zip, a folder of records, or a file of them
    ");
    let mut all = records();
    all.push(json!({"id": "X-1", "affected": "everything"}));
    std::fs::write(at("odd.zip"), zip(&all)).unwrap();
    let database = at("odd.zip").display().to_string();
    let (table, _) = kubexm(&["bundle", "vulnerabilities", &path, "--database", &database]);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+ days old", "[age] days old");
    let _age = settings.bind_to_scope();
    insta::assert_snapshot!(table, @r#"
    SEVERITY  SCORE  ID              COMPONENT         VERSION     FIXED    WHERE
    high      7.5    CVE-2023-39325  golang.org/x/net  v0.7.0      0.17.0   registry.example/x:v1 (amd64): /bin/program
    low       -      CVE-2022-0778   libssl3           3.0.1-1+b1  3.0.2-1  registry.example/x:v1 (amd64): /var/lib/dpkg/status
    unknown   -      GO-2023-1621    stdlib            1.20.1      1.20.2   registry.example/x:v1 (amd64): /bin/program

    3 findings: 1 high, 1 low, 1 unknown
    3 names and versions compared with 7 records; the newest record is of 2026-02-01 ([age] days old: get a newer one)

    Not known:
      1 files of the database are not valid records, such as X-1.json: invalid type: string "everything", expected a sequence at line 1 column 35
      registry.example/x:v1 (amd64): /bin/program: the build information does not contain the version of main.io/x; kubexm cannot find its vulnerabilities
    "#);
}
