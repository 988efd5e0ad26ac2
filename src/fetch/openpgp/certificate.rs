//! A primary key with its subkeys and the signatures over them (RFC 9580, 10.1).

use std::collections::BTreeMap;

use pgp::composed::{SignedPublicKey, SignedPublicKeyParser, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Packet, PublicKey, Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, KeyVersion, Tag};

use super::SKEW;
use super::error::{Refusal, Refused, shown};
use super::standing::{AnyKey, Lifetime, SigningKey};

/// All copies of one key.
pub(super) struct Certificate {
    primary: PublicKey,
    copies: Vec<SignedPublicKey>,
    /// All revocations of keys and subkeys in the keyring, of whatever key.
    revocations: Vec<Signature>,
}

/// Groups the packets of a keyring by primary key.
pub(super) fn certificates(packets: Vec<Packet>) -> Vec<Certificate> {
    // A revocation may be a block or a file of its own, as `gpg --gen-revoke` writes it.
    let revocations = packets.iter().filter_map(|packet| match packet {
        Packet::Signature(signature) => {
            Some(signature).filter(|signature| is_revocation(signature))
        }
        _ => None,
    });
    let revocations: Vec<Signature> = revocations.cloned().collect();
    let packets = packets.into_iter().map(Ok).peekable();
    let mut certificates: Vec<Certificate> = Vec::new();
    for copy in SignedPublicKeyParser::from_packets(packets).filter_map(Result::ok) {
        let primary = copy.primary_key.clone();
        match certificates.iter_mut().find(|one| one.primary == primary) {
            Some(known) => known.copies.push(copy),
            None => certificates.push(Certificate {
                primary,
                copies: vec![copy],
                revocations: revocations.clone(),
            }),
        }
    }
    certificates
}

fn is_revocation(signature: &Signature) -> bool {
    matches!(
        signature.typ(),
        Some(SignatureType::KeyRevocation | SignatureType::SubkeyRevocation)
    )
}

impl Certificate {
    /// Returns the primary key and all subkeys. `now` is the current time, in seconds since 1970.
    pub fn signing_keys(&self, now: u64) -> Vec<SigningKey> {
        let id = shown(&self.primary.legacy_key_id());
        let refused = |cause| Refused {
            key: id.clone(),
            cause,
        };
        let primary = self.primary(now).map_err(refused);
        let standing = primary.clone().and_then(|(lifetime, may_sign)| {
            let standing = may_sign.then_some(vec![lifetime]);
            standing.ok_or_else(|| refused(Refusal::NotForSigning))
        });
        let mut keys = vec![SigningKey {
            key: AnyKey::Primary(self.primary.clone()),
            id: id.clone(),
            standing,
        }];
        for copies in self.subkeys() {
            let key = &copies[0].key;
            let id = shown(&key.legacy_key_id());
            let standing = primary.clone().and_then(|(above, _)| {
                let lifetime = self.subkey(&copies, now);
                let lifetime = lifetime.map_err(|cause| Refused {
                    key: id.clone(),
                    cause,
                })?;
                Ok(vec![above, lifetime])
            });
            keys.push(SigningKey {
                key: AnyKey::Subkey(key.clone()),
                id: id.clone(),
                standing,
            });
        }
        keys
    }

    /// Returns the lifetime of the primary key, and whether it may sign.
    fn primary(&self, now: u64) -> Result<(Lifetime, bool), Refusal> {
        let key = &self.primary;
        if !matches!(key.version(), KeyVersion::V4 | KeyVersion::V6) {
            return Err(Refusal::OldVersion);
        }
        if self
            .revocations
            .iter()
            .any(|one| one.verify_key(key).is_ok())
        {
            return Err(Refusal::Revoked);
        }
        let mut users = self.of_users(now);
        users.sort_by_key(|signature| std::cmp::Reverse(made(signature)));
        // The direct key signature applies to the key whatever its user IDs state; then the newest
        // signature that has the subpacket (`merge_selfsigs_main` of GnuPG's g10/getkey.c).
        let own: Vec<&Signature> = self.direct(now).into_iter().chain(users).collect();
        if own.is_empty() {
            return Err(Refusal::NotSelfSigned);
        }
        let flags = own.iter().find_map(|signature| may_sign(signature));
        let expires = own.iter().find_map(|signature| expiry(signature));
        Ok((Lifetime::of(key, expires), flags.unwrap_or(true)))
    }

    /// Returns the newest direct key signature (RFC 9580, 5.2.1.10).
    fn direct(&self, now: u64) -> Option<&Signature> {
        let all = self.copies.iter();
        let all = all.flat_map(|copy| &copy.details.direct_signatures);
        newest(all.filter(|signature| {
            signature.typ() == Some(SignatureType::Key)
                && is_in_force(signature, now)
                && signature.verify_key(&self.primary).is_ok()
        }))
    }

