use super::*;

#[test]
fn every_refusal_has_the_same_form() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = crate::example::cluster();
    let state = folder.path();
    let records = [
        (
            RotationRecord::FILE,
            r#"{"id": "1", "authorities": ["kubernetes"], "phase": "switch", "isComplete": true}"#,
        ),
        (
            UpgradeRecord::FILE,
            r#"{"from": "1.35.4", "to": "1.36.3", "archives": {}}"#,
        ),
        (
            MoveRecord::FILE,
            r#"{"before": ["node1"], "from": ["node1"], "to": ["node2"], "stage": "begun", "isCopied": false}"#,
        ),
    ];
    for (file, text) in records {
        std::fs::write(state.join(file), text).unwrap();
        let mut refused = 0;
        for operation in Operation::ALL.iter().copied() {
            let Err(error) = permit(operation, &cluster, state) else {
                continue;
            };
            let text = error.to_string();
            let start = format!("cannot run {operation} now: ");
            assert!(text.starts_with(&start), "{file}: {text}");
            assert!(text.contains("\nhint: "), "{file}: {text}");
            refused += 1;
        }
        assert!(refused > 0, "{file}");
        std::fs::remove_file(state.join(file)).unwrap();
    }
}

#[test]
fn reset_waits_for_nothing_and_replacement_stops_nothing() {
    for begun in Begun::ALL.iter().copied() {
        assert_eq!(decision(begun, Operation::Reset), Decision::Permitted);
    }
    for operation in Operation::ALL.iter().copied() {
        let decided = decision(Begun::Replacement, operation);
        assert_eq!(decided, Decision::Permitted, "{operation}");
    }
}
