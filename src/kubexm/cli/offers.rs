//! What a cluster offers at the end of an install, for people.

use kubexm_lifecycle::install::{INGRESS_LINE, METRICS_LINE, STORAGE_LINE};
use kubexm_types::event::Offers;

/// Returns at most eight lines of at most 80 characters: what the cluster has, and for the rest what adds it.
pub(super) fn text(offers: &Offers) -> String {
    let class = |class: &Option<String>, line: &str| {
        class.clone().unwrap_or_else(|| format!("none: {line}"))
    };
    let timer = |exists: bool, command: &str| {
        if exists {
            "yes, on this machine".to_owned()
        } else {
            format!("none: run kubexm {command} timer install")
        }
    };
    let metrics = if offers.metrics {
        "yes".to_owned()
    } else {
        format!("none: {METRICS_LINE}")
    };
    let mut rows = vec![
        (
            "default StorageClass",
            class(&offers.storage_class, STORAGE_LINE),
        ),
        ("ingress class", class(&offers.ingress_class, INGRESS_LINE)),
        ("metrics API", metrics),
        ("scheduled backups", timer(offers.backup_timer, "backup")),
        (
            "certificate timer",
            timer(offers.certificate_timer, "certs"),
        ),
    ];
    if offers.not_applied > 0 {
        let text = format!("charts and manifests not applied: {}", offers.not_applied);
        rows.push(("bundle", text));
    }
    let rows = rows.into_iter();
    let rows = rows.map(|(name, value)| {
        let line = format!("  {name:20}  {value}");
        line.chars().take(COLUMNS).collect::<String>()
    });
    let mut lines = vec!["the cluster has:".to_owned()];
    lines.extend(rows);
    let is_addon = [&offers.storage_class, &offers.ingress_class];
    if is_addon.iter().any(|class| class.is_none()) || !offers.metrics || offers.not_applied > 0 {
        lines.push(HOW.to_owned());
    }
    lines.join("\n")
}

/// The most characters of a line.
const COLUMNS: usize = 80;
/// How to apply what a line names.
const HOW: &str = "  lines and names belong into spec.applications: book, howto/applications.md";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_what_adds_the_rest() {
        let bare = Offers {
            not_applied: 3,
            ..Offers::default()
        };
        let text = super::text(&bare);
        assert!(text.lines().count() <= 8, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= COLUMNS),
            "{text}"
        );
        insta::assert_snapshot!(text, @"
        the cluster has:
          default StorageClass  none: {addon: local-path-provisioner}
          ingress class         none: {addon: traefik}
          metrics API           none: {addon: metrics-server}
          scheduled backups     none: run kubexm backup timer install
          certificate timer     none: run kubexm certs timer install
          bundle                charts and manifests not applied: 3
          lines and names belong into spec.applications: book, howto/applications.md
        ");
    }

    #[test]
    fn cluster_with_everything_needs_no_advice() {
        let all = Offers {
            storage_class: Some("local-path".to_owned()),
            ingress_class: Some("traefik".to_owned()),
            metrics: true,
            backup_timer: true,
            certificate_timer: true,
            not_applied: 0,
        };
        insta::assert_snapshot!(text(&all), @"
        the cluster has:
          default StorageClass  local-path
          ingress class         traefik
          metrics API           yes
          scheduled backups     yes, on this machine
          certificate timer     yes, on this machine
        ");
    }
}
