//! Durations on the command line.

use std::time::Duration;

/// Parses a duration, or a number of seconds.
///
/// # Errors
/// The text has another form.
pub fn or_seconds(text: &str) -> Result<Duration, String> {
    with_unit(text, 's')
}

/// Parses a duration, or a number of minutes.
///
/// # Errors
/// The text has another form.
pub fn or_minutes(text: &str) -> Result<Duration, String> {
    with_unit(text, 'm')
}

/// Parses a duration of whole days, or their number, and returns the number.
///
/// # Errors
/// The text has another form, or more than 65535 days.
pub fn days(text: &str) -> Result<u16, String> {
    let number = text.strip_suffix('d').unwrap_or(text).parse();
    number.map_err(|_| "expected a number of days such as 75d".to_owned())
}

/// Parses a duration. A number without a unit has this one.
fn with_unit(text: &str, unit: char) -> Result<Duration, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse(&format!("{text}{unit}"));
    }
    parse(text)
}

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

    #[test]
    fn number_without_a_unit_keeps_the_unit_of_its_option() {
        assert_eq!(or_seconds("600"), parse("10m"));
        assert_eq!(or_seconds("90s"), parse("90s"));
        assert_eq!(or_minutes("180"), parse("3h"));
        assert_eq!(or_minutes("3h"), parse("3h"));
        assert_eq!((days("75"), days("75d")), (Ok(75), Ok(75)));
        for wrong in ["", "s", "-5", "1.5", "75h"] {
            assert!(or_seconds(wrong).is_err() || wrong == "75h", "{wrong}");
            assert!(days(wrong).is_err(), "{wrong}");
        }
    }
}
