//! Paths of links in the storage of a registry. The names in them become paths that root writes on other hosts.

use super::source;
use kubexm_types::ImageRef;

/// Returns whether a path below the registry's root can be a link: of a repository, and of a tag if the link has one.
pub(super) fn is_valid(path: &str) -> bool {
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return false;
    }
    let Some(rest) = path.strip_prefix("repositories/") else {
        return false;
    };
    // In this order, as `Storage::repositories` reads it.
    let split = rest.split_once("/_manifests/");
    let Some((repository, place)) = split.or_else(|| rest.split_once("/_layers/")) else {
        return false;
    };
    let tag = place.strip_prefix("tags/");
    let tag = tag.map(|rest| rest.split_once('/').map_or(rest, |(tag, _)| tag));
    is_repository(repository) && tag.is_none_or(|tag| is_named("a", tag))
}

/// Returns whether this is a repository of kubexm, below the host of its origin, or of another registry.
fn is_repository(name: &str) -> bool {
    let of_origin = |(prefix, rest)| source(prefix).is_some() && is_named(rest, "a");
    is_named(name, "a") || name.split_once('/').is_some_and(of_origin)
}

/// Returns whether an image can have this repository and this tag.
fn is_named(repository: &str, tag: &str) -> bool {
    let place = format!("oci://registry.invalid/{repository}:{tag}");
    ImageRef::parse_place(&place, None)
        .is_ok_and(|image| image.repository() == repository && image.tag() == Some(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_images_are_valid() {
        for path in [
            "repositories/registry.k8s.io/coredns/coredns/_manifests/tags/v1.14.2/current/link",
            "repositories/r.io_5000/a/_manifests/tags/sha256-12.sig/index/sha256/12/link",
            "repositories/REGISTRY/a__b/c-d/_manifests/revisions/sha256/12/link",
            "repositories/127.0.0.1/a.b/_layers/sha256/12/link",
            // Of another registry, before kubexm had the directory.
            "repositories/my_team/a/_manifests/revisions/sha256/12/signatures/sha256/12/link",
            "repositories/busybox/_layers/sha256/12/link",
        ] {
            assert!(is_valid(path), "{path}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_and_names_of_no_image_are_refused() {
        for path in [
            "repositories/../../x/_manifests/tags/v1/current/link",
            "repositories/../x/_layers/sha256/12/link",
            "repositories/r.io/a/../_layers/sha256/12/link",
            "repositories/r.io/./a/_layers/sha256/12/link",
            "repositories/r.io//a/_layers/sha256/12/link",
            "/repositories/r.io/a/_layers/sha256/12/link",
            "/etc/x/_layers/sha256/12/link",
            "etc/x/_layers/sha256/12/link",
            "repositories/_layers/sha256/12/link",
            "repositories/r.io/a/link",
            "repositories/r.io/A/_layers/sha256/12/link",
            "repositories/r.io/a:b/_layers/sha256/12/link",
            "repositories/r.io/a'b/_layers/sha256/12/link",
            "repositories/r.io/-a/_layers/sha256/12/link",
            "repositories/R.io_x/a/_layers/sha256/12/link",
            "repositories/r.io/a/_layers/B/_manifests/tags/v1/current/link",
            "repositories/r.io/a/_manifests/tags/../current/link",
            "repositories/r.io/a/_manifests/tags/-v1/current/link",
            "repositories/r.io/a/_manifests/tags/v1:2/current/link",
            "repositories/r.io/a/_manifests/tags/v\u{e9}/current/link",
            "repositories/r.io/a/_manifests/revisions/sha256/../../../../link",
        ] {
            assert!(!is_valid(path), "{path}");
        }
        let long = format!(
            "repositories/r.io/a/_manifests/tags/{}/current/link",
            "v".repeat(129)
        );
        assert!(!is_valid(&long));
        let digest = kubexm_types::Digest::of(b"");
        let pinned = format!("repositories/r.io/a/_manifests/tags/v1@{digest}/current/link");
        assert!(!is_valid(&pinned));
    }
}
