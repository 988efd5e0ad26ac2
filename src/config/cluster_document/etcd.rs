//! `spec.etcd`.

use std::collections::BTreeMap;

use super::controller_file::read_file;
use super::kubernetes::read_flags;
use crate::cluster::{DEFAULT_ETCD_DATA_DIR, Etcd, FORMER_SYSTEMD};
use crate::reader::{Choice, Fields};
use kubexm_types::HostPath;

const EXTERNAL_FIELDS: [&str; 4] = ["endpoints", "caFile", "certFile", "keyFile"];

const KINDS: Choice<'_> = Choice {
    accepted: &["kubeadm", "systemd", "external"],
    former: FORMER_SYSTEMD,
    later: &[],
};

pub(super) fn read_etcd(spec: &Fields<'_>) -> Option<Etcd> {
    let Some(fields) = spec.section("etcd") else {
        return Some(Etcd::Kubeadm {
            extra_args: BTreeMap::new(),
            data_dir: HostPath::parse(DEFAULT_ETCD_DATA_DIR).ok()?,
            cert_sans: Vec::new(),
        });
    };
    let kind = match fields.get("type") {
        Some(_) => fields.choice("type", KINDS),
        None => Some("kubeadm"),
    };
    let extra_args = read_flags(&fields);
    let cert_sans = fields.values("certSANs");
    let lock_memory = fields.flag("lockMemory", false);
    if kind != Some("systemd") {
        let hint = "set type: systemd, or remove the field";
        let message = "is only accepted with type: systemd";
        fields.problem("lockMemory", message, Some(hint));
    }
    if kind == Some("external") {
        let hint = "set it where that etcd is started";
        for name in ["extraArgs", "dataDir", "certSANs"] {
            fields.problem(name, "is not accepted with type: external", Some(hint));
        }
    }
    let external = fields.section("external");
    let etcd = match (kind, &external) {
        (Some("external"), Some(external)) => read_external_etcd(external),
        (Some("external"), None) => {
            let hint = "give endpoints, caFile, certFile and keyFile";
            let path = fields.path("external");
            fields
                .reader()
                .problem(fields.node(), &path, "is missing", Some(hint));
            None
        }
        (Some(_), external) => {
            if let Some(external) = external {
                // The section is refused as a whole. These fields then count as known.
                let _ = EXTERNAL_FIELDS.map(|name| external.get(name));
            }
            let hint = "set type: external, or remove this section";
            let message = "is only accepted with type: external";
            fields.problem("external", message, Some(hint));
            let data_dir = read_data_dir(&fields);
            check_flags(&fields, &extra_args);
            data_dir.map(|data_dir| match kind {
                Some("systemd") => Etcd::Systemd {
                    extra_args,
                    data_dir,
                    cert_sans,
                    lock_memory,
                },
                _ => Etcd::Kubeadm {
                    extra_args,
                    data_dir,
                    cert_sans,
                },
            })
        }
        (None, _) => None,
    };
    if let (Some(_), Some(external)) = (kind, external) {
        external.finish();
    }
    fields.finish();
    etcd
}

/// Flags of etcd that kubexm sets, and prefixes of such flags.
const SET_BY_KUBEXM: [&str; 12] = [
    "name",
    "data-dir",
    "wal-dir",
    "config-file",
    "force-new-cluster",
    "listen-client-urls",
    "advertise-client-urls",
    "listen-peer-urls",
    "client-cert-auth",
    "trusted-ca-file",
    "cert-file",
    "key-file",
];
const PREFIXES_SET_BY_KUBEXM: [&str; 3] = ["initial-", "peer-", "discovery"];

/// Refuses flags that kubexm or kubeadm sets.
fn check_flags(fields: &Fields<'_>, flags: &BTreeMap<String, String>) {
    let taken = |name: &&String| {
        let mut prefixes = PREFIXES_SET_BY_KUBEXM.iter();
        SET_BY_KUBEXM.contains(&name.as_str()) || prefixes.any(|prefix| name.starts_with(prefix))
    };
    if let Some(name) = flags.keys().find(taken) {
        let hint = "remove the flag: dataDir sets the data directory, certSANs the names in the certificates, \
                    and roleGroups.etcd the members";
        let message = format!("'{name}' is set by kubexm");
        fields.problem("extraArgs", message, Some(hint));
    }
}

fn read_data_dir(fields: &Fields<'_>) -> Option<HostPath> {
    let data_dir = match fields.get("dataDir") {
        Some(_) => fields.value("dataDir"),
        None => HostPath::parse(DEFAULT_ETCD_DATA_DIR).ok(),
    };
    let data_dir: HostPath = data_dir?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !data_dir.as_str().chars().all(plain) {
        let message = "contains characters that a systemd unit does not accept without quotes";
        let hint = "use letters, digits, '/', '.', '_' and '-'";
        fields.problem("dataDir", message, Some(hint));
    }
    Some(data_dir)
}

fn read_external_etcd(fields: &Fields<'_>) -> Option<Etcd> {
    let hint = "an external etcd needs endpoints, caFile, certFile and keyFile";
    if !fields.require_all(&EXTERNAL_FIELDS, hint) {
        return None;
    }
    let endpoints: Vec<String> = fields.values("endpoints");
    let path = fields.path("endpoints");
    if endpoints.is_empty() && !fields.reader().has_problem_at(&path) {
        let hint = "name at least one endpoint, as in https://192.0.2.20:2379";
        fields.problem("endpoints", "is empty", Some(hint));
    }
    if !endpoints.iter().all(|endpoint| is_endpoint(endpoint)) {
        let hint = "kubexm connects to etcd with TLS only";
        fields.problem("endpoints", "expected https://host:port", Some(hint));
    }
    let [ca, cert, key] = ["caFile", "certFile", "keyFile"].map(|name| read_file(fields, name));
    Some(Etcd::External {
        endpoints,
        ca_file: ca?,
        cert_file: cert?,
        key_file: key?,
    })
}

fn is_endpoint(text: &str) -> bool {
    // The parser of URLs removes line breaks, and flags separate endpoints by commas.
    let separator = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    !text.contains(separator)
        && url::Url::parse(text).is_ok_and(|url| {
            let bare = url.path() == "/" && url.query().is_none() && url.username().is_empty();
            url.scheme() == "https" && url.has_host() && bare
        })
}
