//! The YAML that people write: clusters, bundle manifests, mirrors.
#![no_main]
use kubexm::spec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let shown = |problems: spec::Problems| assert!(!problems.to_string().is_empty());
    let _ = spec::parse_cluster("cluster.yaml", text).map_err(shown);
    let _ = spec::parse_manifest("manifest.yaml", text).map_err(shown);
    let _ = spec::parse_mirrors("mirrors.yaml", text).map_err(shown);
});
