//! Text that fits a terminal and cannot control it.

/// Removes control sequences from the text of hosts and registries: they could move the cursor, rename the
/// window or hide lines. Line ends and tabs stay.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                // Parameters up to the final letter.
                while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                rest.next_if(|c| matches!(c, '@'..='~'));
            }
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            // Marks that change the direction of writing can hide text, too.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

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
