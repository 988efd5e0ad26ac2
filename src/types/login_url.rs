//! URLs that may contain a login.

use std::fmt;
use std::str::FromStr;

use url::Url;

use super::{InvalidValue, ShownUrl};

/// A URL that a user wrote and that may contain a user and a password. Neither `Debug` nor `Display` shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginUrl(Url);

impl LoginUrl {
    /// Returns the URL with the login, for requests.
    pub fn with_login(&self) -> &Url {
        &self.0
    }

    /// Returns a URL below this one, or its copy elsewhere, with the login of this one.
    #[must_use]
    pub fn add_login(&self, to: &Url) -> Url {
        let mut url = to.clone();
        // Fails only for URLs without a host, which have no user.
        let _ = url.set_username(self.0.username());
        let _ = url.set_password(self.0.password());
        url
    }

    /// Returns the URL without the login, for locks and other documents.
    pub fn public(&self) -> Url {
        without_login(&self.0)
    }
}

/// Returns a URL without user and password.
#[must_use]
pub fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    // Fails only for URLs without a host, which have no user.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url
}

impl FromStr for LoginUrl {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let url = Url::parse(text).map_err(|error| {
            let shown = ShownUrl::of_text(text);
            InvalidValue::new("URL", shown.as_str(), error.to_string())
        })?;
        Ok(Self(url))
    }
}

impl fmt::Display for LoginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownUrl::from(&self.0).fmt(f)
    }
}

impl fmt::Debug for LoginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&ShownUrl::from(&self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_only_in_the_url_for_requests() {
        let url: LoginUrl = "https://bob:CANARY@deb.example/debian".parse().unwrap();
        assert_eq!(url.public().as_str(), "https://deb.example/debian");
        for shown in [format!("{url}"), format!("{url:?}"), format!("{url:#?}")] {
            assert!(
                !shown.contains("CANARY") && !shown.contains("bob"),
                "{shown}"
            );
        }
        let below = Url::parse("https://deb.example/debian/pool/a.deb").unwrap();
        assert_eq!(
            url.add_login(&below).as_str(),
            "https://bob:CANARY@deb.example/debian/pool/a.deb"
        );
        let refused = LoginUrl::from_str("https://bob:CANARY@deb example/").unwrap_err();
        assert!(!refused.to_string().contains("CANARY"), "{refused}");
    }
}
