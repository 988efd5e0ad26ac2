//! Image references: `registry/repository:tag@digest`.

use std::fmt;

use super::{Digest, InvalidValue, string_value};

/// A full image reference. Short names are expanded as Docker does: `busybox:1` is
/// `docker.io/library/busybox:1`. A reference without tag and digest is refused, because `latest` changes its meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageRef {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageRef {
    /// Parses a reference by the grammar of the distribution project
    /// (<https://github.com/distribution/reference>).
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| InvalidValue::new("image", text, reason);
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(Digest::parse(digest)?)),
            None => (text, None),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_none() && digest.is_none() {
            return Err(wrong(
                "expected a tag or a digest, as in registry.k8s.io/pause:3.10",
            ));
        }
        if !tag.is_none_or(valid_tag) {
            return Err(wrong("the tag contains characters that are not allowed"));
        }
        let (registry, repository) = split_registry(path);
        if registry.starts_with('[') {
            return Err(wrong(
                "expected the name of the registry in the place of its IPv6 address",
            ));
        }
        if !valid_registry(&registry) || !valid_repository(&repository) {
            return Err(wrong("expected registry/repository:tag in lower case"));
        }
        Ok(Self {
            registry,
            repository,
            tag: tag.map(str::to_owned),
            digest,
        })
    }

    /// Parses `oci://registry/repository[:tag][@digest]`. The first part is always the host of the registry, and
    /// short names are not expanded. `tag` is the default if the text has neither a tag nor a digest.
    ///
    /// # Errors
    /// The text has another form, or has neither a tag nor a digest and `tag` is `None`.
    pub fn parse_place(text: &str, tag: Option<&str>) -> Result<Self, InvalidValue> {
        let wrong = |reason: &str| InvalidValue::new("OCI location", text, reason);
        let form = "expected oci://registry/repository:tag";
        let rest = text.strip_prefix("oci://").ok_or_else(|| wrong(form))?;
        let (registry, path) = rest.split_once('/').ok_or_else(|| wrong(form))?;
        let last = path.rsplit('/').next().unwrap_or(path);
        let path = match tag {
            Some(tag) if !last.contains([':', '@']) => format!("{path}:{tag}"),
            _ => path.to_owned(),
        };
        // With a host that contains a dot, so that no short name is expanded.
        let read = Self::parse(&format!("registry.invalid/{path}"))
            .map_err(|error| wrong(&error.reason))?;
        if !valid_registry(registry) {
            return Err(wrong(form));
        }
        Ok(Self {
            registry: registry.to_owned(),
            ..read
        })
    }

    /// Returns a reference to another tag of the same repository.
    ///
    /// # Errors
    /// The tag contains characters that are not allowed.
    pub fn with_tag(&self, tag: &str) -> Result<Self, InvalidValue> {
        if !valid_tag(tag) {
            let reason = "contains characters that are not allowed";
            return Err(InvalidValue::new("tag", tag, reason));
        }
        Ok(Self {
            tag: Some(tag.to_owned()),
            digest: None,
            ..self.clone()
        })
    }

    /// Returns the host (and port) of the registry, `docker.io` for Docker Hub.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository within the registry, with `library/` for official images of Docker Hub.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }
}

fn split_registry(path: &str) -> (String, String) {
    let hub = |repository: &str| ("docker.io".to_owned(), repository.to_owned());
    match path.split_once('/') {
        Some(("docker.io" | "index.docker.io", rest)) if !rest.contains('/') => {
            hub(&format!("library/{rest}"))
        }
        Some(("index.docker.io", rest)) => hub(rest),
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
            (first.to_owned(), rest.to_owned())
        }
        Some(_) => hub(path),
        None => hub(&format!("library/{path}")),
    }
}

fn valid_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
        && tag.bytes().next().is_some_and(word)
}

fn valid_registry(registry: &str) -> bool {
    let (host, port) = registry.split_once(':').unwrap_or((registry, "443"));
    // The registry becomes a part of paths: `..` is not one.
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| {
            first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric()
        }) && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    host.split('.').all(is_label) && port.parse::<u16>().is_ok()
}

fn valid_repository(repository: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    repository.len() <= 255
        && repository.split('/').all(|part| {
            part.bytes()
                .all(|b| inner(b) || matches!(b, b'.' | b'_' | b'-'))
                && part.bytes().next().is_some_and(inner)
                && part.bytes().last().is_some_and(inner)
        })
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

string_value!(ImageRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_expanded() {
        for (given, full) in [
            ("busybox:1", "docker.io/library/busybox:1"),
            ("grafana/grafana:11.0.0", "docker.io/grafana/grafana:11.0.0"),
            ("docker.io/nginx:1", "docker.io/library/nginx:1"),
            (
                "registry.k8s.io/coredns/coredns:v1.14.2",
                "registry.k8s.io/coredns/coredns:v1.14.2",
            ),
            ("localhost:5000/a:b", "localhost:5000/a:b"),
        ] {
            assert_eq!(ImageRef::parse(given).unwrap().to_string(), full);
        }
    }

    #[test]
    fn address_of_ipv6_as_a_registry_is_refused_with_the_reason() {
        let error = ImageRef::parse("[fd00::5]:5000/app:1").unwrap_err();
        assert!(
            error.to_string().contains("name of the registry"),
            "{error}"
        );
    }

    #[test]
    fn locations_in_a_registry_are_not_expanded() {
        for (given, full) in [
            ("oci://registry/bundles", "registry/bundles:b"),
            ("oci://docker.io/mine:1", "docker.io/mine:1"),
            ("oci://127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b:c"),
        ] {
            let place = ImageRef::parse_place(given, Some("b")).unwrap();
            assert_eq!(place.to_string(), full);
        }
        let pinned = format!("oci://registry/a@{}", Digest::of(b""));
        let place = ImageRef::parse_place(&pinned, Some("b")).unwrap();
        assert!(place.tag().is_none() && place.digest() == Some(Digest::of(b"")));
        for wrong in [
            "registry/a:1",
            "oci://a",
            "oci:///a:1",
            "oci://u:p@h/a:1",
            "oci://h/A:1",
        ] {
            assert!(ImageRef::parse_place(wrong, Some("b")).is_err(), "{wrong}");
        }
        assert!(ImageRef::parse_place("oci://h/a", None).is_err());
    }

    #[test]
    fn references_without_version_and_invalid_names_are_refused() {
        for wrong in [
            "../a:1",
            "a./b:1",
            ".r.io/a:1",
            "r-.io/a:1",
            "busybox",
            "a/../b:1",
            "A/b:1",
            "x.io/a:",
            "x.io/a@sha256:12",
            "x.io:9x/a:1",
        ] {
            assert!(ImageRef::parse(wrong).is_err(), "{wrong}");
        }
    }
}
