//! Whether sudo stores what commands read: sudoers(5), `log_input`.

/// What makes sudo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    /// A line of `Defaults`.
    Defaults,
    /// A tag in the rule of the user, which has precedence over `Defaults`.
    Tag,
}

impl Recording {
    /// Returns what ends it for a user.
    pub(super) fn end(self, user: &str) -> String {
        match self {
            Self::Defaults => format!(
                "add `Defaults:{user} !log_input, !log_stdin` to the end of sudoers on the host, or log in as root"
            ),
            Self::Tag => format!(
                "replace LOG_INPUT: by NOLOG_INPUT: in the rule of {user} in sudoers on the host, or log in as root"
            ),
        }
    }
}

/// Returns why sudo records the input of the commands of kubexm, all of which start with `env`, by the output of `sudo -l`.
pub(super) fn recording(listed: &str) -> Option<Recording> {
    let mut sections = listed.split("\n\n");
    let of = |title: &str| sections.clone().find(|text| text.contains(title));
    let defaults = of("Matching Defaults entries").unwrap_or_default();
    let mut is_on = setting(defaults).unwrap_or(false);
    for line in of("ommand-specific defaults").unwrap_or_default().lines() {
        let command = line.trim().strip_prefix("Defaults!");
        let Some((command, settings)) = command.and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        if command == "ALL" || command.ends_with("/env") {
            is_on = setting(settings).unwrap_or(is_on);
        }
    }
    let rules = sections.find(|text| text.contains("may run the following commands"));
    let words = rules.unwrap_or_default().split_whitespace();
    let tag = words.fold(None, |tag, word| match word {
        "LOG_INPUT:" => Some(true),
        "NOLOG_INPUT:" => tag.or(Some(false)),
        _ => tag,
    });
    match tag {
        Some(true) => Some(Recording::Tag),
        Some(false) => None,
        None => is_on.then_some(Recording::Defaults),
    }
}

/// Returns what the last of some settings says.
fn setting(text: &str) -> Option<bool> {
    let words = text.split(|letter: char| letter == ',' || letter.is_whitespace());
    words.fold(None, |last, word| match word {
        "log_input" | "log_stdin" => Some(true),
        "!log_input" | "!log_stdin" => Some(false),
        _ => last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As sudo 1.9 prints it.
    fn listed(defaults: &str, of_commands: &str, tags: &str) -> String {
        let of_commands = match of_commands {
            "" => String::new(),
            lines => format!("\nRunas and Command-specific defaults for ops:\n    {lines}\n"),
        };
        format!(
            "Matching Defaults entries for ops on node2:\n    env_reset, {defaults}, use_pty\n{of_commands}\n\
             User ops may run the following commands on node2:\n    (ALL : ALL) NOPASSWD: {tags}ALL\n"
        )
    }

    #[test]
    fn recording_of_sudo_is_recognized() {
        use Recording::{Defaults, Tag};
        for (defaults, of_commands, tags, expected) in [
            ("mail_badpass", "", "", None),
            ("log_output", "", "", None),
            ("log_input, log_output", "", "", Some(Defaults)),
            ("log_input, log_output, !log_input", "", "", None),
            ("log_stdin", "", "", Some(Defaults)),
            (
                "log_input",
                "Defaults!/usr/bin/sudoreplay !log_input",
                "",
                Some(Defaults),
            ),
            ("log_input", "Defaults!/usr/bin/env !log_input", "", None),
            (
                "mail_badpass",
                "Defaults!/usr/bin/passwd log_input",
                "",
                None,
            ),
            ("mail_badpass", "Defaults!ALL log_input", "", Some(Defaults)),
            ("mail_badpass", "", "LOG_INPUT: ", Some(Tag)),
            ("!log_input", "", "LOG_INPUT: ", Some(Tag)),
            ("log_input", "", "NOLOG_INPUT: ", None),
        ] {
            let found = recording(&listed(defaults, of_commands, tags));
            assert_eq!(found, expected, "{defaults}; {of_commands}; {tags}");
        }
        // A sudo that lists nothing, as without a terminal.
        assert_eq!(recording(""), None);
    }
}
