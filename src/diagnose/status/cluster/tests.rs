//! Which registries are silent because of a unit.

use super::super::answers::Unit;
use super::super::hosts::tests::seen;
use super::*;
use kubexm_config::example::cluster_of;

/// Returns the problems about registries of a cluster that has them on `hosts`. The unit of the first does not run, and no
/// registry answers node3.
fn silent(hosts: &str) -> Vec<String> {
    let roles = format!("control-plane: [node1], registry: {hosts}, worker: [node3]");
    let cluster = cluster_of(&roles, "", "");
    let mut seen = seen(&cluster);
    let mut worker = Answers::default();
    for address in expected::registries(&cluster) {
        let reply = Reply::Silent("connection refused".to_owned());
        worker.registries.insert(address, reply);
    }
    seen.answers.insert("node3".parse().unwrap(), worker);
    let stopped = Unit {
        load: "loaded".to_owned(),
        active: "inactive".to_owned(),
        sub: "dead".to_owned(),
        restarts: 0,
    };
    let mut first = Answers::default();
    let unit = "kubexm-registry.service".to_owned();
    first.units.insert(unit, stopped);
    seen.answers.insert("node1".parse().unwrap(), first);
    let problems = judge(&seen).problems.into_iter();
    let problems = problems.filter(|problem| problem.about == About::Registry);
    problems.map(|problem| problem.what).collect()
}

#[test]
fn stopped_unit_explains_the_silence_of_its_own_registry_only() {
    assert_eq!(silent("[node1]"), [""; 0]);
    assert_eq!(
        silent("[node1, node2]"),
        ["the registry 192.0.2.12:5000 does not answer node3: connection refused"]
    );
}
