//! Tables for people: columns that are as wide as their longest cell, with two spaces between them.

/// Returns the widths of the columns, in characters.
pub fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    std::array::from_fn(|at| width(at).unwrap_or_default())
}

/// Returns a line of a table. A cell that is longer than its column moves those after it.
pub fn line<const N: usize>(cells: [&str; N], widths: [usize; N]) -> String {
    let cells = cells.iter().zip(widths);
    let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
    let line = cells.collect::<Vec<_>>().join("  ");
    line.trim_end().to_owned()
}
