//! The page of the JSON documents of `--output json`: each with an example, serialized by the commands' code.

mod backup;
mod hosts;

use std::fmt::Write;
use std::path::Path;

use super::table::escaped;
use crate::cli::bundle::sbom::SbomFile;
use crate::cli::doctor;
use crate::cli::man::Pages;
use crate::cli::output;
use crate::cli::plan::PlanFile;
use crate::cli::registry;
use crate::cli::status;
use crate::cli::timer;
use kubexm_bundling::CreationTime;
use kubexm_bundling::cache::{
    CacheContents, CacheVerification, CachedBlob, Collected, PartialDownload,
};
use kubexm_bundling::config::{FileProblem, Validation};
use kubexm_bundling::diff::{self, Comparison, ItemKind, KindSummary};
use kubexm_bundling::extract::Extracted;
use kubexm_bundling::find_images::{FoundImages, NeededImage, SourceImages};
use kubexm_bundling::inspect::{
    BaseInfo, Contents, Inspection, Item, ItemSignature, PackageSet, SignatureInfo, SignedBy,
};
use kubexm_bundling::inventory::InventoryReport;
use kubexm_bundling::outdated::{MovedTag, Outdated, OutdatedComponent};
use kubexm_bundling::sign::KeyFiles;
use kubexm_bundling::trust::{TrustBasis, TrustGroup, TrustRecord};
use kubexm_bundling::verify::{Depth, Verification};
use kubexm_lifecycle::plan::{
    Difference, HostDiff, InstallDiff, PlanDiff, PlanDocument, Reason, TaskId,
};
use kubexm_lifecycle::render::Rendered;
use kubexm_operate::applications::{
    ApplicationDiff, ApplicationList, ApplicationValues, ListedApplication,
};
use kubexm_operate::conformance::{ConformanceReport, FailedTest};
use kubexm_session::application_changes::{ApplicationChange, Change, ObjectChange};
use kubexm_types::message::Listed;
use kubexm_types::{Arch, Digest};

const INTRODUCTION: &str = "With `--output json` a command that prints facts prints one JSON document on \
standard output. Its `apiVersion` and `kind` name the schema. A later version of kubexm may add fields; a \
field is removed or changed only together with a new `apiVersion`. Sizes are in bytes. If the command fails, \
it prints an `Error` document instead and ends with the exit code in it; for wrong arguments it prints none. The JSON schema of all documents is \
`manifests/schema/output.json`. `config validate`, `cache verify`, \
`bundle outdated` and `bundle vulnerabilities` describe a failure in their own document.

Commands with progress print [events](events.md), and so do `exec` and `kubeconfig` with `--dry-run`. `bundle sbom` without `-o` prints an SBOM. `config init`, \
`config schema` and `completions` print the same text with and without this option.";

/// A kind of document: its name, the commands that print it, and an example.
struct Kind {
    name: &'static str,
    commands: &'static str,
    json: String,
}

