//! `kubexm registry list`.

use clap::Args;
use kubexm_types::ErrorKind;

use super::change::ClusterArgs;
use crate::cli::{Failure, interrupt, output};
use crate::report::{Output, bytes};
use kubexm_operate::registry::{self, Copy, ListOptions, ListedImage, RegistryReport};
use kubexm_types::event::Events;

#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  kubexm registry list -f cluster.yaml
  kubexm registry list -f cluster.yaml --output json")]
pub struct List {
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the images.
///
/// # Errors
/// Fails with the exit code 9 if registries differ, and with 4 if only hosts cannot be reached.
pub async fn run(arguments: &List, format: Output, events: &Events) -> Result<(), Failure> {
    let options = ListOptions {
        cluster: arguments.cluster.cluster.clone(),
        connection: arguments.cluster.connection.options()?,
    };
    let stop = interrupt::watch(events, interrupt::STOPPING);
    let report = registry::list(&options, events, &stop).await?;
    match format {
        Output::Json => output::document("RegistryReport", &report)?,
        Output::Auto | Output::Plain => output::text(&text(&report)),
    }
    match (report.has_differences(), report.unread.is_empty()) {
        (true, _) => Err(Failure::found(ErrorKind::Attention)),
        (false, false) => Err(Failure::found(ErrorKind::Host)),
        (false, true) => Ok(()),
    }
}

/// The number of columns of names.
const NAME: usize = 38;

/// Returns the images for people, in lines of at most 80 columns unless a name is longer.
fn text(report: &RegistryReport) -> String {
    let mut lines = vec![row("IMAGE", "DIGEST", "SIZE", "ARCH", "HOSTS", "USE")];
    let mut before = "";
    for image in &report.images {
        let (registry, name) = image.name.split_once('/').unwrap_or(("", &image.name));
        if registry != before {
            lines.push(registry.to_owned());
            before = registry;
        }
        lines.push(line(report, image, name));
    }
    let hosts: Vec<&str> = report.hosts.iter().map(|host| host.as_str()).collect();
    lines.push(format!(
        "\n{} images, {}, in the registries of {}",
        report.images.len(),
        bytes(report.size),
        hosts.join(", ")
    ));
    if let Some(cause) = &report.uses_unknown {
        lines.push(format!(
            "it is not known which images the cluster uses (?): {cause}"
        ));
    }
    for unread in &report.unread {
        lines.push(format!("not read: {}: {}", unread.host, unread.reason));
        lines.extend(unread.hint.iter().map(|hint| format!("  hint: {hint}")));
    }
    lines.extend(differences(report));
    lines.join("\n") + "\n"
}

fn row(name: &str, digest: &str, size: &str, arch: &str, hosts: &str, uses: &str) -> String {
    let row = format!("{name:<NAME$} {digest:<12} {size:>10} {arch:<6} {hosts:<5} {uses:>3}");
    row.trim_end().to_owned()
}

fn line(report: &RegistryReport, image: &ListedImage, name: &str) -> String {
    let hex = image.digest.hex();
    let complete = image
        .hosts
        .iter()
        .filter(|host| host.copy == Copy::Complete);
    let hosts = format!("{}/{}", complete.count(), report.hosts.len());
    let uses = match &image.used_by {
        None => "?".to_owned(),
        Some(by) if by.is_empty() => "-".to_owned(),
        Some(by) => by.len().to_string(),
    };
    let arch = match image.platforms.as_slice() {
        [] => "-".to_owned(),
        [one] => one.clone(),
        many => format!("{} of", many.len()),
    };
    let name = match name.split_once('@') {
        Some((name, digest)) => {
            format!("  {name}@{}", digest.get(7..19).unwrap_or(digest))
        }
        None => format!("  {name}"),
    };
    let size = bytes(image.size);
    let rest = |first: &str| row(first, &hex[..12], &size, &arch, &hosts, &uses);
    if name.chars().count() > NAME {
        format!("{name}\n{}", rest(""))
    } else {
        rest(&name)
    }
}

/// Returns lines about the images that are not equal.
fn differences(report: &RegistryReport) -> Vec<String> {
    let different = report.images.iter().filter(|image| !image.is_equal);
    let mut lines: Vec<String> = different
        .map(|image| {
            let hosts = image
                .hosts
                .iter()
                .filter(|host| host.copy != Copy::Complete);
            let hosts: Vec<String> = hosts
                .map(|host| format!("{} on {}", host.copy.word(), host.host))
                .collect();
            format!("  {}: {}", image.name, hosts.join(", "))
        })
        .collect();
    if !lines.is_empty() {
        lines.insert(0, format!("not equal in all registries: {}", lines.len()));
        lines.push(
            "hint: `kubexm registry sync` gives each registry what the others have".to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::registry::example;

    #[test]
    fn table_fits_80_columns_and_names_differences() {
        let text = text(&example::report());
        insta::assert_snapshot!(text);
        let table = text.lines().take_while(|line| !line.is_empty());
        assert!(
            table.into_iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
