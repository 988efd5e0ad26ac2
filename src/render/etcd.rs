//! etcd as kubexm runs it.

use std::collections::BTreeMap;

use askama::Template;

/// What a member is, as environment of its unit.
#[derive(Template)]
#[template(path = "etcd/etcd.env")]
pub struct Environment {
    /// `ETCD_…` and values, none of which needs quotes.
    pub settings: BTreeMap<String, String>,
}

/// `/etc/systemd/system/etcd.service`.
#[derive(Template)]
#[template(path = "etcd/etcd.service")]
pub struct Service {
    /// The program.
    pub binary: String,
    /// File with its environment.
    pub environment: String,
    /// File that is there only while a member starts for the first time.
    pub initial: String,
    /// Where data is.
    pub data_dir: String,
    /// Flags, by [`flag`].
    pub flags: Vec<String>,
}

/// What etcdctl of a member's host is told.
#[derive(Template)]
#[template(path = "etcd/etcdctl.env")]
pub struct ClientEnvironment {
    /// The member.
    pub endpoint: String,
    /// CA certificate file.
    pub ca: String,
    /// The administrator's certificate file.
    pub certificate: String,
    /// Its key file.
    pub key: String,
}

/// `/usr/local/bin/etcdctl`.
#[derive(Template)]
#[template(path = "etcd/etcdctl", escape = "none")]
pub struct ClientScript {
    /// The program.
    pub binary: String,
    /// File with the environment.
    pub environment: String,
}

/// A flag as one word of a unit's command line
/// (<https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines>).
pub fn flag(name: &str, value: &str) -> String {
    let mut word = format!("\"--{name}=");
    for character in value.chars() {
        match character {
            '%' | '$' => word.extend([character, character]),
            '"' | '\\' => word.extend(['\\', character]),
            '\n' => word.push_str("\\n"),
            other => word.push(other),
        }
    }
    word.push('"');
    word
}
