//! Whether sudo stores what commands read: sudoers(5), `log_input`.

/// The title of the rules in the output of `sudo -l`.
pub(super) const RULES: &str = "may run the following commands";

/// What makes sudo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    /// A line of `Defaults`.
    Defaults,
    /// A line of `Defaults` for commands or for users that commands run as, which has precedence over the others.
    Bound,
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
            Self::Bound => "add `Defaults!/usr/bin/env !log_input, !log_stdin` to the end of sudoers on the host, or log in as root"
                .to_owned(),
            Self::Tag => format!(
                "replace LOG_INPUT: by NOLOG_INPUT: in the rule of {user} in sudoers on the host, or log in as root"
            ),
        }
    }
}

/// Returns why sudo may record the input of the commands of kubexm, all of which start with `env`, by the output of `sudo -l`.
/// A line of which it is not clear whether it is about them counts if it makes sudo record.
pub(super) fn recording(listed: &str) -> Option<Recording> {
    let mut sections = listed.split("\n\n");
    let of = |title: &str| sections.clone().find(|text| text.contains(title));
    let defaults = of("Matching Defaults entries").unwrap_or_default();
    let is_on = setting(defaults).unwrap_or(false);
    let mut recording = is_on.then_some(Recording::Defaults);
    let bound = of("ommand-specific defaults").unwrap_or_default();
    for line in bound.split("Defaults").skip(1) {
        let (reach, settings) = reach(line);
        match (setting(settings), reach) {
            (Some(true), Reach::All | Reach::Some) => recording = Some(Recording::Bound),
            (Some(false), Reach::All) => recording = None,
            _ => {}
        }
    }
    let rules = sections.find(|text| text.contains(RULES));
    let rules: Vec<&str> = rules.unwrap_or_default().split("\n    (").skip(1).collect();
    let has = |rule: &&str, tag: &str| rule.split_whitespace().any(|word| word == tag);
    if rules.iter().any(|rule| has(rule, "LOG_INPUT:")) {
        return Some(Recording::Tag);
    }
    // Which of several rules sudo follows depends on the command.
    let is_off = !rules.is_empty() && rules.iter().all(|rule| has(rule, "NOLOG_INPUT:"));
    recording.filter(|_| !is_off)
}

/// Which commands of kubexm a line of `Defaults` is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    All,
    /// All or none: an alias, a pattern or a negation decides.
    Some,
    None,
}

/// Returns which commands a line is about, and its settings. The line starts after `Defaults`, with `!` and commands or with `>`
/// and users. Commas are between these; the first word after a blank alone is a setting.
fn reach(line: &str) -> (Reach, &str) {
    let (is_command, mut rest) = match (line.strip_prefix('!'), line.strip_prefix('>')) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return (Reach::Some, line),
    };
    let mut found = Reach::None;
    loop {
        let end = rest.find([',', ' ', '\n']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let one = match (name, is_command) {
            ("ALL", _) | ("root" | "#0", false) => Reach::All,
            (path, true) if path.starts_with('/') && path.ends_with("/env") => Reach::All,
            (path, true) if path.starts_with('/') && !path.ends_with(['/', '*', '?', ']']) => {
                Reach::None
            }
            (user, false) if user.starts_with(|letter: char| letter.is_ascii_lowercase()) => {
                Reach::None
            }
            _ => Reach::Some,
        };
        if found != Reach::All && one != Reach::None {
            found = one;
        }
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return (found, after),
        }
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
        use Recording::{Bound, Defaults, Tag};
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
            ("mail_badpass", "Defaults!ALL log_input", "", Some(Bound)),
            ("mail_badpass", "Defaults>root log_input", "", Some(Bound)),
            ("mail_badpass", "Defaults>oracle log_input", "", None),
            (
                "mail_badpass",
                "Defaults!/usr/bin/a, /usr/bin/env log_input",
                "",
                Some(Bound),
            ),
            (
                "mail_badpass",
                "Defaults!/usr/bin/a ,/usr/bin/env use_pty,\n        log_input",
                "",
                Some(Bound),
            ),
            ("mail_badpass", "Defaults!SHELLS log_stdin", "", Some(Bound)),
            (
                "log_input",
                "Defaults!SHELLS !log_input",
                "",
                Some(Defaults),
            ),
            (
                "mail_badpass",
                "Defaults>root log_input\n    Defaults!/usr/bin/env !log_input",
                "",
                None,
            ),
            ("mail_badpass", "", "LOG_INPUT: ", Some(Tag)),
            ("!log_input", "", "LOG_INPUT: ", Some(Tag)),
            ("log_input", "", "NOLOG_INPUT: ", None),
            (
                "log_input",
                "",
                "NOLOG_INPUT: /usr/bin/id\n    (ALL) NOPASSWD: ",
                Some(Defaults),
            ),
        ] {
            let found = recording(&listed(defaults, of_commands, tags));
            assert_eq!(found, expected, "{defaults}; {of_commands}; {tags}");
        }
    }
}