fn kind<T: serde::Serialize>(name: &'static str, commands: &'static str, body: &T) -> Kind {
    Kind {
        name,
        commands,
        json: output::json(name, body).unwrap(),
    }
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn inspection() -> Inspection {
    Inspection {
        name: "kubernetes".to_owned(),
        path: "bundle.tar.zst".into(),
        size: 199_229_440,
        volumes: None,
        base: Some(BaseInfo {
            name: "the site".to_owned(),
            blobs: 40,
            total: 120,
        }),
        signed_by: Some("93D1E5D6B2B1F1A4".to_owned()),
        signature: Some(SignatureInfo {
            key: "93D1E5D6B2B1F1A4".to_owned(),
            verified: true,
            created: CreationTime::of_source_date_epoch(Some("1767323045")).unwrap(),
            sequence: "1767323045".parse().ok(),
        }),
        lock: digest("lock").to_string(),
        kubernetes: vec!["1.36.3".to_owned()],
        architectures: vec![Arch::Amd64],
        files: 14,
        images: 12,
        oci_artifacts: 0,
        publishers: vec![SignedBy {
            signer: "krel-trust@k8s-releng-prod.iam.gserviceaccount.com".to_owned(),
            images: 8,
            files: 3,
        }],
        trust: vec![
            TrustGroup {
                basis: TrustBasis::Signature,
                items: vec![TrustRecord {
                    kind: ItemKind::File,
                    name: "kubeadm 1.36.3 amd64".to_owned(),
                    signer: Some("krel-staging@k8s-releng-prod.iam.gserviceaccount.com".to_owned()),
                    source: "https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubeadm.sha256"
                        .parse()
                        .ok(),
                    unsigned: None,
                }],
            },
            TrustGroup {
                basis: TrustBasis::MirrorChecksum,
                items: vec![TrustRecord {
                    kind: ItemKind::Image,
                    name: "registry.k8s.io/pause:3.10".to_owned(),
                    signer: None,
                    source: "https://registry.k8s.io/v2/pause/manifests/3.10"
                        .parse()
                        .ok(),
                    unsigned: "registry.k8s.io".parse().ok(),
                }],
            },
        ],
        user_content: 0,
        packages: vec![PackageSet {
            distribution: "debian".to_owned(),
            release: "13".to_owned(),
            arch: Arch::Amd64,
            packages: 20,
        }],
    }
}

fn contents() -> Contents {
    Contents {
        items: vec![Item {
            kind: "file",
            name: "kubeadm".to_owned(),
            version: Some("1.36.3".to_owned()),
            architectures: vec![Arch::Amd64],
            release: None,
            size: 73_400_320,
            digest: digest("kubeadm"),
            signature: Some(ItemSignature {
                by: "krel-staging@k8s-releng-prod.iam.gserviceaccount.com".to_owned(),
                digest: digest("signature"),
            }),
            runs: Vec::new(),
        }],
    }
}

fn plan() -> PlanDocument {
    let json = serde_json::json!({
        "planVersion": 1,
        "hosts": ["node1"],
        "tasks": [{
            "id": "runtime/install@node1",
            "module": "runtime",
            "name": "install",
            "host": "node1",
            "after": ["os/prepare@node1"],
            "requires": [],
            "provides": [],
            "steps": [{
                "kind": "ensure",
                "id": "write /etc/containerd/config.toml",
                "title": "Write /etc/containerd/config.toml",
            }],
        }],
    });
    serde_json::from_value(json).unwrap()
}

fn found_images() -> FoundImages {
    FoundImages {
        sources: vec![SourceImages {
            source: "chart app 1.0.0".to_owned(),
            doubt: None,
            images: vec![NeededImage {
                name: "docker.io/library/nginx:1.29".to_owned(),
                place: "Deployment web, container nginx".to_owned(),
                included: true,
                problem: None,
            }],
        }],
    }
}

fn outdated() -> Outdated {
    Outdated {
        components: vec![OutdatedComponent {
            name: "containerd".to_owned(),
            version: "2.3.7".to_owned(),
            newest_patch: Some("2.3.9".to_owned()),
            newest: Some("2.4.1".to_owned()),
        }],
        images: vec![MovedTag {
            name: "docker.io/library/nginx:1.29".to_owned(),
            digest: digest("before"),
            now: digest("after"),
        }],
        errors: Vec::new(),
    }
}

fn validation() -> Validation {
    Validation {
        file: "cluster.yaml".into(),
        valid: false,
        content: None,
        notices: Vec::new(),
        problems: vec![FileProblem {
            line: Some(46),
            column: Some(5),
            path: "spec.system.disableSwop".to_owned(),
            message: "unknown field".to_owned(),
            hint: Some("did you mean 'disableSwap'?".to_owned()),
        }],
    }
}

fn application_change() -> ApplicationChange {
    let object = |change, api_version: &str, kind: &str, name: &str| ObjectChange {
        change,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("web".to_owned()),
        name: name.to_owned(),
        diff: None,
    };
    ApplicationChange {
        name: "shop".to_owned(),
        namespace: "web".to_owned(),
        reason: Some("revision 3 of shop has another chart or other values".to_owned()),
        not_compared: None,
        objects: vec![
            ObjectChange {
                diff: Some("@@ -1,4 +1,4 @@\n apiVersion: v1\n data:\n-  text: first\n+  text: second\n kind: ConfigMap".to_owned()),
                ..object(Change::Changed, "v1", "ConfigMap", "page")
            },
            object(Change::Created, "apps/v1", "Deployment", "cache"),
        ],
    }
}

fn plan_diff() -> PlanDiff {
    let difference = |step: &str, reason| Difference {
        task: TaskId("network/bridge@node1".to_owned()),
        id: String::new(),
        step: step.to_owned(),
        reason,
    };
    PlanDiff {
        hosts: vec![HostDiff {
            host: "node1".parse().unwrap(),
            unchanged: 55,
            differences: vec![
                difference(
                    "Write /etc/systemd/system/kubexm-pod-routes.service",
                    Reason::Needed("does not exist".to_owned()),
                ),
                difference(
                    "Write /etc/kubexm/pod-routes.sh",
                    Reason::DependsOn(vec![TaskId("network/subnets@node1".to_owned())]),
                ),
            ],
            actions: 2,
            unreachable: None,
        }],
    }
}

fn vulnerabilities() -> serde_json::Value {
    serde_json::json!({
        "records": 31_000,
        "newest": "2026-11-20T07:14:09Z",
        "subjects": 412,
        "findings": [{
            "severity": "high",
            "score": 7.5,
            "id": "CVE-2023-39325",
            "aliases": ["GHSA-4374-p667-p6c8"],
            "component": "golang.org/x/net",
            "version": "0.16.0",
            "purl": "pkg:golang/golang.org/x/net@v0.16.0",
            "fixed": ["0.17.0"],
            "summary": "HTTP/2 rapid reset can cause excessive work in net/http",
            "places": ["file etcd amd64"],
        }],
        "notes": [],
    })
}

fn kinds() -> Vec<Kind> {
    let verification = Verification {
        path: "bundle.tar.zst".into(),
        verified: Depth::Content,
        proven: 17,
        signature: inspection().signature,
        publishers: inspection().publishers,
        signed_in_base: 0,
        not_verified: Vec::new(),
    };
    let comparison = Comparison {
        differences: vec![diff::Difference {
            kind: ItemKind::File,
            name: "file containerd amd64".to_owned(),
            before: Some("2.3.6".to_owned()),
            after: Some("2.3.7".to_owned()),
        }],
        summary: vec![KindSummary {
            kind: ItemKind::File,
            changed: 1,
            added: 0,
            removed: 0,
        }],
        new_bytes: 31_457_280,
    };
    let cache = CacheContents {
        blobs: vec![CachedBlob {
            digest: digest("blob"),
            size: 1_048_576,
        }],
        partial: vec![PartialDownload {
            path: "/root/.cache/kubexm/partial/1".into(),
            bytes: 524_288,
            total: Some(1_048_576),
        }],
    };
    let cache_verification = CacheVerification {
        blobs: 120,
        removed: Vec::new(),
    };
    let collected = Collected {
        blobs: 12,
        partial: 1,
        bytes: 104_857_600,
        dry_run: true,
    };
    let rendered = Rendered {
        files: vec!["rendered/node1/etc/containerd/config.toml".into()],
    };
    let inventory = InventoryReport {
        path: "site.inventory.yaml".into(),
        blobs: 120,
        bundles: 1,
    };
    let conformance = ConformanceReport {
        kubernetes: kubexm_types::Version::new(1, 36, 3),
        passed: 445,
        failed: vec![FailedTest {
            name: "[sig-network] DNS should provide DNS for services [Conformance]".to_owned(),
            message: "timed out".to_owned(),
        }],
        seconds: 3120,
        report: "conformance/20260131T120000Z".into(),
    };
    let application_diff = ApplicationDiff {
        applications: vec![application_change()],
    };
    let application_list = ApplicationList {
        applications: vec![ListedApplication {
            name: "shop".to_owned(),
            namespace: "web".to_owned(),
            chart: Some("shop".to_owned()),
            chart_version: Some("1.2.0".to_owned()),
            revision: 3,
            status: "deployed".to_owned(),
            is_changed_by_helm: false,
            is_in_cluster_file: true,
            is_of_kubexm: true,
        }],
    };
    let application_values = ApplicationValues {
        name: "shop".to_owned(),
        chart: "chart shop 1.2.0".to_owned(),
        defaults: "replicas: 1 # of the web server\n".to_owned(),
        values: serde_json::json!({"database": {"password": "hidden"}, "replicas": 2}),
    };
    let plan_file = PlanFile {
        path: Path::new("plan.json"),
        tasks: 34,
        hosts: 3,
    };
    let keys = KeyFiles {
        secret: "site.key".into(),
        public: "site.pub".into(),
    };
    let extracted = output::Files {
        files: &[Extracted {
            path: "./kubectl".into(),
            description: "kubectl 1.36.3 amd64".to_owned(),
        }],
    };
    vec![
        kind("BundleInspection", "`bundle inspect`", &inspection()),
        kind("BundleContents", "`bundle list`", &contents()),
        kind("BundleVerification", "`bundle verify`", &verification),
        kind("BundleComparison", "`bundle diff`", &comparison),
        kind("OutdatedReport", "`bundle outdated`", &outdated()),
        kind("FoundImages", "`bundle find-images`", &found_images()),
        kind("ExtractedFiles", "`bundle extract`", &extracted),
        kind("KeyFiles", "`bundle keygen`", &keys),
        kind(
            "SbomFile",
            "`bundle sbom -o`",
            &SbomFile {
                path: Path::new("bundle.cdx.json"),
            },
        ),
        kind(
            "VulnerabilityReport",
            "`bundle vulnerabilities`",
            &vulnerabilities(),
        ),
        kind("Plan", "`plan`", &plan()),
        kind("PlanFile", "`plan -o`", &plan_file),
        kind(
            "PlanDiff",
            "`plan --diff`",
            &InstallDiff {
                plan: plan_diff(),
                applications: vec![application_change()],
            },
        ),
        kind("ApplicationDiff", "`app diff`", &application_diff),
        kind("ApplicationList", "`app list`", &application_list),
        kind("ApplicationValues", "`app values`", &application_values),
        kind("RenderedFiles", "`render`", &rendered),
        kind("StatusReport", "`status`", &status::example::report()),
        kind(
            "RegistryReport",
            "`registry list`",
            &registry::example::report(),
        ),
        kind(
            "Timer",
            "`certs timer status`, `backup timer status`",
            &timer::print::TimerDocument {
                timer: Some(status::example::timers().remove(0)),
                problem: None,
            },
        ),
        kind("DoctorReport", "`doctor`", &doctor::example::report()),
        kind(
            "SupportBundle",
            "`support-bundle`",
            &hosts::support_bundle(),
        ),
        kind("CertificateReport", "`certs check`", &hosts::certificates()),
        kind("BackupList", "`backup list`", &backup::list()),
        kind(
            "BackupVerification",
            "`backup verify`",
            &backup::verification(),
        ),
        kind("ConformanceReport", "`conformance`", &conformance),
        kind("ExecReport", "`exec`", &hosts::exec()),
        kind("LogsReport", "`logs`", &hosts::logs()),
        kind("WrittenKubeconfig", "`kubeconfig`", &hosts::kubeconfig()),
        kind("InventoryReport", "`inventory`", &inventory),
        kind("CacheContents", "`cache ls`", &cache),
        kind("CacheVerification", "`cache verify`", &cache_verification),
        kind("CacheCollection", "`cache gc`", &collected),
        kind("Validation", "`config validate`", &validation()),
        kind(
            "ManualPages",
            "`man`",
            &Pages {
                folder: Path::new("man1"),
            },
        ),
        kind(
            "Version",
            "`version`",
            &crate::cli::version::Facts::example(),
        ),
        kind(
            "Error",
            "every command that fails",
            &output::ErrorDocument {
                exit_code: 4,
                error_kind: Some(kubexm_types::ErrorKind::Host),
                message: "node1: the host does not answer\n  hint: start it\nnode2: the login is refused",
                hint: None,
                problems: vec![
                    Listed {
                        message: "node1: the host does not answer".to_owned(),
                        hint: Some("start it".to_owned()),
                    },
                    Listed {
                        message: "node2: the login is refused".to_owned(),
                        hint: None,
                    },
                ],
            },
        ),
    ]
}

/// A section for each kind of document.
pub fn page() -> String {
    let mut out = format!("{INTRODUCTION}\n\nThe values in the examples are invented.\n");
    for kind in kinds() {
        let commands = escaped(kind.commands);
        let (name, json) = (kind.name, kind.json.trim_end());
        writeln!(
            out,
            "\n## {name}\n\nPrinted by {commands}.\n\n```json\n{json}\n```"
        )
        .unwrap();
    }
    out
}
