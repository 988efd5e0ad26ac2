//! Reads the JUnit report of Kubernetes' tests. A host provides it, so it is hostile until it is parsed.

use std::io::BufRead;

use serde::Serialize;

use kubexm_fetch::xml::{self, Piece, Tag};
use kubexm_types::untrusted;

/// The tests of a run. Skipped tests are not counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tests {
    /// Names of the tests that passed.
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<FailedTest>,
}

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedTest {
    /// The name, as in `[sig-node] Pods should be updated [NodeConformance] [Conformance]`.
    pub name: String,
    /// The first lines of the message.
    pub message: String,
}

/// Parses a report (<https://github.com/testmoapp/junitxml>, as ginkgo writes it).
///
/// # Errors
/// The text is not a report with test cases.
pub(super) fn parse(source: impl BufRead) -> Result<Tests, String> {
    let (mut tests, mut case, mut cases) = (Tests::default(), None, 0usize);
    // The log of a test is a text, too. The size of the whole report is limited already.
    xml::walk(source, usize::MAX, |piece| {
        match piece {
            Piece::Open(tag) => open(tag, &mut case),
            Piece::Close("testcase", _) => {
                cases += 1;
                tests.add(case.take());
            }
            Piece::Close("failure" | "error", text) => {
                if let Some(case) = &mut case {
                    case.text = untrusted::message(text);
                }
            }
            Piece::Close(..) => {}
        }
        Ok(())
    })?;
    match cases {
        0 => Err("it has no test case".to_owned()),
        _ => Ok(tests),
    }
}

/// A test case that is being read.
struct Case {
    name: String,
    status: String,
    /// The message of a failure; empty if the writer puts it into the text, as the tests of Kubernetes do.
    message: Option<String>,
    /// The text of the failure.
    text: String,
}

/// Handles a start tag.
fn open(tag: &Tag<'_>, case: &mut Option<Case>) {
    let attribute = |name| {
        let value = tag.attribute(name).unwrap_or_default();
        untrusted::message(&value)
    };
    match (tag.name(), case) {
        ("testcase", case) => {
            *case = Some(Case {
                name: attribute("name"),
                status: attribute("status"),
                message: None,
                text: String::new(),
            });
        }
        ("failure" | "error", Some(case)) => case.message = Some(attribute("message")),
        _ => {}
    }
}

impl Tests {
    fn add(&mut self, case: Option<Case>) {
        let Some(case) = case else {
            return;
        };
        // ginkgo reports its own set-up as cases without a test, which count only if they fail.
        let is_test = case.name.starts_with("[It] ");
        let name = case.name.trim_start_matches("[It] ").to_owned();
        match (case.message, case.status.as_str()) {
            (Some(message), _) if !message.is_empty() => {
                self.failed.push(FailedTest { name, message });
            }
            (Some(_), _) => self.failed.push(FailedTest {
                name,
                message: case.text,
            }),
            (None, "passed") if is_test => self.passed.push(name),
            (None, "passed" | "skipped" | "pending") => {}
            (None, other) => self.failed.push(FailedTest {
                name,
                message: format!("its status is {other}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" disabled="1" errors="0" failures="1" time="9.5">
  <testsuite name="Kubernetes e2e suite" package="/" tests="4">
    <properties><property name="SuiteSucceeded" value="false"></property></properties>
    <testcase name="[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="passed" time="0.1"></testcase>
    <testcase name="[It] [sig-node] Pods should be updated [NodeConformance] [Conformance]" classname="x" status="passed" time="6.2">
      <system-err>text</system-err>
    </testcase>
    <testcase name="[It] [sig-network] DNS should work &lt;1&gt;" classname="x" status="failed" time="3">
      <failure message="lookup failed" type="failed">at dns.go:1</failure>
    </testcase>
    <testcase name="[It] [sig-storage] other" classname="x" status="skipped" time="0"><skipped message="skipped"/></testcase>
  </testsuite>
</testsuites>"#;

    #[test]
    fn passed_and_failed_tests_are_counted_and_skipped_ones_are_not() {
        let tests = parse(REPORT.as_bytes()).unwrap();
        assert_eq!(
            tests.passed,
            ["[sig-node] Pods should be updated [NodeConformance] [Conformance]"]
        );
        let failed = FailedTest {
            name: "[sig-network] DNS should work <1>".to_owned(),
            message: "lookup failed".to_owned(),
        };
        assert_eq!(tests.failed, [failed]);
    }

    #[test]
    fn message_may_be_the_text_of_the_failure() {
        let report = REPORT.replace(
            r#"message="lookup failed" type="failed">at dns.go:1"#,
            r#"message="" type="failed">[FAILED] pod &#34;a&#34; &lt;nil&gt;&#xA;at dns.go:1</failure><system-err>other</system-err><a>"#,
        );
        let report = report.replace("<a></failure>", "");
        let tests = parse(report.as_bytes()).unwrap();
        let expected = "[FAILED] pod \"a\" <nil>\nat dns.go:1";
        assert_eq!(tests.failed[0].message, expected);
    }

    #[test]
    fn set_up_that_fails_is_a_failure() {
        let report = REPORT.replace(
            r#"[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="passed""#,
            r#"[SynchronizedBeforeSuite]" classname="Kubernetes e2e suite" status="timedout""#,
        );
        let tests = parse(report.as_bytes()).unwrap();
        assert_eq!(tests.failed.len(), 2);
        assert_eq!(tests.failed[0].message, "its status is timedout");
    }

    #[test]
    fn what_is_not_a_report_is_refused() {
        let hostile = [
            "",
            "<testsuites></testsuites>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]><testcase name=\"&b;\"/>",
            "<testsuites><testcase name=\"[It] a\" status=\"passed\"></testsuites>",
        ];
        for text in hostile {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// Before, the tests that the end of the report names were missing from the result.
    #[test]
    fn report_that_was_cut_off_is_refused() {
        let (start, _) = REPORT.split_once("</testsuite>").unwrap();
        let error = parse(start.as_bytes()).unwrap_err();
        assert_eq!(error, "it ends too early: was it cut off?");
    }

    #[test]
    fn control_sequences_of_messages_are_removed() {
        let report = REPORT.replace("lookup failed", "\u{1b}[2Jgone");
        let tests = parse(report.as_bytes()).unwrap();
        assert!(!tests.failed[0].message.contains('\u{1b}'));
    }
}
