//! Whether the programs of a plan run with the C library of their hosts. A program that needs a newer glibc starts on no
//! host of an older distribution, and the package manager of a host cannot change its glibc.

use std::collections::{BTreeMap, BTreeSet};

use super::HostFacts;
use kubexm_bundle::Lock;
use kubexm_bundle::lock::Linking;
use kubexm_engine::plan::{FileContent, Plan};
use kubexm_types::{Digest, GlibcVersion, HostName};

/// The C library of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CLibrary {
    /// The host was not asked.
    Unknown,
    /// glibc.
    Glibc(GlibcVersion),
    /// Another library, such as musl of Alpine.
    Other,
}

/// The glibc of distributions, which their updates do not change. The names are those of OS package sets.
const RELEASES: [(&str, &str, &str); 13] = [
    ("debian", "bookworm", "2.36"),
    ("debian", "bullseye", "2.31"),
    ("debian", "trixie", "2.41"),
    ("kylin", "V10", "2.28"),
    ("openEuler", "20.03", "2.28"),
    ("openEuler", "22.03", "2.34"),
    ("openEuler", "24.03", "2.38"),
    ("rhel-like", "10", "2.39"),
    ("rhel-like", "8", "2.28"),
    ("rhel-like", "9", "2.34"),
    ("ubuntu", "focal", "2.31"),
    ("ubuntu", "jammy", "2.35"),
    ("ubuntu", "noble", "2.39"),
];

/// A dynamically linked program of a lock.
struct Program<'a> {
    /// The component, its version, and the file in its archive.
    name: String,
    linking: &'a Linking,
}

/// Returns the programs of a plan that do not run on their hosts, one message for each program and C library.
pub(super) fn conflicts(
    plan: &Plan,
    lock: &Lock,
    hosts: &BTreeMap<HostName, HostFacts>,
) -> Vec<String> {
    let programs = programs(lock);
    if programs.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<String, BTreeSet<&HostName>> = BTreeMap::new();
    for task in &plan.tasks {
        let Some(facts) = hosts.get(&task.host) else {
            continue;
        };
        for file in task.steps.iter().flat_map(|step| step.files()) {
            let FileContent::Bundled(digest) = file.content else {
                continue;
            };
            let conflict = programs
                .get(&digest)
                .and_then(|program| conflict(program, facts.c_library));
            if let Some(conflict) = conflict {
                found.entry(conflict).or_default().insert(&task.host);
            }
        }
    }
    let message = |(conflict, hosts): (String, BTreeSet<&HostName>)| {
        let hosts: Vec<&str> = hosts.into_iter().map(HostName::as_str).collect();
        format!("{}: {conflict}", hosts.join(", "))
    };
    found.into_iter().map(message).collect()
}

