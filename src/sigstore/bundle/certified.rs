//! A signature by somebody with a certificate: whether that was good when the signature was made, by what
//! logs and timestamp authorities say.

use super::document::Certified;
use crate::body::Noted;
use crate::certificate;
use crate::timestamp::Timestamp;
use crate::trusted_root::TrustedRoot;
use kubexm_types::VerifyingKey;
use kubexm_types::signature_policy::Identity;

/// What timestamps say.
struct Stamped {
    /// When the signature was there, in seconds since 1970, by authorities that are trusted.
    times: Vec<i64>,
    /// Why another timestamp says nothing.
    reason: Option<String>,
}

impl Certified {
    /// The key in the certificate, where that is the identity's, was good whenever somebody who is trusted
    /// saw it used, and a log has the signature.
    ///
    /// # Errors
    /// Why not.
    pub fn key(
        &self,
        noted: &Noted<'_>,
        identity: &Identity,
        root: &TrustedRoot,
    ) -> Result<VerifyingKey, String> {
        let stamped = self.stamped(noted.signature, root);
        let mut key = None;
        let mut other_log = None;
        for entry in &self.entries {
            let promised: Vec<i64> = entry.time().into_iter().collect();
            let seen = match promised.is_empty() {
                true => &stamped.times,
                false => &promised,
            };
            // One of a log that nobody here knows says nothing; any other must hold.
            let log = match entry.log(root, seen) {
                Ok(log) => log,
                Err(reason) => {
                    other_log = Some(reason);
                    continue;
                }
            };
            let first = *seen.first().ok_or_else(|| stamped.none())?;
            // Who it is by comes first, since a wrong name is what people look for.
            for time in promised.iter().chain(&stamped.times) {
                key = Some(certificate::check(
                    &self.certificate,
                    identity,
                    *time,
                    root,
                )?);
            }
            entry.must_hold(log)?;
            noted.must_stand_in(entry.body(), first)?;
        }
        let none = "it has no entry of a log beside it, so nobody knows when it was made";
        key.ok_or_else(|| other_log.unwrap_or_else(|| none.to_owned()))
    }

    /// What the timestamps say of a signature. Those that do not hold say nothing, as other readers have
    /// it: anybody can put one beside a signature.
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
    /// Why nobody knows when the signature was made.
    fn none(&self) -> String {
        let reason = self.reason.as_deref();
        let reason = reason.unwrap_or("it has no timestamp beside it");
        format!("its log does not say when it was made, and {reason}")
    }
}

/// When an authority that is trusted saw a signature, in seconds since 1970.
fn time(timestamp: &[u8], signature: &[u8], root: &TrustedRoot) -> Result<i64, String> {
    let timestamp = Timestamp::read(timestamp)?;
    timestamp.must_be_of(signature)?;
    root.must_have_stamped(&timestamp)?;
    Ok(timestamp.time())
}
