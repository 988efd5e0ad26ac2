//! Order and ranges of versions, compared with the library of rpm.

use std::io::Write;
use std::process::{Command, Stdio};

use kubexm_fetch::dnf::{Evr, Range, Sense, compare};

/// Reads lines of five words. Prints rpm's order of the first two, and whether a provided `=` of the first
/// overlaps with a requested range of the second.
const ASK_RPM: &str = r#"
import rpm, sys
flags = {"LT": rpm.RPMSENSE_LESS, "EQ": rpm.RPMSENSE_EQUAL, "GT": rpm.RPMSENSE_GREATER,
         "LE": rpm.RPMSENSE_LESS | rpm.RPMSENSE_EQUAL, "GE": rpm.RPMSENSE_GREATER | rpm.RPMSENSE_EQUAL}
for line in sys.stdin:
    a, b, given, sense, wanted = line.rstrip("\n").split(" ")
    order = rpm.labelCompare(("0", a, "1"), ("0", b, "1"))
    provided = rpm.ds(("x", rpm.RPMSENSE_EQUAL, given), rpm.RPMTAG_PROVIDENAME)
    required = rpm.ds(("x", flags[sense], wanted), rpm.RPMTAG_REQUIRENAME)
    print(order, int(provided.Compare(required)))
"#;

/// Numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number from 0 to `sides` - 1.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % sides
    }

    fn version(&mut self) -> String {
        const PARTS: [&str; 16] = [
            "1", "0", "10", "01", "2", "a", "b", "rc", "A", ".", ".", "~", "^", "_", "+", "00",
        ];
        let parts: String = (0..1 + self.roll(6))
            .map(|_| PARTS[self.roll(16)])
            .collect();
        format!("{}{parts}", self.roll(3))
    }

    fn evr(&mut self) -> String {
        let epoch = ["", "", "0:", "1:"][self.roll(4)];
        let release = match self.roll(3) {
            0 => String::new(),
            _ => format!("-{}", 1 + self.roll(2)),
        };
        format!(
            "{epoch}{}{release}",
            ["1", "1.0", "2", "1~a", "1^a"][self.roll(5)]
        )
    }
}

#[test]
fn versions_and_ranges_compare_like_rpm() {
    let mut dice = Dice(36);
    let senses = ["LT", "LE", "EQ", "GE", "GT"];
    let asked: Vec<[String; 5]> = (0..5000)
        .map(|_| {
            let sense = senses[dice.roll(5)].to_owned();
            let (first, mut second) = (dice.version(), dice.version());
            if dice.roll(8) == 0 {
                second = first.replace(['.', '+'], "_") + ["", "", "0", "~"][dice.roll(4)];
            }
            [first, second, dice.evr(), sense, dice.evr()]
        })
        .collect();
    let mut rpm = Command::new("/usr/bin/python3")
        .args(["-c", ASK_RPM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = asked.iter().map(|words| words.join(" ") + "\n").collect();
    let mut stdin = rpm.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let answers = rpm.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    let answers = String::from_utf8(answers.stdout).unwrap();
    assert_eq!(answers.lines().count(), asked.len(), "python3-rpm answers");
    let mut orders = [0; 3];
    for ([a, b, given, sense, wanted], answer) in asked.iter().zip(answers.lines()) {
        let order = compare(a, b) as i32;
        orders[(order + 1) as usize] += 1;
        let range = |sense: &str, evr: &str| Range {
            sense: Sense::parse(sense).unwrap(),
            evr: Evr::parse(evr),
        };
        let overlap = range("EQ", given).overlaps(&range(sense, wanted));
        let ours = format!("{order} {}", i32::from(overlap));
        assert_eq!(ours, answer, "{a} and {b}; {given} for {sense} {wanted}");
    }
    assert!(orders.iter().all(|count| *count > 50), "{orders:?}");
}
