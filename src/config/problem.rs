//! Problems and notices about a file that a user wrote, each with its place and a hint.

use std::fmt;

use kubexm_types::Message;
use kubexm_types::untrusted::is_unprintable;

/// One problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1; 0 if the problem is about the whole file.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// Path of the field, as in `spec.hosts[2].port`.
    pub path: String,
    /// The first line of the message.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// All problems in one file, in the order of the file. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    pub file: String,
    pub list: Vec<Problem>,
}

/// A setting that kubexm accepts and that the user should write in another way, such as a former name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub file: String,
    pub problem: Problem,
}

impl Problems {
    /// Creates a problem about the whole file.
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

/// Maximum number of characters of a file's text in a message.
const LONGEST: usize = 300;

/// Escapes control characters and invisible characters of a file's text, and shortens the text.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .flat_map(|c| {
            let escaped = is_unprintable(c).then(|| c.escape_default());
            let plain = (!is_unprintable(c)).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

impl Problems {
    /// Returns each problem with its place in the file.
    pub fn messages(&self) -> Vec<Message> {
        let list = self.list.iter();
        list.map(|problem| problem.in_file(&self.file)).collect()
    }
}

impl Problem {
    fn in_file(&self, file: &str) -> Message {
        let mut place = file.to_owned();
        if self.line > 0 {
            place += &format!(":{}:{}", self.line, self.column);
        }
        if !self.path.is_empty() {
            place += &format!(": {}", shown(&self.path));
        }
        let message = Message::new(shown(&self.message)).within(place);
        message.or_hint(self.hint.as_deref().map(shown).as_deref())
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Message::list("", self.messages()).text)
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Message::from(self).as_item().fmt(f)
    }
}

impl From<&Notice> for Message {
    fn from(notice: &Notice) -> Self {
        notice.problem.in_file(&notice.file)
    }
}
