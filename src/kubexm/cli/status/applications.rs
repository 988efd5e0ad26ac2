//! The table of applications of `kubexm status`.

use super::table::{cut, without_middle};
use crate::cli::columns;
use kubexm_diagnose::status::ApplicationState;

/// The most characters of a cell on a terminal.
const CELL: usize = 24;

/// Returns the table. Lines are at most `columns` characters long: a longer text is cut. `None` cuts nothing.
pub(super) fn table(applications: &[ApplicationState], columns: Option<usize>) -> Vec<String> {
    let header = ["APPLICATION", "CHART", "REVISION", "STATE"].map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(applications.iter().map(row));
    let mut widths = columns::widths(&rows);
    if columns.is_some() {
        widths[..3]
            .iter_mut()
            .for_each(|width| *width = (*width).min(CELL));
    }
    let line = |row: &[String; 4]| {
        let cells: [String; 4] = std::array::from_fn(|at| without_middle(&row[at], widths[at]));
        cut(
            &columns::line(cells.each_ref().map(String::as_str), widths),
            columns,
        )
    };
    rows.iter().map(line).collect()
}

fn row(application: &ApplicationState) -> [String; 4] {
    let release = application.release.as_ref();
    let version = release.and_then(|release| release.version.as_deref());
    let chart = application.chart.as_deref().unwrap_or("manifests");
    let status = release.map_or("not installed", |release| &release.status);
    let mut state = vec![status.to_owned()];
    match application.unready_pods.len() {
        0 => {}
        1 => state.push("1 pod is not ready".to_owned()),
        count => state.push(format!("{count} pods are not ready")),
    }
    if release.is_some_and(|release| release.is_changed_by_helm) {
        state.push("changed by helm".to_owned());
    }
    if !application.is_in_cluster_file {
        state.push("not in the cluster file".to_owned());
    }
    let chart = [Some(chart), version].into_iter().flatten();
    [
        format!("{}/{}", application.namespace, application.name),
        chart.collect::<Vec<_>>().join(" "),
        release.map_or("-".to_owned(), |release| release.revision.to_string()),
        state.join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::example;
    use crate::cli::status::table::COLUMNS;

    #[test]
    fn lines_have_at_most_80_characters() {
        let mut applications = example::report().applications.unwrap_or_default();
        let long = "a".repeat(60);
        for one in &mut applications {
            (one.name, one.chart) = (long.clone(), Some(long.clone()));
        }
        for line in table(&applications, Some(COLUMNS)) {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
        assert!(table(&applications, None)[1].contains(&long));
    }
}
