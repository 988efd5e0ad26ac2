//! What a member is told: its identity, its certificates, and settings that fit Kubernetes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::member::{Place, file};
use super::{CLIENT_PORT, METRICS_PORT, PEER_PORT};
use kubexm_config::cluster::{Cluster, HostSpec};
use kubexm_types::Version;

/// What etcd's own documents call the largest that is sensible
/// (<https://etcd.io/docs/latest/dev-guide/limit/#storage-size-limit>); 2 GiB, where nothing is
/// said, are too few for a busy cluster, and a full etcd takes no writes.
const QUOTA_BYTES: u64 = 8 << 30;

/// Suites with forward secrecy and authenticated encryption, for TLS 1.2; those of 1.3 are not chosen.
const CIPHER_SUITES: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\
TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,\
TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";

/// `https://address:port` of a host.
pub(super) fn url(host: &HostSpec, port: u16) -> String {
    format!("https://{}", SocketAddr::new(host.internal_address, port))
}

/// The member on this host, for those on it.
pub(super) fn local_endpoint() -> String {
    format!("https://127.0.0.1:{CLIENT_PORT}")
}

/// Flags and values of a member, without those that the user sets.
pub(super) fn of_member(
    cluster: &Cluster,
    host: &HostSpec,
    place: &Place<'_>,
    version: &Version,
) -> BTreeMap<&'static str, String> {
    let client = url(host, CLIENT_PORT);
    let peer = url(host, PEER_PORT);
    let certificate = |setting, name: &str| (setting, file(name));
    let mut settings = BTreeMap::from([
        ("name", host.name.to_string()),
        ("data-dir", place.data_dir.to_string()),
        (
            "listen-client-urls",
            format!("{client},{}", local_endpoint()),
        ),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer),
        ("initial-cluster-token", cluster.name.clone()),
        // The first start of all says otherwise; no later one may found a cluster.
        ("initial-cluster-state", "existing".to_owned()),
        (
            "listen-metrics-urls",
            format!("http://127.0.0.1:{METRICS_PORT}"),
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
        // The API server compacts every five minutes; this is for a time when none runs.
        ("auto-compaction-mode", "periodic".to_owned()),
        ("auto-compaction-retention", "8h".to_owned()),
    ]);
    settings.extend(of_version(version));
    settings.retain(|name, _| !place.extra_args.contains_key(*name));
    settings
}

/// What kubeadm, too, tells the etcd that it runs, by the names of the minor: a name that a minor does
/// not know ends it, and names that are on their way out make it warn.
fn of_version(version: &Version) -> Vec<(&'static str, String)> {
    let soon = "5s".to_owned();
    if *version >= Version::new(3, 6, 0) {
        return vec![
            ("watch-progress-notify-interval", soon),
            ("feature-gates", "InitialCorruptCheck=true".to_owned()),
        ];
    }
    vec![
        ("experimental-watch-progress-notify-interval", soon),
        ("experimental-initial-corrupt-check", "true".to_owned()),
        // 3.6 has this figure by itself; the 100000 of before cost memory.
        ("snapshot-count", "10000".to_owned()),
    ]
}

/// As the environment of etcd: `ETCD_` and the flag's name.
pub(super) fn environment(settings: BTreeMap<&'static str, String>) -> BTreeMap<String, String> {
    let name = |flag: &str| format!("ETCD_{}", flag.replace('-', "_").to_uppercase());
    let settings = settings.into_iter();
    settings.map(|(flag, value)| (name(flag), value)).collect()
}

/// `name=https://address:2380` of all members, for the first start.
pub(super) fn initial_cluster(cluster: &Cluster) -> String {
    let hosts = cluster.etcd_hosts().into_iter();
    let members: Vec<String> = hosts
        .map(|host| format!("{}={}", host.name, url(host, PEER_PORT)))
        .collect();
    members.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_version(version: Version, etcd: &str) -> BTreeMap<String, String> {
        let template = kubexm_config::schema::TEMPLATE;
        let text = template.replace("etcd:\n    type: kubeadm", &format!("etcd: {{{etcd}}}"));
        assert_ne!(text, template);
        let cluster = kubexm_config::parse_cluster("example", &text).unwrap();
        let place = Place::of(&cluster).unwrap();
        environment(of_member(&cluster, &cluster.hosts[0], &place, &version))
    }

    /// A flag that a minor does not know ends its etcd.
    #[test]
    fn each_minor_gets_the_names_that_it_knows() {
        let (older, newer) = (Version::new(3, 5, 12), Version::new(3, 6, 8));
        let (older, newer) = (
            of_version(older, "type: systemd"),
            of_version(newer, "type: systemd"),
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

    /// etcd ends where its environment and its flags say the same thing.
    #[test]
    fn what_the_user_sets_is_not_said_twice() {
        let etcd = "type: systemd, dataDir: /srv/etcd, extraArgs: {quota-backend-bytes: \"1\"}";
        let settings = of_version(Version::new(3, 6, 8), etcd);
        assert!(!settings.contains_key("ETCD_QUOTA_BACKEND_BYTES"));
        assert_eq!(settings["ETCD_DATA_DIR"], "/srv/etcd");
    }
}
