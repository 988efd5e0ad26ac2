//! `InRelease`: its suite, the lists that it names, and how long it is valid.

use kubexm_types::{Digest, Message};

/// Refuses a release whose `Valid-Until` has passed, because an attacker may withhold updates.
///
/// # Errors
/// The date has passed or cannot be parsed.
pub fn check_validity(text: &str) -> Result<(), Message> {
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc2822;
    let Some(until) = text
        .lines()
        .find_map(|line| line.strip_prefix("Valid-Until: "))
    else {
        return Ok(());
    };
    let rfc2822 = until.trim().replace("UTC", "+0000");
    let date = OffsetDateTime::parse(&rfc2822, &Rfc2822)
        .map_err(|_| format!("its Valid-Until '{until}' is not a date"))?;
    if date < OffsetDateTime::now_utc() {
        let stale = Message::new(format!("it was valid until {until}"));
        return Err(stale.hint("the mirror is stale or the clock of this machine is wrong"));
    }
    Ok(())
}

/// Refuses the release of another suite. One key signs all suites of a distribution, so that a mirror could serve
/// an older or a less stable one. As in apt, the directory has the name of the suite or of the codename; it may
/// have the suffix `/updates` in addition.
///
/// # Errors
/// Neither `Suite` nor `Codename` is the requested name, or both are missing.
pub fn check_suite(text: &str, requested: &str) -> Result<(), Message> {
    let requested = requested.trim_end_matches('/');
    let expected = requested.strip_suffix("/updates").unwrap_or(requested);
    let (suite, codename) = (field(text, "Suite"), field(text, "Codename"));
    let is_expected = |name: &str| name == expected || name == requested;
    // Ubuntu's `noble-security` has the codename `noble`, too.
    let is_derived = |name: &str| {
        let rest = name.strip_prefix(expected);
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    let matches = match (suite, codename) {
        (Some(suite), _) if is_expected(suite) => true,
        (suite, Some(codename)) if is_expected(codename) => !suite.is_some_and(is_derived),
        _ => false,
    };
    if matches {
        return Ok(());
    }
    let named = match (suite, codename) {
        (None, None) => {
            let nameless = Message::new(format!(
                "it names neither a Suite nor a Codename, so it may belong to another suite than '{requested}'"
            ));
            return Err(nameless.hint(
                "ask the publisher of the repository to add one of these fields, or use another repository",
            ));
        }
        (Some(suite), None) => format!("Suite '{suite}'"),
        (None, Some(codename)) => format!("Codename '{codename}'"),
        (Some(suite), Some(codename)) => format!("Suite '{suite}' and Codename '{codename}'"),
    };
    let other = Message::new(format!(
        "it is the release of another suite: requested is '{requested}', found {named}"
    ));
    Err(other.hint(
        "correct the suite in the bundle manifest; if it is correct, the server or a mirror serves a wrong file",
    ))
}

/// Returns a field of the release.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value.trim()).filter(|value| !value.is_empty())
}

/// Returns digest and size of a file that a release lists under `SHA256:`.
pub fn entry(text: &str, path: &str) -> Option<(Digest, u64)> {
    let lists = text
        .lines()
        .skip_while(|line| line.trim_end() != "SHA256:")
        .skip(1);
    lists
        .take_while(|line| line.starts_with(' '))
        .find_map(|line| {
            let mut fields = line.split_whitespace();
            let (digest, size, name) = (fields.next()?, fields.next()?, fields.next()?);
            (name == path).then(|| Some((digest.parse().ok()?, size.parse().ok()?)))?
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_list_under_the_right_heading() {
        let hex = Digest::of(b"").hex();
        let text = format!(
            "Suite: x\nMD5Sum:\n d41d 0 main/a\nSHA256:\n {hex} 12 main/a\nSHA512:\n ff 12 main/b\n"
        );
        assert_eq!(entry(&text, "main/a"), Some((Digest::of(b""), 12)));
        assert_eq!(entry(&text, "main/b"), None);
    }

    #[test]
    fn releases_of_other_suites_are_refused() {
        let release = |fields: &[(&str, &str)]| -> String {
            let lines = fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}\n"));
            lines.collect()
        };
        let debian = release(&[("Suite", "stable"), ("Codename", "trixie")]);
        let updates = release(&[("Suite", "stable-updates"), ("Codename", "trixie-updates")]);
        let old = release(&[("Suite", "oldstable"), ("Codename", "buster")]);
        let ubuntu = release(&[("Suite", "noble"), ("Codename", "noble")]);
        let security = release(&[("Suite", "noble-security"), ("Codename", "noble")]);
        let vendor = release(&[("Suite", "bookworm")]);
        for (text, requested) in [
            (&debian, "trixie"),
            (&debian, "stable"),
            (&updates, "trixie-updates"),
            (&old, "buster/updates"),
            (&ubuntu, "noble"),
            (&security, "noble-security"),
            (&vendor, "bookworm"),
        ] {
            assert_eq!(check_suite(text, requested), Ok(()), "{requested}");
        }
        for (text, requested) in [
            (&debian, "bookworm"),
            (&debian, "trixie-updates"),
            (&updates, "trixie"),
            (&updates, "stable"),
            (&security, "noble"),
            (&ubuntu, "noble-security"),
            (&vendor, "trixie"),
            (&release(&[("Origin", "x")]), "trixie"),
            (&release(&[("Suite", "")]), "trixie"),
            // A field below a list is not a field of the release.
            (
                &release(&[("Suite", "x"), (" Codename", "trixie")]),
                "trixie",
            ),
        ] {
            let refused = check_suite(text, requested).unwrap_err();
            assert!(refused.hint.is_some(), "{requested}: {refused}");
        }
    }

    #[test]
    fn stale_releases_are_refused() {
        assert!(check_validity("Valid-Until: Sat, 01 Jan 2022 00:00:00 UTC\n").is_err());
        assert!(check_validity("Valid-Until: Sat, 01 Jan 2222 00:00:00 UTC\n").is_ok());
    }
}
