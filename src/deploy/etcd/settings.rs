//! The settings of a member: its identity, its certificates, and values for Kubernetes.

use std::collections::BTreeMap;

use super::member::{UserSettings, file};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_config::ports;
use kubexm_etcd::{client_url, local_endpoint, peer_url};
use kubexm_types::Version;

/// Maximum size of the database, in bytes: the largest size that etcd's documentation recommends
/// (<https://etcd.io/docs/latest/dev-guide/limit/#storage-size-limit>). The default of 2 GiB is too small for a
/// large cluster, and a full etcd refuses writes.
const QUOTA_BYTES: u64 = 8 << 30;

/// Cipher suites of TLS 1.2 with forward secrecy and authenticated encryption. Those of TLS 1.3 cannot be
/// configured.
const CIPHER_SUITES: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\
TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,\
TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// Returns the flags and values of a member, without the flags that the user sets.
pub(super) fn member_settings(
    cluster: &Cluster,
    host: &HostSpec,
    user: &UserSettings<'_>,
    version: &Version,
) -> BTreeMap<&'static str, String> {
    let client = client_url(host);
    let peer = peer_url(host);
    let certificate = |setting, name: &str| (setting, file(name));
    let mut settings = BTreeMap::from([
        ("name", host.name.to_string()),
        ("data-dir", user.data_dir.to_string()),
        (
            "listen-client-urls",
            format!("{client},{}", local_endpoint()),
        ),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer),
        ("initial-cluster-token", cluster.name.clone()),
        // The environment of the first start overrides this value. Later starts must not create a cluster.
        ("initial-cluster-state", "existing".to_owned()),
        (
            "listen-metrics-urls",
            format!("http://127.0.0.1:{}", ports::ETCD_METRICS),
        ),
        ("client-cert-auth", "true".to_owned()),
        ("peer-client-cert-auth", "true".to_owned()),
        certificate("trusted-ca-file", "ca.crt"),
        certificate("cert-file", "member.crt"),
        certificate("key-file", "member.key"),
        certificate("peer-trusted-ca-file", "ca.crt"),
        certificate("peer-cert-file", "member.crt"),
        certificate("peer-key-file", "member.key"),
        ("cipher-suites", CIPHER_SUITES.to_owned()),
        ("quota-backend-bytes", QUOTA_BYTES.to_string()),
        // The API server compacts every five minutes. This setting applies while no API server runs.
        ("auto-compaction-mode", "periodic".to_owned()),
        ("auto-compaction-retention", "8h".to_owned()),
    ]);
    settings.extend(version_settings(version));
    if user.lock_memory {
        // The former name is deprecated in 3.6.
        let name = if *version >= Version::new(3, 6, 0) {
            "memory-mlock"
        } else {
            "experimental-memory-mlock"
        };
        settings.insert(name, "true".to_owned());
    }
    settings.retain(|name, _| !user.extra_args.contains_key(*name));
    settings
}

/// Returns settings that kubeadm uses as well, under the flag names of the minor version. etcd fails on an
/// unknown flag, and warns about a deprecated one.
fn version_settings(version: &Version) -> Vec<(&'static str, String)> {
    let interval = "5s".to_owned();
    if *version >= Version::new(3, 6, 0) {
        return vec![
            ("watch-progress-notify-interval", interval),
            ("feature-gates", "InitialCorruptCheck=true".to_owned()),
        ];
    }
    vec![
        ("experimental-watch-progress-notify-interval", interval),
        ("experimental-initial-corrupt-check", "true".to_owned()),
        // The default of 3.6. The former default of 100000 needs more memory.
        ("snapshot-count", "10000".to_owned()),
    ]
}

/// Returns the settings as environment variables: `ETCD_` and the name of the flag.
pub(super) fn environment(settings: BTreeMap<&'static str, String>) -> BTreeMap<String, String> {
    let name = |flag: &str| format!("ETCD_{}", flag.replace('-', "_").to_uppercase());
    let settings = settings.into_iter();
    settings.map(|(flag, value)| (name(flag), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(version: Version, etcd: &str) -> BTreeMap<String, String> {
        let template = kubexm_config::schema::TEMPLATE;
        let text = template.replace("etcd:\n    type: kubeadm", &format!("etcd: {{{etcd}}}"));
        assert_ne!(text, template);
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let user = UserSettings::from_cluster(&cluster).unwrap();
        environment(member_settings(
            &cluster,
            &cluster.hosts[0],
            &user,
            &version,
        ))
    }

    #[test]
    fn locked_memory_has_the_name_of_the_minor() {
        let etcd = "type: systemd, lockMemory: true";
        let (older, newer) = (Version::new(3, 5, 12), Version::new(3, 6, 8));
        let (older, newer) = (settings_of(older, etcd), settings_of(newer, etcd));
        assert_eq!(older["ETCD_EXPERIMENTAL_MEMORY_MLOCK"], "true");
        assert_eq!(newer["ETCD_MEMORY_MLOCK"], "true");
        assert!(!newer.contains_key("ETCD_EXPERIMENTAL_MEMORY_MLOCK"));
    }

    /// etcd fails on a flag that its minor version does not have.
    #[test]
    fn each_minor_gets_its_flag_names() {
        let (older, newer) = (Version::new(3, 5, 12), Version::new(3, 6, 8));
        let (older, newer) = (
            settings_of(older, "type: systemd"),
            settings_of(newer, "type: systemd"),
        );
        assert_eq!(older["ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK"], "true");
        assert_eq!(newer["ETCD_FEATURE_GATES"], "InitialCorruptCheck=true");
        assert!(newer.keys().all(|name| !name.contains("EXPERIMENTAL")));
        for settings in [&older, &newer] {
            assert_eq!(settings["ETCD_CLIENT_CERT_AUTH"], "true");
            assert_eq!(settings["ETCD_PEER_CLIENT_CERT_AUTH"], "true");
            assert_eq!(settings["ETCD_INITIAL_CLUSTER_STATE"], "existing");
            assert_eq!(settings["ETCD_DATA_DIR"], "/var/lib/etcd");
            assert!(
                !settings.contains_key("ETCD_ENABLE_V2") && !settings.contains_key("ETCD_PROXY")
            );
        }
    }

    /// etcd fails if a setting is in its environment and in its flags.
    #[test]
    fn flags_of_the_user_are_not_in_the_environment() {
        let etcd = "type: systemd, dataDir: /srv/etcd, extraArgs: {quota-backend-bytes: \"1\"}";
        let settings = settings_of(Version::new(3, 6, 8), etcd);
        assert!(!settings.contains_key("ETCD_QUOTA_BACKEND_BYTES"));
        assert_eq!(settings["ETCD_DATA_DIR"], "/srv/etcd");
    }
}
