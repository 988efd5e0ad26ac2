//! What is wrong in a file that a user wrote, with the place and a hint.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// The field, as in `spec.hosts[2].port`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// All that is wrong in one file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file.
    pub file: String,
    /// Never empty.
    pub list: Vec<Problem>,
}

impl Problems {
    /// One problem with the file as a whole.
    pub fn whole_file(file: &str, message: impl Into<String>, hint: Option<String>) -> Self {
        let problem = Problem {
            line: 0,
            column: 0,
            path: String::new(),
            message: message.into(),
            hint,
        };
        Self {
            file: file.to_owned(),
            list: vec![problem],
        }
    }
}

/// Longest text of a file that a message repeats.
const LONGEST: usize = 300;

/// Words out of a file, fit for a terminal.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.file)?;
            if problem.line > 0 {
                write!(f, ":{}:{}", problem.line, problem.column)?;
            }
            write!(f, ": ")?;
            if !problem.path.is_empty() {
                write!(f, "{}: ", shown(&problem.path))?;
            }
            write!(f, "{}", shown(&problem.message))?;
            if let Some(hint) = &problem.hint {
                write!(f, "\n  hint: {}", shown(hint))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
