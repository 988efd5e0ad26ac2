//! The YAML that people write: clusters, bundle manifests, mirrors.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let shown = |problems: kubexm_config::Problems| assert!(!problems.to_string().is_empty());
    let _ = kubexm_config::parse_cluster("cluster.yaml", text).map_err(shown);
    let _ = kubexm_config::parse_manifest("manifest.yaml", text).map_err(shown);
    let _ = kubexm_config::parse_mirrors("mirrors.yaml", text).map_err(shown);
});
