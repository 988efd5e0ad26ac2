//! The states of pods, without the messages with which programs of users ended: they can be the end of a log.

use serde_json::Value;

/// The file of the states: lines of name, node and state of a pod, with tabs between them.
pub(super) const FILE: &str = "api/pod-states.jsonl";
/// The beginning of the namespaces of the cluster.
const OF_CLUSTER: &str = "kube-";
const LEFT_OUT: &str = "[left out]";

/// Returns the states with messages of pods of the cluster only. What is not a state is left out.
pub(super) fn without_messages(states: &str) -> String {
    let lines = states.lines().map(|line| match line.rsplit_once('\t') {
        Some((pod, state)) if !pod.starts_with(OF_CLUSTER) => {
            format!("{pod}\t{}\n", of_user(state))
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn of_user(state: &str) -> String {
    let Ok(mut state) = serde_json::from_str(state) else {
        return LEFT_OUT.to_owned();
    };
    remove_messages(&mut state);
    state.to_string()
}

fn remove_messages(state: &mut Value) {
    match state {
        Value::Array(values) => values.iter_mut().for_each(remove_messages),
        Value::Object(fields) => {
            let ended = fields.get_mut("terminated");
            if let Some(message) = ended.and_then(|ended| ended.get_mut("message")) {
                *message = LEFT_OUT.into();
            }
            fields.values_mut().for_each(remove_messages);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_of_programs_of_users_are_left_out() {
        let ended =
            r#"{"terminated":{"exitCode":1,"message":"mine: \"{x}\" \\\t","reason":"Error"}}"#;
        let waits = r#"{"waiting":{"message":"back-off","reason":"CrashLoopBackOff"}}"#;
        let state = format!(r#"[{{"lastState":{ended},"state":{waits}}},{{"state":{ended}}}]"#);
        let states = format!(
            "kube-system/a\tnode1\t{state}\nshop/a\tnode1\t{state}\nshop/b\tnode1\t[{{cut\n"
        );
        let found = without_messages(&states);
        let [of_cluster, of_user, cut] = found.lines().collect::<Vec<_>>()[..] else {
            panic!("{found}");
        };
        assert_eq!(of_cluster.matches("mine").count(), 2);
        assert!(!of_user.contains("mine"), "{of_user}");
        assert_eq!(
            of_user
                .matches(r#""message":"[left out]","reason":"Error""#)
                .count(),
            2
        );
        assert!(of_user.contains("back-off"), "{of_user}");
        assert_eq!(cut, "shop/b\tnode1\t[left out]");
    }
}
