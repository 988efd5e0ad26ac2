//! `InRelease`: the lists that it names, and how long it is valid.

use kubexm_types::Digest;

/// Refuses a release whose `Valid-Until` has passed, because an attacker may withhold updates.
///
/// # Errors
/// The date has passed or cannot be parsed.
pub fn check_validity(text: &str) -> Result<(), String> {
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
        return Err(format!(
            "it was valid until {until}\nhint: the mirror is stale or the clock of this machine is wrong"
        ));
    }
    Ok(())
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
    fn stale_releases_are_refused() {
        assert!(check_validity("Valid-Until: Sat, 01 Jan 2022 00:00:00 UTC\n").is_err());
        assert!(check_validity("Valid-Until: Sat, 01 Jan 2222 00:00:00 UTC\n").is_ok());
    }
}
