//! Checks of rendered files: YAML, JSON and TOML by strict parsers, units by `systemd-analyze verify`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the errors in files, given as path and content. Equal contents are checked once.
pub fn check(files: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, content) in files {
        let extension = path.rsplit('.').next().unwrap_or_default();
        let wrong = match extension {
            "yaml" | "yml" => yaml(content),
            "json" | "conflist" => serde_json::from_str::<serde_json::Value>(content)
                .err()
                .map(|error| error.to_string()),
            "toml" => content
                .parse::<toml::Table>()
                .err()
                .map(|error| error.to_string()),
            "service" | "socket" => unit(path, content),
            _ => None,
        };
        if let Some(wrong) = wrong {
            findings.push(format!("{path}: {wrong}\n{content}"));
        }
        if content.lines().any(|line| line.ends_with(' ')) {
            findings.push(format!("{path}: a line ends with a blank\n{content}"));
        }
    }
    findings
}

/// Checks each document: duplicate fields are refused, and every object has a kind.
fn yaml(content: &str) -> Option<String> {
    let documents: Vec<serde_json::Value> = match serde_saphyr::from_multiple(content) {
        Ok(documents) => documents,
        Err(error) => return Some(error.to_string()),
    };
    let typed = |document: &serde_json::Value| {
        document["kind"].is_string() == document["apiVersion"].is_string()
    };
    let ok = !documents.is_empty() && documents.iter().all(typed);
    (!ok).then(|| "a document has a kind without a version, or none at all".to_owned())
}

/// Checks a unit in a root directory that has its programs.
pub fn unit(path: &str, content: &str) -> Option<String> {
    let root = tempfile::tempdir().unwrap();
    let place = |path: &str| root.path().join(path.trim_start_matches('/'));
    let put = |path: &Path, content: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    put(&place(path), content);
    for program in programs(content) {
        use std::os::unix::fs::PermissionsExt;
        put(&place(&program), "");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place(&program), mode).unwrap();
    }
    let output = Command::new("systemd-analyze")
        .arg(format!("--root={}", root.path().display()))
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(path.rsplit('/').next().unwrap())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    // A root directory without a system does not have the targets.
    let own: Vec<&str> = printed
        .lines()
        .filter(|line| !line.contains(".target") && !line.is_empty())
        .collect();
    (!own.is_empty()).then(|| own.join("\n"))
}

fn programs(unit: &str) -> Vec<String> {
    let commands = unit.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.starts_with("Exec").then(|| {
            let program = value.trim_start_matches(['-', '+', '!', '@', ':']);
            program
                .split([' ', '\\'])
                .next()
                .unwrap_or_default()
                .to_owned()
        })
    });
    commands
        .filter(|program| program.starts_with('/'))
        .collect()
}

#[test]
fn invalid_rendered_files_are_found() {
    for (path, content) in [
        ("/etc/a.yaml", "a: 1\na: 2\n"),
        ("/etc/a.yaml", "kind: Pod\n"),
        ("/etc/a.json", "{\"a\": 1,}"),
        ("/etc/a.toml", "a = 1\na = 2\n"),
        ("/etc/a.cfg", "a \n"),
        (
            "/etc/systemd/system/a.service",
            "[Service]\nExecStart=/bin/a \\\n\n--lost=flag\n",
        ),
        (
            "/etc/systemd/system/a.service",
            "[Service]\nExecStart=/bin/a\nLimitNOFILE=1048576  # much\n",
        ),
        (
            "/etc/systemd/system/a.service",
            "[Service]\nExecStart=a b\nUser\n",
        ),
    ] {
        let files = BTreeSet::from([(path.to_owned(), content.to_owned())]);
        assert!(!check(&files).is_empty(), "{path}: {content}");
    }
    let good = "[Unit]\nAfter=network-online.target\n[Service]\nExecStart=/usr/local/bin/a --b\n";
    let files = BTreeSet::from([("/etc/systemd/system/a.service".into(), good.into())]);
    assert_eq!(check(&files), Vec::<String>::new());
}
