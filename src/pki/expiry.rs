//! When a certificate is about to expire.

/// Certificates with less time get a warning, in days.
const SOON: i64 = 60;

/// Returns with how many days left a certificate gets a warning: less than 60, than a third of a shorter validity, or than
/// one day.
pub fn soon(days_valid: i64) -> i64 {
    SOON.min(days_valid / 3).max(1)
}

/// Returns the same for a certificate that the kubelet renews. It does so when 10 to 30 % of the validity are left
/// (<https://kubernetes.io/docs/tasks/tls/certificate-rotation/>).
pub fn soon_of_rotated(days_valid: i64) -> i64 {
    SOON.min(days_valid / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_of_a_day_expires_today() {
        assert_eq!([0, 2, 9, 365].map(soon), [1, 1, 3, SOON]);
    }
}
