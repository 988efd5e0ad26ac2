//! `kubexm app list`.

use clap::Args;

use crate::cli::registry::change::ClusterArgs;
use crate::cli::{Failure, columns, interrupt, output};
use crate::report::Output;
use kubexm_operate::applications::{self, ApplicationList, ListOptions, ListedApplication};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm app list -f cluster.yaml
  kubexm app list -f cluster.yaml --all --output json")]
pub struct List {
    /// List releases that kubexm did not create, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the applications.
pub async fn run(arguments: &List, format: Output, events: &Events) -> Result<(), Failure> {
    let options = ListOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
        all: arguments.all,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let found = applications::list(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("ApplicationList", &found),
        Output::Auto | Output::Plain => {
            output::text(&text(&found));
            Ok(())
        }
    }
}

/// Returns the applications for people, in columns that are as wide as their longest cell.
fn text(list: &ApplicationList) -> String {
    if list.applications.is_empty() {
        return "the cluster has no applications\n".to_owned();
    }
    let header = ["NAME", "NAMESPACE", "CHART", "REVISION", "STATUS"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(header)
        .chain(list.applications.iter().map(row))
        .collect();
    let widths = columns::widths(&rows);
    let line = |row: &[String; 5]| columns::line(row.each_ref().map(String::as_str), widths) + "\n";
    rows.iter().map(line).collect()
}

fn row(one: &ListedApplication) -> [String; 5] {
    let chart = match (&one.chart, &one.chart_version) {
        (Some(chart), Some(version)) => format!("{chart} {version}"),
        (Some(chart), None) => chart.clone(),
        (None, _) => "-".to_owned(),
    };
    let revision = match one.revision {
        0 => "-".to_owned(),
        number => number.to_string(),
    };
    let note = match (one.is_in_cluster_file, one.is_of_kubexm) {
        (true, _) => "",
        (false, true) => ", not in the cluster file",
        (false, false) => ", not of kubexm",
    };
    let changed = if one.is_changed_by_helm {
        ", changed by helm"
    } else {
        ""
    };
    let status = format!("{}{changed}{note}", one.status);
    [
        one.name.clone(),
        one.namespace.clone(),
        chart,
        revision,
        status,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_has_a_line() {
        let one = |name: &str, is_in_cluster_file: bool| ListedApplication {
            name: name.to_owned(),
            namespace: "web".to_owned(),
            chart: is_in_cluster_file.then(|| "shop".to_owned()),
            chart_version: Some("1.2.0".to_owned()),
            revision: u64::from(is_in_cluster_file),
            status: "deployed".to_owned(),
            is_changed_by_helm: !is_in_cluster_file,
            is_in_cluster_file,
            is_of_kubexm: true,
        };
        let list = ApplicationList {
            applications: vec![one("local-path-provisioner", true), one("old", false)],
        };
        insta::assert_snapshot!(text(&list), @"
        NAME                    NAMESPACE  CHART       REVISION  STATUS
        local-path-provisioner  web        shop 1.2.0  1         deployed
        old                     web        -           -         deployed, changed by helm, not in the cluster file
        ");
    }
}
