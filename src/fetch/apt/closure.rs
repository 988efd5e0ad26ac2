//! The dependencies of a list of package names.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::stanza::{Package, Relation};
use kubexm_types::debian_version::compare;

/// Returns the named packages and their dependencies, sorted by name, without packages that every host has.
///
/// # Errors
/// Every missing package, with the package that requires it.
pub fn closure<'a>(
    known: &'a [Package<'a>],
    names: &[String],
) -> Result<Vec<&'a Package<'a>>, Vec<String>> {
    let archive = Archive::new(known);
    let mut problems = Vec::new();
    let base_names: Vec<&Package<'_>> = known.iter().filter(|package| package.base).collect();
    // Hosts were installed from a complete archive: what is missing from its base set is not an error here.
    let base = archive.follow(base_names, &BTreeSet::new(), &mut Vec::new());
    let mut start = Vec::new();
    for name in names {
        let relation = Relation {
            name,
            version: None,
        };
        match archive.satisfy(&relation) {
            Some(package) => start.push(package),
            None => problems.push(format!("package '{name}' does not exist")),
        }
    }
    let skip = base.keys().copied().collect();
    let chosen = archive.follow(start, &skip, &mut problems);
    if problems.is_empty() {
        Ok(chosen.into_values().collect())
    } else {
        Err(problems)
    }
}

struct Archive<'a> {
    by_name: BTreeMap<&'a str, Vec<&'a Package<'a>>>,
    by_virtual: BTreeMap<&'a str, Vec<(&'a Package<'a>, Option<&'a str>)>>,
}

impl<'a> Archive<'a> {
    fn new(known: &'a [Package<'a>]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&Package<'_>>> = BTreeMap::new();
        let mut by_virtual: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for package in known {
            by_name.entry(package.name).or_default().push(package);
            for (name, version) in &package.provides {
                by_virtual
                    .entry(name)
                    .or_default()
                    .push((package, *version));
            }
        }
        for versions in by_name.values_mut() {
            versions.sort_by(|a, b| compare(b.version, a.version));
        }
        Self {
            by_name,
            by_virtual,
        }
    }

    /// Returns the newest package that satisfies a relation; real packages are preferred to virtual ones.
    fn satisfy(&self, relation: &Relation<'_>) -> Option<&'a Package<'a>> {
        let real = self.by_name.get(relation.name).into_iter().flatten();
        let real = real
            .copied()
            .find(|package| allowed(relation, Some(package.version)));
        let provided = || {
            let candidates = self.by_virtual.get(relation.name).into_iter().flatten();
            candidates
                .into_iter()
                .find(|(_, version)| allowed(relation, *version))
                .map(|(p, _)| *p)
        };
        real.or_else(provided)
    }

    /// Returns everything reachable from `start` that is not in `skip`, by name.
    fn follow(
        &self,
        start: Vec<&'a Package<'a>>,
        skip: &BTreeSet<&str>,
        problems: &mut Vec<String>,
    ) -> BTreeMap<&'a str, &'a Package<'a>> {
        let mut chosen: BTreeMap<&str, &Package<'_>> = BTreeMap::new();
        let mut queue = VecDeque::new();
        let take =
            |package: &'a Package<'a>, chosen: &mut BTreeMap<_, _>, queue: &mut VecDeque<_>| {
                let name = package.name;
                if !skip.contains(name) && chosen.insert(name, package).is_none() {
                    queue.push_back(package);
                }
            };
        for package in start {
            take(package, &mut chosen, &mut queue);
        }
        while let Some(package) = queue.pop_front() {
            for group in &package.depends {
                let present = |relation: &Relation<'_>| {
                    skip.contains(relation.name) || chosen.contains_key(relation.name)
                };
                if group.iter().any(present) {
                    continue;
                }
                match group.iter().find_map(|relation| self.satisfy(relation)) {
                    // Added at once, so that it can satisfy alternatives of other packages.
                    Some(needed) => take(needed, &mut chosen, &mut queue),
                    None => {
                        let names: Vec<&str> = group.iter().map(|r| r.name).collect();
                        problems.push(format!(
                            "'{}' depends on {}, which is missing",
                            package.name,
                            names.join(" or ")
                        ));
                    }
                }
            }
        }
        chosen
    }
}

fn allowed(relation: &Relation<'_>, version: Option<&str>) -> bool {
    let Some((operator, wanted)) = &relation.version else {
        return true;
    };
    let Some(version) = version else { return false };
    let order = compare(version, wanted);
    match *operator {
        "<<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        "=" => order == Ordering::Equal,
        ">=" => order != Ordering::Less,
        ">>" => order == Ordering::Greater,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::stanza::List;
    use super::*;

    fn known(stanzas: &[&str]) -> List {
        let digest = "0".repeat(64);
        let mut text = String::new();
        for stanza in stanzas {
            let name = stanza
                .lines()
                .next()
                .unwrap()
                .trim_start_matches("Package: ");
            text.push_str(&format!(
                "{stanza}\nFilename: pool/{name}_1.deb\nSize: 1\nSHA256: {digest}\n\n"
            ));
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        List::unpack(&gzip.finish().unwrap(), "http://deb.example").unwrap()
    }

    fn names(list: &List, wanted: &[&str]) -> Result<Vec<String>, Vec<String>> {
        let known: Vec<Package<'_>> = list.packages().collect();
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        Ok(closure(&known, &wanted)?
            .iter()
            .map(|package| package.name.to_owned())
            .collect())
    }

    #[test]
    fn follows_dependencies_and_leaves_the_base_out() {
        let known = known(&[
            "Package: libc6\nVersion: 2.41-1",
            "Package: bash\nVersion: 5-1\nEssential: yes\nDepends: libc6 (>= 2)",
            "Package: conntrack\nVersion: 1-1\nDepends: libc6 (>= 2.3), libmnl0:any (>= 1), mta | nothing",
            "Package: libmnl0\nVersion: 1.0.5-3",
            "Package: postfix\nVersion: 3-1\nProvides: mta",
        ]);
        assert_eq!(
            names(&known, &["conntrack"]).unwrap(),
            ["conntrack", "libmnl0", "postfix"]
        );
    }

    #[test]
    fn everything_missing_is_named_at_once() {
        let known = known(&[
            "Package: a\nVersion: 1\nDepends: b (>= 2), c",
            "Package: b\nVersion: 1",
        ]);
        let problems = names(&known, &["a", "z"]).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
