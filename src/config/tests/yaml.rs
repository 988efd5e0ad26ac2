//! Files that are not valid YAML: messages in kubexm's words, with the line and a hint.

use crate::parse_cluster;

#[test]
fn errors_of_the_parser_name_the_line_and_what_to_do() {
    let cases = [
        "a: b\na: c\n",
        "a: &x b\nc: *x\n",
        "a: b\nc: *x\n",
        "a: {<<: {b: c}}\n",
        "a: b\n---\nc: d\n",
        "a:\n\t- b\n",
        "a: [b\nc: d\n",
        "a: 'b\n",
        "a: b: c\n",
        "a: 18446744073709551615\n",
        "a: !!binary x\n",
    ];
    let mut all = String::new();
    for text in cases {
        let error = parse_cluster("c.yaml", text).unwrap_err();
        all += &format!("=== {}\n{error}\n", text.trim_end());
    }
    for leaked in ["Options", "budget", "from_str", "Policy", "serde", "saphyr"] {
        assert!(!all.contains(leaked), "{leaked}: {all}");
    }
    insta::assert_snapshot!(all, @"
    === a: b
    a: c
    c.yaml:2:1: the field 'a' is there twice
      hint: remove one of the two fields
    === a: &x b
    c: *x
    c.yaml:1:7: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    === a: b
    c: *x
    c.yaml:2:4: anchors and aliases are not accepted
      hint: write the value again instead of the alias
    === a: {<<: {b: c}}
    c.yaml:1:5: merge keys ('<<') are not accepted
      hint: write the fields here
    === a: b
    ---
    c: d
    c.yaml:3:1: the file contains more than one document
      hint: remove everything from the second '---' on
    === a:
    	- b
    c.yaml:2:1: a tab indents this line
      hint: indent with spaces: YAML does not allow tabs
    === a: [b
    c: d
    c.yaml:2:2: is not valid YAML: illegal placement of ':' indicator
      hint: check indentation, quotes and brackets here and above
    === a: 'b
    c.yaml:2:1: is not valid YAML: invalid indentation in multiline quoted scalar
      hint: check indentation, quotes and brackets here and above
    === a: b: c
    c.yaml:1:5: is not valid YAML: mapping values are not allowed in this context
      hint: check indentation, quotes and brackets here and above
    === a: 18446744073709551615
    c.yaml:1:4: the number is too large
      hint: put it in quotes, or use a number below 2^63
    === a: !!binary x
    c.yaml:1:13: is not valid YAML
      hint: check indentation, quotes and brackets here and above
    ");
}
