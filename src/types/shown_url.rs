//! URLs for messages.

use std::fmt;

use url::Url;

use super::without_login;

/// A URL without user and password, for errors, events and logs. It is the only form in which kubexm prints a
/// URL that a user wrote or a server sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShownUrl(String);

impl ShownUrl {
    /// Removes user and password from a text that may not be a valid URL.
    pub fn of_text(text: &str) -> Self {
        match Url::parse(text) {
            Ok(url) if url.has_authority() => Self::from(&url),
            _ => Self(without_user(text)),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Url> for ShownUrl {
    fn from(url: &Url) -> Self {
        Self(without_login(url).to_string())
    }
}

/// Removes everything between the scheme and the last '@' of the authority (RFC 3986, section 3.2). A password
/// may contain a '/' by mistake, so that the last '@' of the whole text counts if there is a scheme.
fn without_user(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    match scheme {
        Some(scheme) => format!("{scheme}://{rest}"),
        None => rest.to_owned(),
    }
}

impl fmt::Display for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_are_never_in_the_text() {
        for (text, expected) in [
            ("https://dl.example/a?b=c", "https://dl.example/a?b=c"),
            (
                "https://bob:CANARY@dl.example:81/a",
                "https://dl.example:81/a",
            ),
            ("https://CANARY@dl.example/a@b", "https://dl.example/a@b"),
            ("http://bob:CAN/ARY@dl.example/", "http://dl.example/"),
            ("http://bob:CANARY@dl example/", "http://dl example/"),
            ("bob:CANARY@dl.example", "dl.example"),
            ("dl.example/a", "dl.example/a"),
        ] {
            let shown = ShownUrl::of_text(text);
            assert_eq!(shown.as_str(), expected, "{text}");
            assert!(!format!("{shown:?}").contains("ARY"), "{text}");
        }
    }
}
