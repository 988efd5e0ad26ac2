//! OS packages in a bundle manifest.

use std::path::PathBuf;

use super::manifest::{AptRepository, DnfRepository, DnfSet, PackageSource, Repositories, Verify};
use super::manifest_document::not_empty;
use super::reader::{Choice, Fields, accept};

/// The package manager of a package set.
#[derive(Clone, Copy, PartialEq)]
enum Manager {
    Apt,
    Dnf,
}

enum Repository {
    Apt(AptRepository),
    Dnf(DnfRepository),
}

/// Reads one entry of `spec.packages`.
pub(super) fn read(fields: &Fields<'_>) -> Option<PackageSource> {
    let text = |name| fields.required(name).and_then(|_| fields.text(name));
    let (distribution, release) = (text("distribution"), text("release"));
    let managers = Choice {
        later: &["zypper", "apk"],
        ..accept(&["apt", "dnf"])
    };
    let manager = match fields.choice("type", managers) {
        Some("dnf") => Manager::Dnf,
        _ => Manager::Apt,
    };
    let base = fields.values("base");
    if manager == Manager::Apt {
        let hint = "a Debian archive marks the packages that every host has (Essential, required)";
        fields.problem("base", "is only accepted with type: dnf", Some(hint));
    }
    let packages = fields.required("packages").map(|_| {
        not_empty(fields, "packages", "as in [socat]");
        fields.values("packages")
    });
    let repositories: Option<Vec<Repository>> = fields.required("repositories").map(|_| {
        not_empty(fields, "repositories", "begin each item with `- url:`");
        fields.sections("repositories", |fields| repository(fields, manager))
    });
    let (mut apt, mut dnf) = (Vec::new(), Vec::new());
    for repository in repositories? {
        match repository {
            Repository::Apt(repository) => apt.push(repository),
            Repository::Dnf(repository) => dnf.push(repository),
        }
    }
    let repositories = match manager {
        Manager::Apt => Repositories::Apt(apt),
        Manager::Dnf => Repositories::Dnf(DnfSet {
            repositories: dnf,
            base,
        }),
    };
    Some(PackageSource {
        distribution: distribution?,
        release: release?,
        repositories,
        packages: packages?,
    })
}

fn repository(fields: &Fields<'_>, manager: Manager) -> Option<Repository> {
    let url = fields.required("url").and_then(|_| fields.value("url"));
    let signed_by: Vec<PathBuf> = fields.required("signedBy").map_or_else(Vec::new, |_| {
        let hint = "name files with the keys that sign the repository";
        not_empty(fields, "signedBy", hint);
        fields.values("signedBy")
    });
    let suite = match manager {
        Manager::Apt => fields.required("suite").and_then(|_| fields.text("suite")),
        Manager::Dnf => fields.text("suite"),
    };
    let components = fields.values("components");
    let architectures = fields.values("architectures");
    let verify = match fields.choice("verify", accept(&["packages", "metadata", "both"])) {
        Some("metadata") => Verify::Metadata,
        Some("both") => Verify::Both,
        _ => Verify::Packages,
    };
    let other: &[&'static str] = match manager {
        Manager::Apt => &["verify"],
        Manager::Dnf => &["suite", "components", "architectures"],
    };
    let (message, hint) = match manager {
        Manager::Apt => (
            "is only accepted with type: dnf",
            "remove it: the InRelease file of an apt archive is always verified",
        ),
        Manager::Dnf => (
            "is only accepted with type: apt",
            "remove it: the url of a dnf repository is its directory",
        ),
    };
    for name in other {
        fields.problem(name, message, Some(hint));
    }
    Some(match manager {
        Manager::Apt => Repository::Apt(AptRepository {
            url: url?,
            suite: suite?,
            components,
            architectures,
            signed_by,
        }),
        Manager::Dnf => Repository::Dnf(DnfRepository {
            url: url?,
            signed_by,
            verify,
        }),
    })
}
