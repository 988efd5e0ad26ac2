//! Tokens of services that have a beginning of their own.

use std::ops::Range;

/// The beginnings of tokens, and the least characters behind them.
const BEGINNINGS: [(&str, usize); 40] = [
    // Amazon.
    ("AKIA", 16),
    ("ASIA", 16),
    // GitHub.
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    // GitLab.
    ("glpat-", 16),
    ("gldt-", 16),
    ("glrt-", 16),
    ("glcbt-", 16),
    // Slack.
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("xoxa-", 16),
    ("xoxr-", 16),
    ("xoxs-", 16),
    ("xapp-", 16),
    // Vault.
    ("hvs.", 16),
    ("hvb.", 16),
    ("hvr.", 16),
    // Docker Hub, npm, PyPI, crates.io, RubyGems.
    ("dckr_pat_", 16),
    ("dckr_oat_", 16),
    ("npm_", 30),
    ("pypi-", 30),
    ("cio", 32),
    ("rubygems_", 30),
    // Google, Stripe, SendGrid, DigitalOcean, Grafana, JFrog.
    ("AIza", 30),
    ("ya29.", 20),
    ("sk_live_", 16),
    ("SG.", 30),
    ("dop_v1_", 30),
    ("glsa_", 20),
    // Anthropic, OpenAI, Hugging Face, Stripe, Tailscale.
    ("sk-ant-", 20),
    ("sk-proj-", 20),
    ("hf_", 30),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("whsec_", 20),
    ("tskey-", 16),
];

/// Finds a token of a service.
pub(super) fn of_service(text: &str, from: usize) -> Option<Range<usize>> {
    let found = BEGINNINGS.iter().filter_map(|(beginning, least)| {
        let mut places = text[from..]
            .match_indices(beginning)
            .map(|(at, _)| from + at);
        places.find_map(|start| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let is_word = !text[..start].ends_with(|c: char| c.is_ascii_alphanumeric());
            let behind = start + beginning.len();
            let length = text[behind..].find(|c| !is_part(c));
            let end = length.map_or(text.len(), |length| behind + length);
            (is_word && end - behind >= *least).then_some(start..end)
        })
    });
    found.min_by_key(|found| found.start)
}

/// Finds the hash of a password, as in `/etc/shadow` and in files of htpasswd: passwords that people choose can be guessed with it.
pub(super) fn hash(text: &str, from: usize) -> Option<Range<usize>> {
    const METHODS: [&str; 12] = [
        "$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$apr1$", "$argon2",
        "$scrypt",
    ];
    let found = METHODS.iter().filter_map(|method| {
        let start = from + text[from..].find(method)?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "$./+=,-".contains(c);
        let length = text[start..].find(|c| !is_part(c));
        let end = length.map_or(text.len(), |length| start + length);
        (end - start > method.len()).then_some(start..end)
    });
    found.min_by_key(|found| found.start)
}

/// Finds the signature in a URL that gives access to storage.
pub(super) fn signature(text: &str, from: usize) -> Option<Range<usize>> {
    let ends = ["?sig=", "&sig=", "Signature=", "X-Amz-Credential="];
    let found = ends.iter().filter_map(|name| {
        let start = from + text[from..].find(name)? + name.len();
        let length = text[start..].find(|c: char| c.is_whitespace() || "&\"'".contains(c));
        let end = length.map_or(text.len(), |length| start + length);
        (end > start).then_some(start..end)
    });
    found.min_by_key(|found| found.start)
}

/// What can stand behind `password is` in an ordinary sentence.
const ORDINARY: [&str; 16] = [
    "a",
    "empty",
    "expired",
    "for",
    "from",
    "in",
    "incorrect",
    "invalid",
    "missing",
    "needed",
    "not",
    "required",
    "set",
    "the",
    "too",
    "wrong",
];

/// Finds a password in a sentence, as in `the password is SECRET`.
pub(super) fn sentence(text: &str, from: usize) -> Option<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    if !["pass", "pwd"].iter().any(|part| lower.contains(part)) {
        return None;
    }
    let found = ["password", "passwd", "passphrase", "pwd"]
        .into_iter()
        .flat_map(|name| {
            let of_name = [" is ", " was ", " = ", " -> "];
            of_name.map(|verb| format!("{name}{verb}"))
        });
    let found = found.filter_map(|words| {
        let mut places = lower[from..].match_indices(&words);
        places.find_map(|(at, words)| {
            let start = from + at + words.len();
            let length = text[start..].find(char::is_whitespace);
            let end = length.map_or(text.len(), |length| start + length);
            let word = lower[start..end].trim_end_matches(['.', ',', ';', ':']);
            let is_secret = !word.is_empty() && !ORDINARY.contains(&word) && !word.starts_with('[');
            is_secret.then_some(start..end)
        })
    });
    found.min_by_key(|found| found.start)
}

/// Finds the login or password of a program whose options have one letter.
pub(super) fn option(text: &str, from: usize) -> Option<Range<usize>> {
    if !text.contains('-') {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let is_of = |programs: &[&str]| programs.iter().any(|program| lower.contains(program));
    let begins = std::iter::once(0).chain(text.match_indices(' ').map(|(at, _)| at + 1));
    let words: Vec<usize> = begins.filter(|at| !text[*at..].starts_with(' ')).collect();
    let word = |at: usize| {
        &text[at..text[at..]
            .find(' ')
            .map_or(text.len(), |length| at + length)]
    };
    let quotes = ['"', '\'', ','];
    let found = words
        .iter()
        .zip(words.iter().skip(1).map(Some).chain([None]));
    let mut found = found.filter_map(|(at, next)| {
        let own = word(*at).trim_matches(quotes);
        let behind = |next: &usize| *next..*next + word(*next).len();
        match own {
            "-u" | "--user" | "--proxy-user" => {
                let value = next.filter(|next| is_login(word(**next)))?;
                Some(behind(value))
            }
            "-p" if is_of(&["sshpass", " login "]) => next.map(behind),
            "-w" if is_of(&["ldap"]) => next.map(behind),
            _ if is_of(&["htpasswd"]) && is_letters(own) && own.contains('b') => {
                words.last().map(behind)
            }
            "-a" | "--pass" if is_of(&["redis-cli"]) => next.map(behind),
            _ if own.starts_with("-p")
                && own.len() > 2
                && is_of(&["mysql", "mariadb", "sshpass"]) =>
            {
                let start = *at + word(*at).find("-p")? + 2;
                Some(start..*at + word(*at).len())
            }
            _ => None,
        }
    });
    found.find(|found| found.start >= from && !text[found.clone()].starts_with("[redacted"))
}

/// Returns whether a word consists of options of one letter.
fn is_letters(word: &str) -> bool {
    let letters = word.strip_prefix('-');
    letters.is_some_and(|letters| letters.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// Returns whether a word is a name and a password, and not two numbers of a user and a group.
fn is_login(word: &str) -> bool {
    let parts = word.split_once(':');
    parts.is_some_and(|(_, password)| {
        !password.is_empty() && !password.bytes().all(|byte| byte.is_ascii_digit())
    })
}
