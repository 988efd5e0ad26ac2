//! Durations on the command line.

use std::time::Duration;

/// Parses a number with the unit s, m, h or d, as in 90s, 10m, 2h or 3d.
///
/// # Errors
/// The text has another form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];
    let parsed = units.into_iter().find_map(|(unit, seconds)| {
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs(u64::from(number) * seconds))
    });
    parsed.ok_or_else(|| "expected a duration such as 90s, 10m, 2h or 3d".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn duration_is_a_number_and_a_unit() {
        assert_eq!(parse("90s").unwrap().as_secs(), 90);
        assert_eq!(parse("10m").unwrap().as_secs(), 600);
        assert_eq!(parse("2d").unwrap().as_secs(), 172_800);
        for wrong in ["", "10", "m", "-5m", "10 m", "5mm", "é", "99999999999d"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
