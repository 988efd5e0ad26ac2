//! `spec.security`.

use crate::cluster::{Encryption, EncryptionProvider, Security, SecurityProfile};
use crate::reader::{Fields, accept};

/// Maximum number of a key. The API servers can read with all keys up to the next one.
const MOST_KEYS: i64 = 100;

pub(super) fn read_security(spec: &Fields<'_>) -> Security {
    let fields = spec.section("security");
    let profile = fields
        .as_ref()
        .and_then(|fields| fields.one_of("profile", SecurityProfile::ALL, SecurityProfile::name));
    let profile = profile.unwrap_or(SecurityProfile::Default);
    let default = match profile {
        SecurityProfile::Default => None,
        SecurityProfile::Cis => Some(Encryption {
            provider: EncryptionProvider::Secretbox,
            key: 1,
        }),
    };
    let section = fields
        .as_ref()
        .and_then(|fields| fields.section("encryption"));
    let encryption = section.map_or(default, |section| read_encryption(section, default));
    if let Some(fields) = fields {
        fields.finish();
    }
    Security {
        profile,
        encryption,
    }
}

fn read_encryption(fields: Fields<'_>, default: Option<Encryption>) -> Option<Encryption> {
    let names = [&["none"], EncryptionProvider::NAMES].concat();
    let provider = fields.choice("provider", accept(&names));
    let key = fields.number("key", 0, MOST_KEYS);
    if provider == Some("none") {
        let hint = "remove it, or set another provider";
        fields.problem("key", "is not accepted with provider: none", Some(hint));
    }
    fields.finish();
    let provider = match provider {
        Some(name) => EncryptionProvider::named(name),
        None => Some(default.map_or(EncryptionProvider::Secretbox, |one| one.provider)),
    };
    Some(Encryption {
        provider: provider?,
        key: u32::try_from(key.unwrap_or(1)).ok()?,
    })
}
