//! Messages for users: a text, and what they can do.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::{HostName, InvalidValue, untrusted};

/// How the line of a hint begins that a script prints on a host.
const SCRIPT_HINT: &str = "hint: ";

/// A text for users, and apart from it what they can do.
///
/// ```
/// # use kubexm_types::Message;
/// let message = Message::new("the disk is full").hint("free some space").within("cluster.yaml");
/// assert_eq!(message.text, "cluster.yaml: the disk is full");
/// assert_eq!(message.to_string(), "cluster.yaml: the disk is full\nhint: free some space");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Message {
    /// What failed, where, and the cause.
    pub text: String,
    /// The action that may help; `None` if kubexm knows none.
    pub hint: Option<String>,
    /// The failures of which the text is a list; empty if it states one.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub items: Box<[Message]>,
}

/// One failure of a list, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// What failed, where and why.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// Why a report does not have the state of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostReason {
    pub host: HostName,
    /// What failed and why.
    pub reason: String,
    /// What the user can do.
    pub hint: Option<String>,
}

impl HostReason {
    /// `message` does not name the host.
    pub fn new(host: HostName, message: Message) -> Self {
        let Message { text, hint, .. } = message;
        Self {
            host,
            reason: text,
            hint,
        }
    }
}

impl Message {
    /// Returns a text without a hint.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hint: None,
            items: Box::default(),
        }
    }

    /// Returns the message about several failures: a headline, unless it is empty, and below it each failure with its hint.
    ///
    /// ```
    /// # use kubexm_types::Message;
    /// let items = vec![Message::new("node1: down").hint("start it"), Message::new("node2: down")];
    /// assert_eq!(Message::list("", items).text, "node1: down\n  hint: start it\nnode2: down");
    /// ```
    pub fn list(headline: &str, items: Vec<Self>) -> Self {
        let headline = (!headline.is_empty()).then(|| headline.to_owned());
        let lines = items.iter().map(|item| item.as_item().to_string());
        let lines: Vec<String> = headline.into_iter().chain(lines).collect();
        Self {
            items: items.into(),
            ..Self::new(lines.join("\n"))
        }
    }

    /// Returns the message about failures. One alone is the message itself.
    pub fn of_all(items: impl IntoIterator<Item = Self>) -> Self {
        let mut items: Vec<Self> = items.into_iter().collect();
        match items.pop() {
            Some(only) if items.is_empty() => only,
            last => {
                items.extend(last);
                Self::list("", items)
            }
        }
    }

    /// Returns the failures of a list, for programs; empty if the message states one failure.
    pub fn listed(&self) -> Vec<Listed> {
        let items = self.items.iter();
        items
            .map(|item| Listed {
                message: item.text.clone(),
                hint: item.hint.clone(),
            })
            .collect()
    }

    /// Returns a text that may quote a host or a server, as [`untrusted::message`] does.
    pub fn quoting(text: impl AsRef<str>) -> Self {
        Self::new(untrusted::message(text.as_ref()))
    }

    /// Returns what a script of kubexm printed on a host: its lines that begin with `hint: ` are what the user can do.
    pub fn printed(text: &str) -> Self {
        let (hints, lines): (Vec<&str>, Vec<&str>) = text
            .trim()
            .lines()
            .partition(|line| line.starts_with(SCRIPT_HINT));
        let hints = hints
            .iter()
            .filter_map(|line| line.strip_prefix(SCRIPT_HINT));
        let hint = hints.collect::<Vec<_>>().join("; ");
        Self {
            hint: (!hint.is_empty()).then_some(hint),
            ..Self::new(lines.join("\n"))
        }
    }

    /// Sets the action that the user can take.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the action that the user can take, unless there is one or `hint` is `None`: the cause knows more.
    #[must_use]
    pub fn or_hint(mut self, hint: Option<&str>) -> Self {
        self.hint = self.hint.or_else(|| hint.map(str::to_owned));
        self
    }

    /// Puts the place of the failure, and a colon, before the text.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.text = format!("{place}: {}", self.text);
        self
    }

    /// Returns the message as an item of a list: its hint is indented.
    pub fn as_item(&self) -> impl fmt::Display {
        let hint = self.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!("\n  hint: {hint}"));
        format!("{}{hint}", self.text)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        Hint(self.hint.as_deref()).fmt(f)
    }
}

impl std::error::Error for Message {}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<InvalidValue> for Message {
    fn from(error: InvalidValue) -> Self {
        Self::new(error.to_string())
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Serializes a message as its text with its hint.
///
/// # Errors
/// The serializer fails.
pub fn as_text<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(message)
}

/// The line of a hint below a text. It begins with a line break, and is empty without a hint.
pub struct Hint<'a>(pub Option<&'a str>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_of_the_cause_stays() {
        let message = Message::new("full").hint("free some space");
        assert_eq!(message.clone().or_hint(Some("try again")), message);
        assert_eq!(Message::new("full").or_hint(None).to_string(), "full");
    }

    #[test]
    fn one_failure_alone_is_no_list() {
        let only = Message::new("full").hint("free some space");
        assert_eq!(Message::of_all([only.clone()]), only);
        let two = Message::of_all([only, Message::new("lost")]);
        assert_eq!(two.to_string(), "full\n  hint: free some space\nlost");
        let listed = two.listed();
        assert_eq!(listed[0].hint.as_deref(), Some("free some space"));
        assert_eq!(listed[1].message, "lost");
    }

    #[test]
    fn lines_of_scripts_with_hints_are_the_hint() {
        let printed = "a is wrong\nhint: mend a\nb is wrong:\n  line\nhint: mend b\n";
        let expected = Message::new("a is wrong\nb is wrong:\n  line").hint("mend a; mend b");
        assert_eq!(Message::printed(printed), expected);
        assert_eq!(Message::printed("fine\n"), Message::new("fine"));
    }
}
