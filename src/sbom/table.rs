//! Text tables.

use super::Inventory;
use super::graph::Kind;

/// Number of locations of a component in a table.
const MOST_PLACES: usize = 1;

/// Formats a table whose columns fit their longest cells.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        out.push_str(line.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// Returns a table with one line for each component of a bundle.
pub fn components(inventory: &Inventory) -> String {
    let graph = &inventory.graph;
    let all = graph.components().into_iter();
    let rows: Vec<Vec<String>> = all
        .filter(|component| component.kind != Kind::Bundle)
        .map(|component| {
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            vec![
                component.kind.name().to_owned(),
                component.name.clone(),
                text(&component.version),
                text(&component.licence),
                places(&graph.places(component)),
            ]
        })
        .collect();
    table(&["KIND", "NAME", "VERSION", "LICENCE", "WHERE"], &rows)
}

/// Returns the first of some locations and the number of the others.
pub fn places(places: &std::collections::BTreeSet<String>) -> String {
    let mut text: Vec<&str> = places
        .iter()
        .take(MOST_PLACES)
        .map(String::as_str)
        .collect();
    let more = places.len().saturating_sub(MOST_PLACES);
    let more = format!("+{more}");
    if places.len() > MOST_PLACES {
        text.push(&more);
    }
    text.join(" ")
}
