//! Verification of a signature with a certificate: logs and timestamp authorities prove that the
//! certificate was valid when the signature was made.

use super::document::Certified;
use crate::cause::Cause;
use crate::certificate;
use crate::rekor_entry_body::ExpectedEntry;
use crate::timestamp::Timestamp;
use crate::trusted_root::TrustedRoot;
use kubexm_types::VerifyingKey;
use kubexm_types::signature_policy::Identity;

/// The result of verifying all timestamps.
struct Stamped {
    /// The times of the valid timestamps, in seconds since 1970.
    times: Vec<i64>,
    /// Why another timestamp is not valid.
    reason: Option<String>,
}

impl Certified {
    /// Returns the certificate's key, if the certificate has this identity, was valid at every proven
    /// time of signing, and a trusted log contains the signature.
    ///
    /// # Errors
    /// The reason why one of these is not the case.
    pub fn key(
        &self,
        expected: &ExpectedEntry<'_>,
        identity: &Identity,
        root: &TrustedRoot,
    ) -> Result<VerifyingKey, Cause> {
        let stamped = self.stamped(expected.signature, root);
        let mut key = None;
        let mut other_log = None;
        for entry in &self.entries {
            let promised: Vec<i64> = entry.time().into_iter().collect();
            let seen = if promised.is_empty() {
                &stamped.times
            } else {
                &promised
            };
            // An entry of an unknown log is ignored; an entry of a trusted log must be valid.
            let log = match entry.log(root, seen) {
                Ok(log) => log,
                Err(reason) => {
                    other_log = Some(reason);
                    continue;
                }
            };
            let first = *seen.first().ok_or_else(|| stamped.none())?;
            // The identity is checked first, because a wrong identity is the most frequent error.
            for time in promised.iter().chain(&stamped.times) {
                key = Some(certificate::check(
                    &self.certificate,
                    identity,
                    *time,
                    root,
                )?);
            }
            entry.must_hold(log)?;
            expected.check(entry.body(), first)?;
        }
        let none = "it has no transparency log entry, so the time of signing is unknown";
        key.ok_or_else(|| other_log.unwrap_or_else(|| none.into()))
    }

    /// Verifies the timestamps of a signature. Invalid ones are ignored, as in other implementations,
    /// because any party can add one to a signature.
    fn stamped(&self, signature: &[u8], root: &TrustedRoot) -> Stamped {
        let (mut times, mut reason) = (Vec::new(), None);
        for timestamp in &self.timestamps {
            match time(timestamp, signature, root) {
                Ok(time) => times.push(time),
                Err(why) => reason = Some(why),
            }
        }
        Stamped { times, reason }
    }
}

impl Stamped {
    /// Returns why the time of signing is unknown.
    fn none(&self) -> String {
        let reason = self.reason.as_deref();
        let reason = reason.unwrap_or("it has no timestamp");
        format!("its log entry has no time, and {reason}")
    }
}

/// Returns when a trusted authority saw a signature, in seconds since 1970.
fn time(timestamp: &[u8], signature: &[u8], root: &TrustedRoot) -> Result<i64, String> {
    let timestamp = Timestamp::read(timestamp)?;
    timestamp.must_be_of(signature)?;
    root.must_have_stamped(&timestamp)?;
    Ok(timestamp.time())
}
