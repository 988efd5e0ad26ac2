//! Prints why the content of a bundle is trusted.

use crate::cli::output::outln;
use kubexm_bundling::diff::ItemKind;
use kubexm_bundling::trust::{TrustBasis, TrustGroup, TrustRecord, unsigned};

/// Prints the number of items for each reason, below a bundle that was written.
pub fn print_summary(groups: &[TrustGroup]) {
    for (at, group) in groups.iter().enumerate() {
        let title = if at == 0 { "trust" } else { "" };
        outln!("  {title:8} {}: {}", group.count(), group.basis);
    }
    for (prefix, count) in unsigned(groups) {
        outln!(
            "  {:8} {count}: without the signature of the publisher, allowed for {prefix}",
            "unsigned"
        );
    }
}

/// Prints each item with its reason.
pub fn print_items(groups: &[TrustGroup]) {
    for group in groups {
        outln!("  trust          {}: {}", group.count(), group.basis);
        for item in &group.items {
            outln!("    {}", line(group.basis, item));
        }
    }
}

fn line(basis: TrustBasis, item: &TrustRecord) -> String {
    let mut line = match item.kind {
        // The description of an artifact starts with its kind.
        ItemKind::Artifact => item.name.clone(),
        ItemKind::Image => format!("image {}", item.name),
        ItemKind::OciArtifact => format!("artifact {}", item.name),
        _ => format!("file {}", item.name),
    };
    match (&item.signer, &item.source) {
        (Some(signer), _) => line += &format!(", signed by {signer}"),
        (None, Some(source)) if basis == TrustBasis::MirrorChecksum => {
            line += &format!(", a mirror of {source}");
        }
        (None, Some(source)) => line += &format!(", {source}"),
        (None, None) => {}
    }
    if let Some(prefix) = &item.unsigned {
        line += &format!(", unsigned: allowed for {prefix}");
    }
    line
}
