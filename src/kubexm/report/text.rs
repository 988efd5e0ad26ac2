//! Text that fits a terminal.

/// Breaks lines at spaces so that none is wider than `width`, unless a single word is: a path or
/// a command must stay in one piece to be copied.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<String> = text
        .lines()
        .flat_map(|line| wrap_line(line, width))
        .collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let words = line.trim_start();
    let indent = &line[..line.len() - words.len()];
    let mut lines = Vec::new();
    let mut current = indent.to_owned();
    for (at, word) in words.split(' ').enumerate() {
        let columns = width.saturating_sub(current.chars().count());
        if at > 0 && columns < word.chars().count() + 1 {
            lines.push(std::mem::replace(&mut current, indent.to_owned()));
        } else if at > 0 {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}

/// Keeps the end of a long label, which distinguishes it better than the beginning.
pub(super) fn keep_end(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail: String = text.chars().skip(count - width + 1).collect();
    format!("…{tail}")
}

/// Keeps the beginning of a long name, as a host's is.
pub(super) fn keep_start(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width - 1).collect();
    format!("{head}…")
}
