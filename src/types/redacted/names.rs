//! Names of fields, flags and variables whose values are secret.

/// The ends of names whose values are secret, in lower case and without `-` and `_`.
const NAMES: [&str; 27] = [
    "pass",
    "password",
    "passwords",
    "passwd",
    "passwds",
    "passphrase",
    "passphrases",
    "pwd",
    "psk",
    "secret",
    "token",
    "cookie",
    "apikey",
    "connectionstring",
    "credential",
    "credentials",
    "creds",
    "encryptionkey",
    "signingkey",
    "keydata",
    "authorization",
    "secretkey",
    "sharedkey",
    "accesskey",
    "accountkey",
    "privatekey",
    "certificatekey",
];
/// Texts anywhere in names of fields that can have a secret, in lower case and without `-` and `_`. Others are also parts of other
/// words, as `pass` is of `bypass`.
const PARTS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
    "certificatekey",
];
/// What can follow such a name behind `-` or `_`.
const VERSIONS: [&str; 8] = [
    "old", "new", "prev", "previous", "current", "next", "backup", "bak",
];
/// Texts in names of environment variables whose values are secret, in lower case. `bgp_peers` of kube-vip has passwords.
const VARIABLES: [&str; 13] = [
    "pass",
    "pwd",
    "psk",
    "secret",
    "token",
    "credential",
    "key",
    "private",
    "login",
    "auth",
    "peers",
    "cookie",
    "dsn",
];

/// Returns whether an environment variable with this name can have a secret.
pub fn is_secret_variable(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    VARIABLES.iter().any(|word| lower.contains(word))
}

/// Returns whether a field of a document with this name can have a secret, in itself or below it.
pub fn is_secret_field(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let plain = lower.replace(['-', '_'], "");
    is_secret_name(&lower)
        || plain.ends_with("auth")
        || PARTS.iter().any(|word| plain.contains(word))
}

/// Returns whether a name, with or without the text before it, is that of a secret field.
pub(super) fn is_secret_name(lower: &str) -> bool {
    let lower = without_version(lower);
    NAMES.iter().any(|name| {
        let mut bytes = lower.bytes().rev().filter(|byte| !b"-_".contains(byte));
        name.bytes()
            .rev()
            .all(|expected| bytes.next() == Some(expected))
    })
}

/// Returns a name without the numbers and words that tell several of its kind apart, as in `password2` and `DB_PASSWORD_OLD`.
fn without_version(mut lower: &str) -> &str {
    const SIGNS: [char; 2] = ['-', '_'];
    loop {
        let name = lower.trim_end_matches(|c: char| c.is_ascii_digit());
        let name = name.trim_end_matches(SIGNS);
        let mut versions = VERSIONS.iter();
        let rest = versions.find_map(|version| name.strip_suffix(version));
        match rest.filter(|rest| rest.ends_with(SIGNS)) {
            Some(rest) => lower = rest,
            None => return name,
        }
    }
}
