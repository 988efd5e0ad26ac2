//! Tables for people.

use super::Inventory;
use super::graph::Kind;

/// Places of one component that a table has room for.
const MOST_PLACES: usize = 1;

/// Columns whose widths fit their longest cells.
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

/// Every component of a bundle, a line each.
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

/// The first of some places, and how many there are besides.
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
