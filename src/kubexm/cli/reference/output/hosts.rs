//! Examples of documents about hosts of a cluster, and about access to it.

use kubexm_diagnose::support_bundle::SupportBundle;
use kubexm_host::HostError;
use kubexm_operate::exec::{Ended, ExecReport, NotRun};
use kubexm_operate::kubeconfig::WrittenKubeconfig;
use kubexm_operate::logs::{LogEntry, LogsReport};
use kubexm_safekeeping::certs::{CertificateReport, CheckedCertificate, Content, Standing};
use kubexm_types::HostName;
use kubexm_types::message::HostReason;

pub(super) fn certificates() -> CertificateReport {
    CertificateReport {
        cluster: "example".to_owned(),
        rotation: None,
        certificates: vec![CheckedCertificate {
            host: Some(host("node1")),
            path: "/etc/kubernetes/pki/apiserver.crt".to_owned(),
            purpose: "server of the API server".to_owned(),
            content: Content {
                subject: Some("kube-apiserver".to_owned()),
                issuer: Some("kubernetes".to_owned()),
                serial: Some("67f9b0c1a5d2e384".to_owned()),
                names: vec!["10.96.0.1".to_owned(), "node1".to_owned()],
                is_ca: false,
                expires: Some("2027-01-31T12:00:00Z".to_owned()),
                days_left: Some(41),
            },
            standing: Standing::ExpiresSoon,
        }],
        damaged: None,
        unchecked: vec![HostReason {
            host: host("node2"),
            reason: "cannot connect to 192.0.2.12: timed out".to_owned(),
            hint: None,
        }],
    }
}

pub(super) fn support_bundle() -> SupportBundle {
    SupportBundle {
        path: "support-cluster-20260131T120000Z.tar.zst".into(),
        size: 812_345,
        files: 214,
        hosts: vec![host("node1")],
        missing: vec!["node2: cannot be reached".to_owned()],
    }
}

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn unreachable(name: &str) -> HostError {
    HostError::Unreachable {
        host: host(name),
        address: "192.0.2.13:22".to_owned(),
        reason: "no route to host".into(),
    }
}

pub(super) fn exec() -> ExecReport {
    ExecReport {
        hosts: vec![Ended {
            host: host("node1"),
            exit_status: 0,
            stdout: "active\n".to_owned(),
            stderr: String::new(),
        }],
        failed: vec![NotRun {
            host: host("node3"),
            error: unreachable("node3"),
        }],
        stopped: vec![host("node2")],
    }
}

pub(super) fn logs() -> LogsReport {
    LogsReport {
        entries: vec![LogEntry {
            time: time::macros::datetime!(2026-01-31 12:00:00.25 UTC),
            host: host("node1"),
            source: "kubelet".to_owned(),
            message: "Started kubelet".to_owned(),
        }],
        errors: vec![unreachable("node3")],
    }
}

pub(super) fn kubeconfig() -> WrittenKubeconfig {
    WrittenKubeconfig {
        path: "anna.conf".into(),
        user: "anna".to_owned(),
        group: Some("developers".to_owned()),
        expires: time::macros::datetime!(2026-03-02 12:00:00 UTC),
    }
}
