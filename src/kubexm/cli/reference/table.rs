//! Tables in Markdown.

/// Text for a cell of a table: one line, without markup outside code spans.
pub fn escaped(text: &str) -> String {
    let mut is_code = false;
    let mut out = String::new();
    for character in text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
    {
        is_code ^= character == '`';
        match character {
            '|' => out.push_str("\\|"),
            '<' | '*' | '_' | '[' if !is_code => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}

#[test]
fn table_cells_contain_no_markup() {
    assert_eq!(
        escaped("<name>\n  a|b `<x>|y` *"),
        "\\<name> a\\|b `<x>\\|y` \\*"
    );
}
