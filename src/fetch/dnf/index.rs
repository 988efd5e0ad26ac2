//! A `primary.xml` for exactly the packages of a set, all in one directory. With its digest in the lock, it
//! is all that a host's dnf needs. The same packages yield the same bytes.

use std::collections::BTreeSet;
use std::fmt::Write;

use quick_xml::escape::escape;

use super::evr::{Evr, Range};
use super::package::Package;
use super::relation::{Capability, Relation};

/// Writes the index, without weak dependencies and without files that none of the packages requires.
pub fn write(packages: &[Package]) -> String {
    let mut wanted = BTreeSet::new();
    for package in packages {
        for relation in package.requires.iter().chain(&package.conflicts) {
            relation.each_capability(&mut |capability| {
                if capability.name.starts_with('/') {
                    wanted.insert(capability.name.as_str());
                }
            });
        }
    }
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <metadata xmlns=\"http://linux.duke.edu/metadata/common\" \
         xmlns:rpm=\"http://linux.duke.edu/metadata/rpm\" packages=\"{}\">\n",
        packages.len()
    );
    for package in packages {
        one(&mut out, package, &wanted);
    }
    out.push_str("</metadata>\n");
    out
}

fn one(out: &mut String, package: &Package, wanted: &BTreeSet<&str>) {
    // Writing to a string never fails.
    let _ = write!(
        out,
        "<package type=\"rpm\">\n<name>{}</name>\n<arch>{}</arch>\n<version{}/>\n\
         <checksum type=\"sha256\" pkgid=\"YES\">{}</checksum>\n<summary>{}</summary>\n\
         <description/>\n<packager/>\n<url/>\n<time file=\"0\" build=\"0\"/>\n\
         <size package=\"{}\" installed=\"{}\" archive=\"0\"/>\n<location href=\"{}\"/>\n<format>\n",
        escape(&package.name),
        escape(&package.arch),
        evr(&package.evr),
        package.digest.hex(),
        escape(&package.summary),
        package.size,
        package.installed,
        escape(package.file_name()),
    );
    let plain = |list: &[Capability]| list.iter().map(entry).collect::<String>();
    let related = |list: &[Relation]| list.iter().map(relation).collect::<String>();
    for (name, entries) in [
        ("provides", plain(&package.provides)),
        ("requires", related(&package.requires)),
        ("conflicts", related(&package.conflicts)),
        ("obsoletes", plain(&package.obsoletes)),
    ] {
        if !entries.is_empty() {
            let _ = write!(out, "<rpm:{name}>\n{entries}</rpm:{name}>\n");
        }
    }
    for file in package.files.iter().filter(|f| wanted.contains(f.as_str())) {
        let _ = writeln!(out, "<file>{}</file>", escape(file));
    }
    out.push_str("</format>\n</package>\n");
}

fn relation(relation: &Relation) -> String {
    match relation {
        Relation::Plain(capability) => entry(capability),
        rich => format!("<rpm:entry name=\"{}\"/>\n", escape(rich.to_string())),
    }
}

fn entry(capability: &Capability) -> String {
    let name = escape(&capability.name);
    match &capability.range {
        Some(Range { sense, evr: range }) => {
            let flags = sense.word();
            format!(
                "<rpm:entry name=\"{name}\" flags=\"{flags}\"{}/>\n",
                evr(range)
            )
        }
        None => format!("<rpm:entry name=\"{name}\"/>\n"),
    }
}

fn evr(evr: &Evr) -> String {
    let mut text = format!(" epoch=\"{}\" ver=\"{}\"", evr.epoch, escape(&evr.version));
    if let Some(release) = &evr.release {
        let _ = write!(text, " rel=\"{}\"", escape(release));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{package_example, primary};
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let package = package_example(
            "a&b 1:1.0-1",
            &["c <= 2:3-4", "(x if y >= 1 else \"z\")", "/etc/<d>"],
            &["e = 1"],
        );
        let text = write(std::slice::from_ref(&package));
        let read = primary::parse(text.as_bytes(), "x86_64", 0).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].label(), "a&b-1:1.0-1.noarch");
        assert_eq!(read[0].requires, package.requires);
        assert_eq!(read[0].provides, package.provides);
        assert_eq!(read[0].digest, package.digest);
        assert_eq!(write(&read), text);
    }
}
