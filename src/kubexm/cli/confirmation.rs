//! Questions that the user answers before kubexm removes something.

use std::io::{BufRead, Write};

/// Asks a question, and returns whether the user typed these words. The user can stop the command instead of an answer.
pub async fn is_typed(question: String, expected: String) -> bool {
    let asked = tokio::task::spawn_blocking(move || has_typed(&question, &expected));
    asked.await.unwrap_or(false)
}

fn has_typed(question: &str, expected: &str) -> bool {
    let _ = write!(std::io::stderr(), "{question}");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let given: Vec<&str> = answer.split_whitespace().collect();
    read.is_ok() && given.join(" ") == expected
}
