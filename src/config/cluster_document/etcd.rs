//! `spec.etcd`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::hosts::expand_home;
use crate::cluster::{Etcd, FORMER_SYSTEMD};
use crate::reader::{Choice, Fields};
use kubexm_types::HostPath;

const KINDS: Choice<'_> = Choice {
    accepted: &["kubeadm", "systemd", "external"],
    former: FORMER_SYSTEMD,
    later: &[],
};

pub(super) fn read_etcd(spec: &Fields<'_>) -> Option<Etcd> {
    let Some(fields) = spec.section("etcd") else {
        return Some(Etcd::Kubeadm {
            extra_args: BTreeMap::new(),
        });
    };
    let kind = match fields.get("type") {
        Some(_) => fields.choice("type", KINDS),
        None => Some("kubeadm"),
    };
    let extra_args = fields.text_map("extraArgs");
    let external = fields.section("external");
    let etcd = match (kind, &external) {
        (Some("external"), Some(external)) => {
            let hint = "set them where that etcd is started";
            refuse(
                &fields,
                "extraArgs",
                "is not taken with type: external",
                hint,
            );
            read_external_etcd(external)
        }
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
                read_external_etcd(external);
            }
            let hint = "set type: external, or take this section away";
            refuse(
                &fields,
                "external",
                "is taken only with type: external",
                hint,
            );
            match kind {
                Some("systemd") => read_own_etcd(&fields, extra_args),
                _ => Some(Etcd::Kubeadm { extra_args }),
            }
        }
        (None, _) => None,
    };
    if kind != Some("systemd") {
        let hint = "set type: systemd, or leave it out";
        refuse(&fields, "dataDir", "is taken only with type: systemd", hint);
    }
    if let (Some(_), Some(external)) = (kind, external) {
        external.finish();
    }
    fields.finish();
    etcd
}

/// A field that would be ignored is a mistake.
fn refuse(fields: &Fields<'_>, name: &'static str, message: &str, hint: &str) {
    if let Some(node) = fields.get(name) {
        fields
            .reader()
            .problem(node, &fields.path(name), message, Some(hint));
    }
}

/// What kubexm tells members itself, by the names of flags; and families of such, by their beginnings.
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
const FAMILIES_SET_BY_KUBEXM: [&str; 3] = ["initial-", "peer-", "discovery"];

fn read_own_etcd(fields: &Fields<'_>, extra_args: BTreeMap<String, String>) -> Option<Etcd> {
    let taken = |name: &&String| {
        SET_BY_KUBEXM.contains(&name.as_str())
            || FAMILIES_SET_BY_KUBEXM
                .iter()
                .any(|family| name.starts_with(family))
    };
    if let (Some(node), Some(name)) = (fields.get("extraArgs"), extra_args.keys().find(taken)) {
        let hint = "leave it out; dataDir says where data is, and roleGroups.etcd who is a member";
        let message = format!("'{name}' is set by kubexm");
        let path = fields.path("extraArgs");
        fields.reader().problem(node, &path, message, Some(hint));
    }
    let data_dir = match fields.get("dataDir") {
        Some(_) => fields.value("dataDir"),
        None => HostPath::parse("/var/lib/etcd").ok(),
    };
    let data_dir: HostPath = data_dir?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if let Some(node) = fields
        .get("dataDir")
        .filter(|_| !data_dir.as_str().chars().all(plain))
    {
        let message = "has characters that a unit's settings do not take as they are";
        let hint = "use letters, digits, '.', '_' and '-'";
        let path = fields.path("dataDir");
        fields.reader().problem(node, &path, message, Some(hint));
    }
    Some(Etcd::Systemd {
        extra_args,
        data_dir,
    })
}

fn read_external_etcd(fields: &Fields<'_>) -> Option<Etcd> {
    let reader = fields.reader();
    let endpoints: Vec<String> = fields.values("endpoints");
    if let Some(node) = fields.required("endpoints") {
        let path = fields.path("endpoints");
        if endpoints.is_empty() && !reader.has_problem_at(&path) {
            reader.problem(node, &path, "names no endpoint", None);
        }
        if !endpoints.iter().all(|endpoint| is_endpoint(endpoint)) {
            let hint = "etcd must use TLS";
            reader.problem(node, &path, "wants https://host:port", Some(hint));
        }
    }
    let file = |name: &'static str| -> Option<PathBuf> {
        let node = fields.required(name)?;
        let path = expand_home(&fields.text(name)?);
        if !path.is_file() {
            let message = format!("there is no file {}", path.display());
            reader.problem(node, &fields.path(name), message, None);
        }
        Some(path)
    };
    let (ca, cert, key) = (file("caFile"), file("certFile"), file("keyFile"));
    Some(Etcd::External {
        endpoints,
        ca_file: ca?,
        cert_file: cert?,
        key_file: key?,
    })
}

fn is_endpoint(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| {
        let bare = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        url.scheme() == "https" && url.has_host() && bare
    })
}
