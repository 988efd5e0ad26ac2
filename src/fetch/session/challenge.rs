//! How a registry asks for a login.

use std::fmt;

use kubexm_types::ShownUrl;
use url::Url;

/// The challenge of a registry (RFC 9110, 11.6.1).
#[derive(PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: Url, service: Option<String> },
}

/// A hostile registry may send a URL with a login.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic => f.write_str("Basic"),
            Self::Bearer { realm, service } => {
                write!(f, "Bearer({}, {service:?})", ShownUrl::from(realm))
            }
        }
    }
}

impl Challenge {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let realm = Url::parse(&parameter(rest, "realm")?).ok()?;
        matches!(realm.scheme(), "https" | "http").then_some(())?;
        let service = parameter(rest, "service");
        Some(Self::Bearer { realm, service })
    }
}

/// Returns a parameter's value, quoted or not.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next.trim_start_matches([',', ' ']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_real_registries_are_understood() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let Some(Challenge::Bearer { realm, service }) = Challenge::parse(docker) else {
            panic!("{docker}");
        };
        assert_eq!(realm.as_str(), "https://auth.docker.io/token");
        assert_eq!(service.as_deref(), Some("registry.docker.io"));
        let plain = "bearer service=a, realm=http://127.0.0.1:5000/auth";
        assert!(matches!(
            Challenge::parse(plain),
            Some(Challenge::Bearer { service: Some(s), .. }) if s == "a"
        ));
        assert_eq!(
            Challenge::parse(r#"Basic realm="Registry""#),
            Some(Challenge::Basic)
        );
        for wrong in [
            "",
            "Bearer",
            "Bearer realm=\"file:///etc/passwd\"",
            "Digest realm=\"x\"",
            "Bearer realm=\"unclosed",
        ] {
            assert_eq!(Challenge::parse(wrong), None, "{wrong}");
        }
    }
}
