//! Configuration and unit of an etcd that kubexm runs.

use std::collections::BTreeMap;

use askama::Template;

/// The environment of a member's unit.
#[derive(Template)]
#[template(path = "etcd/etcd.env")]
pub struct Environment {
    /// Variables `ETCD_…` and their values. No value needs quotes.
    pub settings: BTreeMap<String, String>,
}

/// `/etc/systemd/system/etcd.service`.
#[derive(Template)]
#[template(path = "etcd/etcd.service")]
pub struct Service {
    /// The user that runs etcd, and its group.
    pub user: String,
    /// Path of the script that runs as root before etcd.
    pub prepare: String,
    /// Whether etcd may keep all of its memory from being swapped out.
    pub lock_memory: bool,
    /// Path of etcd.
    pub binary: String,
    /// Path of the [`Environment`].
    pub environment: String,
    /// Path of the environment file that exists only during the first start of a member.
    pub initial: String,
    /// The directory of the data.
    pub data_dir: String,
    /// Flags, as [`flag`] returns them.
    pub flags: Vec<String>,
}

/// The environment of etcdctl on a member's host.
#[derive(Template)]
#[template(path = "etcd/etcdctl.env")]
pub struct ClientEnvironment {
    /// URL of the member.
    pub endpoint: String,
    /// Path of the CA certificate.
    pub ca: String,
    /// Path of the administrator's certificate.
    pub certificate: String,
    /// Path of the administrator's key.
    pub key: String,
}

/// Returns a flag as one argument of a unit's command line
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