/// Returns the programs of a lock that do not run on a distribution for which the bundle has packages.
pub(super) fn conflicts_of_releases(plan: &Plan, lock: &Lock) -> Vec<String> {
    let programs = programs(lock);
    let files = plan.tasks.iter().flat_map(|task| &task.steps);
    let planned: BTreeSet<Digest> = files
        .flat_map(|step| step.files())
        .filter_map(|file| match file.content {
            FileContent::Bundled(digest) => Some(digest),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    for set in &lock.packages {
        let Some(glibc) = glibc_of(&set.distribution, &set.release) else {
            continue;
        };
        let planned = planned.iter().filter_map(|digest| programs.get(digest));
        found.extend(
            planned
                .filter_map(|program| conflict(program, CLibrary::Glibc(glibc)))
                .map(|text| format!("{} {}: {text}", set.distribution, set.release)),
        );
    }
    found
}

/// Returns the glibc of a release; `None` if it is unknown.
fn glibc_of(distribution: &str, release: &str) -> Option<GlibcVersion> {
    let mut known = RELEASES.iter();
    let (_, _, glibc) =
        known.find(|(name, version, _)| (*name, *version) == (distribution, release))?;
    GlibcVersion::parse(glibc).ok()
}

/// Returns the dynamically linked programs of a lock by their digests.
fn programs(lock: &Lock) -> BTreeMap<Digest, Program<'_>> {
    let mut programs = BTreeMap::new();
    for file in &lock.files {
        let name = format!("{} {}", file.component, file.version);
        if let Some(linking) = &file.linking {
            let name = name.clone();
            programs.insert(file.digest, Program { name, linking });
        }
        for member in &file.members {
            if let Some(linking) = &member.linking {
                let name = format!("{name} ({})", member.path);
                programs.insert(member.digest, Program { name, linking });
            }
        }
    }
    programs
}

fn conflict(program: &Program<'_>, library: CLibrary) -> Option<String> {
    let Program { name, linking } = program;
    let needed = linking.glibc?;
    match library {
        CLibrary::Glibc(has) if has < needed => Some(format!(
            "{name} needs glibc {needed}, and this system has glibc {has}"
        )),
        CLibrary::Other => Some(format!(
            "{name} needs glibc {needed}, and this system has another C library"
        )),
        CLibrary::Glibc(_) | CLibrary::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::example::{OneFile, cluster, lock};
    use crate::{DeployError, Inputs, completeness, plan};

    /// A bundle whose kubelet is linked like the archive of containerd that is not static.
    fn lock_with_dynamic_kubelet() -> Lock {
        let mut lock = lock(&[
            "ghcr.io/flannel-io/flannel:v0.28.4",
            "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
        ]);
        for file in &mut lock.files {
            if file.component == "kubelet" {
                file.digest = Digest::of(b"kubelet");
                file.linking = Some(Linking {
                    interpreter: "/lib64/ld-linux-x86-64.so.2".parse().ok(),
                    libraries: vec!["libc.so.6".parse().unwrap()],
                    glibc: GlibcVersion::of_symbol("GLIBC_2.34"),
                });
            }
        }
        lock
    }

    fn planned(lock: &Lock, node2: CLibrary) -> Result<(), String> {
        let cluster = cluster("", "");
        let mut inputs = Inputs::assumed(&cluster, lock, Arc::new(OneFile(Vec::new())));
        for (name, facts) in &mut inputs.hosts {
            facts.c_library = match name.as_str() {
                "node2" => node2,
                _ => CLibrary::Glibc("2.41".parse().unwrap()),
            };
        }
        match plan(&inputs) {
            Ok(_) => Ok(()),
            Err(error @ DeployError::Linking(_)) => Err(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn program_that_needs_a_newer_glibc_is_refused_with_both_versions() {
        let lock = lock_with_dynamic_kubelet();
        let glibc = |text: &str| CLibrary::Glibc(text.parse().unwrap());
        planned(&lock, glibc("2.34")).unwrap();
        planned(&lock, CLibrary::Unknown).unwrap();
        insta::assert_snapshot!(planned(&lock, glibc("2.28")).unwrap_err(), @"
        these programs of the bundle do not run on their hosts:
          node2: kubelet 1.36.3 needs glibc 2.34, and this system has glibc 2.28
        hint: build a bundle with static programs of these components, or install these hosts with a newer distribution; `linking` in the lock of the bundle states what each program needs
        ");
        insta::assert_snapshot!(planned(&lock, CLibrary::Other).unwrap_err(), @"
        these programs of the bundle do not run on their hosts:
          node2: kubelet 1.36.3 needs glibc 2.34, and this system has another C library
        hint: build a bundle with static programs of these components, or install these hosts with a newer distribution; `linking` in the lock of the bundle states what each program needs
        ");
    }

    #[test]
    fn build_compares_programs_with_the_distributions_of_the_bundle() {
        let mut lock = lock_with_dynamic_kubelet();
        for release in ["8", "9"] {
            lock.packages.push(kubexm_bundle::lock::LockedPackages {
                distribution: "rhel-like".to_owned(),
                release: release.to_owned(),
                ..example_packages()
            });
        }
        let blobs: Arc<dyn kubexm_bundle::Blobs> = Arc::new(OneFile(Vec::new()));
        let report = completeness::check(&cluster("", ""), &lock, &blobs).unwrap();
        let findings = report.findings.iter();
        let findings: Vec<&String> = findings.filter(|text| text.contains("glibc")).collect();
        assert_eq!(
            findings,
            ["rhel-like 8: kubelet 1.36.3 needs glibc 2.34, and this system has glibc 2.28"]
        );
    }

    fn example_packages() -> kubexm_bundle::lock::LockedPackages {
        let digest = Digest::of(b"content");
        serde_saphyr::from_str(&format!(
            "{{distribution: x, release: x, arch: amd64, requested: [], packages: [], \
              index: {{mediaType: text/plain, digest: '{digest}', size: 7}}}}"
        ))
        .unwrap()
    }

    #[test]
    fn releases_have_valid_versions() {
        for (distribution, release, _) in RELEASES {
            assert!(
                glibc_of(distribution, release).is_some(),
                "{distribution} {release}"
            );
        }
    }
}
