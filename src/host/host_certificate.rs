//! Verifies SSH host certificates (OpenSSH PROTOCOL.certkeys) against `@cert-authority` lines of `known_hosts`.

use std::time::{SystemTime, UNIX_EPOCH};

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Certificate, HashAlg};

use super::known_hosts::{HostKeys, Mark, Recorded, Verdict};
use kubexm_types::{Message, Untrusted};

impl HostKeys {
    /// Returns whether a file names an authority for the host. Only then kubexm requests a certificate.
    pub fn has_authority(&self, address: &str, port: u16) -> bool {
        let recorded = self.recorded(address, port).unwrap_or_default();
        recorded.iter().any(|known| known.mark == Mark::Authority)
    }

    /// Compares a presented certificate with the files. The signature, the authority, the period and the host's
    /// address must fit; options that kubexm does not know are refused.
    pub fn judge_certificate(
        &self,
        address: &str,
        port: u16,
        certificate: &Certificate,
    ) -> Verdict {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let checked = self.recorded(address, port).map_err(Message::quoting);
        match checked.and_then(|recorded| check(&recorded, address, certificate, now)) {
            Ok(()) => Verdict::Known,
            Err(reason) => Verdict::Refused(reason),
        }
    }
}

fn check(
    recorded: &[Recorded],
    address: &str,
    certificate: &Certificate,
    now: u64,
) -> Result<(), Message> {
    let refused = |cause: String| Message::quoting(format!("its SSH host certificate {cause}"));
    let find = |mark, key| recorded.iter().find(|known| known.is(mark, key));
    let (key, authority) = (certificate.public_key(), certificate.signature_key());
    let shown = authority.fingerprint(HashAlg::Sha256);
    for key in [key, authority] {
        if let Some(revoked) = find(Mark::Revoked, key) {
            let print = key.fingerprint(HashAlg::Sha256);
            let place = &revoked.place;
            return Err(refused(format!(
                "uses the key {print}, which is marked as revoked in {place}"
            )));
        }
    }
    if find(Mark::Authority, authority).is_none() {
        let reason = refused(format!("is signed by the unknown authority {shown}"));
        return Err(reason.hint(
            "compare it with the site's authority and add a @cert-authority line to known_hosts",
        ));
    }
    if certificate.cert_type() != CertType::Host {
        return Err(refused("is for a user and not for a host".to_owned()));
    }
    if certificate.verify_signature().is_err() {
        return Err(refused(format!("has a wrong signature of {shown}")));
    }
    // An empty list is valid for every host in old versions of OpenSSH, and for none in new ones.
    let names = certificate.valid_principals();
    if names.is_empty() {
        let reason = refused("does not name the hosts that it is for".to_owned());
        return Err(reason.hint(format!("issue a certificate for {address} (ssh-keygen -n)")));
    }
    if !names.iter().any(|name| name.eq_ignore_ascii_case(address)) {
        let names = Untrusted::one_line(&names.join(", "), 300).to_string();
        let reason = refused(format!("is not for {address}, but for '{names}'"));
        return Err(reason.hint(
            "use one of these names as address in the cluster file, or issue a certificate for the address",
        ));
    }
    if now < certificate.valid_after() || now >= certificate.valid_before() {
        let reason = refused("has expired, or is not valid yet".to_owned());
        return Err(reason.hint("issue a new certificate, and check the clock of this machine"));
    }
    match certificate.critical_options().iter().next() {
        Some((option, _)) => {
            let option = Untrusted::one_line(option, 100);
            Err(refused(format!("has the unknown option '{option}'")))
        }
        None => Ok(()),
    }
}
