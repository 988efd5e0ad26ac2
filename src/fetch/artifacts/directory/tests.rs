use std::fs;
use std::os::unix::fs::symlink;

use flate2::read::GzDecoder;
use kubexm_bundle::archive::each_member;

use super::*;

/// Creates a directory with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the paths in the archive of a directory, or the error without the path of the directory.
fn packed(folder: &Path) -> Result<Vec<String>, String> {
    let real = folder.canonicalize().unwrap().display().to_string();
    let archive = pack(folder).map_err(|error| error.to_string().replace(&real, "DIR"))?;
    let mut names = Vec::new();
    let read = each_member(GzDecoder::new(archive.as_slice()), |path, _| {
        names.push(path.trim_start_matches("chart/").to_owned());
        Ok(())
    });
    read.map(|()| names).map_err(|error| error.to_string())
}

/// The rules were tried with `helm package` of Helm 4.3.1.
#[test]
fn files_that_helmignore_names_are_left_out() {
    let all = [
        ("Chart.yaml", ""),
        (".git/config", ""),
        ("templates/.hidden.yaml", ""),
        ("templates/a.yaml", ""),
        ("secret.key", ""),
        ("sub/secret.key", ""),
        ("notes.txt", ""),
        ("sub/notes.txt", ""),
        ("ci/values.yaml", ""),
        ("sub/ci/values.yaml", ""),
        ("sub/docs/a.md", ""),
        ("docs/a.md", ""),
        ("build", ""),
        ("sub/build/a", ""),
        ("a1.tmp", ""),
        ("ab.tmp", ""),
    ];
    let rules = "# a comment\n\n*.key\n/notes.txt\nci/\nsub/docs\nbuild/\na[0-9].tmp\n";
    let folder = folder(&all);
    let expected = [
        "Chart.yaml",
        "a1.tmp",
        "ab.tmp",
        "build",
        "ci/values.yaml",
        "docs/a.md",
        "notes.txt",
        "secret.key",
        "sub/build/a",
        "sub/ci/values.yaml",
        "sub/docs/a.md",
        "sub/notes.txt",
        "sub/secret.key",
        "templates/a.yaml",
    ];
    assert_eq!(packed(folder.path()).unwrap(), expected);
    fs::write(folder.path().join(".helmignore"), rules).unwrap();
    let expected = [
        ".helmignore",
        "Chart.yaml",
        "ab.tmp",
        "build",
        "docs/a.md",
        "sub/notes.txt",
        "templates/a.yaml",
    ];
    assert_eq!(packed(folder.path()).unwrap(), expected);
    fs::write(folder.path().join(".helmignore"), "a\n**/x\n").unwrap();
    let error = packed(folder.path()).unwrap_err();
    insta::assert_snapshot!(error, @"
    .helmignore:2: '**/x' has '**', which is not supported
    hint: correct the pattern; Helm refuses it, too
    ");
}

#[test]
fn links_are_followed_inside_of_the_chart_only() {
    let folder = folder(&[("Chart.yaml", ""), ("files/a.txt", "text")]);
    let link = |target: &str, name: &str| symlink(target, folder.path().join(name)).unwrap();
    link("files/a.txt", "b.txt");
    link("files", "more");
    let expected = ["Chart.yaml", "b.txt", "files/a.txt", "more/a.txt"];
    assert_eq!(packed(folder.path()).unwrap(), expected);
    link("/etc/passwd", "out");
    insta::assert_snapshot!(packed(folder.path()).unwrap_err(), @"
    out is a symbolic link to /etc/passwd, outside of the chart
    hint: copy the content into the chart, or add out to .helmignore
    ");
    fs::write(folder.path().join(".helmignore"), "out\n").unwrap();
    packed(folder.path()).unwrap();
    link("../files", "files/self");
    insta::assert_snapshot!(packed(folder.path()).unwrap_err(), @"
    files/self is a symbolic link to a directory that contains it
    hint: remove the link, or add files/self to .helmignore
    ");
}
