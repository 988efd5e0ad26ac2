//! Programs that turn swap on again.

use kubexm_types::FindingKind;

use super::check::{Asked, HostCheck, Problem, When};

pub(super) const SWAP: HostCheck = HostCheck {
    kind: FindingKind::Swap,
    when: When::Always,
    read: "whether the agent of Azure creates swap",
    find: swap,
};

fn swap(asked: &Asked<'_>) -> Vec<Problem> {
    let kubelet = &asked.cluster.kubernetes.kubelet.extra_config;
    let lines = asked.answers.all("swap_setting");
    let Some((file, _)) = lines.first().and_then(|line| line.split_once(':')) else {
        return Vec::new();
    };
    if kubelet["failSwapOn"] == false || !asked.cluster.is_node(asked.host) {
        return Vec::new();
    }
    vec![Problem {
        breaks: true,
        is_later: true,
        what: format!("{file} turns swap on (ResourceDisk.EnableSwap)"),
        evidence: lines.to_vec(),
        cause: "the agent creates it at each boot, and a kubelet does not start with swap"
            .to_owned(),
        fix: "set ResourceDisk.EnableSwap=n".to_owned(),
        commands: vec![format!(
            "sed -i -E 's/^\\s*ResourceDisk\\.EnableSwap.*/ResourceDisk.EnableSwap=n/I' {file}"
        )],
    }]
}