    /// Returns the newest self-signature of each user ID that is not revoked (RFC 9580, 5.2.3.10).
    fn of_users(&self, now: u64) -> Vec<&Signature> {
        let mut users: BTreeMap<&[u8], Vec<&Signature>> = BTreeMap::new();
        for user in self.copies.iter().flat_map(|copy| &copy.details.users) {
            let own = user.signatures.iter().filter(|signature| {
                is_in_force(signature, now)
                    && signature
                        .verify_certification(&self.primary, Tag::UserId, &user.id)
                        .is_ok()
            });
            users.entry(user.id.id()).or_default().extend(own);
        }
        users.into_values().filter_map(current).collect()
    }

    /// Groups the copies of each subkey.
    fn subkeys(&self) -> Vec<Vec<&SignedPublicSubKey>> {
        let mut subkeys: Vec<Vec<&SignedPublicSubKey>> = Vec::new();
        for subkey in self.copies.iter().flat_map(|copy| &copy.public_subkeys) {
            match subkeys.iter_mut().find(|one| one[0].key == subkey.key) {
                Some(known) => known.push(subkey),
                None => subkeys.push(vec![subkey]),
            }
        }
        subkeys
    }

    /// Returns the lifetime of a subkey that may sign.
    fn subkey(&self, copies: &[&SignedPublicSubKey], now: u64) -> Result<Lifetime, Refusal> {
        let (primary, key) = (&self.primary, &copies[0].key);
        let is_bound = |one: &Signature| one.verify_subkey_binding(primary, key).is_ok();
        let is_revocation = |one: &&Signature| one.typ() == Some(SignatureType::SubkeyRevocation);
        // A later binding does not undo it, as in GnuPG.
        if self.revocations.iter().filter(is_revocation).any(is_bound) {
            return Err(Refusal::Revoked);
        }
        let all = copies.iter().flat_map(|copy| &copy.signatures);
        let binding = newest(all.filter(|one| {
            one.typ() == Some(SignatureType::SubkeyBinding)
                && is_in_force(one, now)
                && is_bound(one)
        }));
        let above = || shown(&primary.legacy_key_id());
        let binding = binding.ok_or_else(|| Refusal::NotBound(above()))?;
        if may_sign(binding) != Some(true) {
            return Err(Refusal::NotForSigning);
        }
        let back = binding.embedded_signature();
        let is_back_signed = back.is_some_and(|back| {
            is_in_force(back, now) && back.verify_primary_key_binding(key, primary).is_ok()
        });
        if is_back_signed {
            Ok(Lifetime::of(key, expiry(binding)))
        } else {
            Err(Refusal::NoBackSignature(above()))
        }
    }
}

/// Returns the newest self-signature of a user ID, unless a revocation is newer (RFC 9580, 5.2.1.13).
fn current(own: Vec<&Signature>) -> Option<&Signature> {
    let (revocations, certifications): (Vec<&Signature>, Vec<&Signature>) = own
        .into_iter()
        .partition(|one| one.typ() == Some(SignatureType::CertRevocation));
    let certified = newest(certifications.into_iter())?;
    let revoked = newest(revocations.into_iter());
    let is_revoked = revoked.is_some_and(|revoked| made(revoked) >= made(certified));
    (!is_revoked).then_some(certified)
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|signature| made(signature))
}

/// Returns the creation time of a signature, in seconds since 1970.
fn made(signature: &Signature) -> u64 {
    signature
        .created()
        .map_or(0, |created| u64::from(created.as_secs()))
}

/// Whether a self-signature applies now: it has a time, is not from the future, has not expired and does
/// not use MD5.
fn is_in_force(signature: &Signature, now: u64) -> bool {
    let lifetime = signature.signature_expiration_time();
    let lifetime = lifetime.map_or(0, |lifetime| u64::from(lifetime.as_secs()));
    let made = made(signature);
    let digest = signature.hash_alg();
    made != 0
        && made <= now + SKEW
        && (lifetime == 0 || now < made + lifetime)
        && digest.is_some_and(|digest| digest != HashAlgorithm::Md5)
}

/// Returns the flag for signing, or `None` if the signature has no key flags.
fn may_sign(signature: &Signature) -> Option<bool> {
    signature
        .config()?
        .hashed_subpackets()
        .find_map(|subpacket| match &subpacket.data {
            SubpacketData::KeyFlags(flags) => Some(flags.sign()),
            _ => None,
        })
}

/// Returns when the key expires, in seconds after its creation, or `None` if the signature does not
/// state it.
fn expiry(signature: &Signature) -> Option<u32> {
    signature
        .key_expiration_time()
        .map(|lifetime| lifetime.as_secs())
}
