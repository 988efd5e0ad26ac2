//! What programs of Kubernetes and etcd print about arguments that they refuse.

/// A flag that no program has, as the last argument: a program that names it has accepted the arguments before it.
pub(super) const LAST: &str = "kubexm-last-flag";

/// Messages about settings that are wrong in every environment, as far as the program prints them. Other messages are about
/// the sandbox, such as one about a missing network.
const WRONG: [&str; 5] = [
    "unrecognized feature gate: ",
    "cannot set feature gate ",
    "strict decoding error: ",
    "failed to decode: ",
    "your configuration file uses an old API spec: ",
];
/// Begins the list of what the kubelet does not like about its configuration, and about this machine.
const INVALID: &str = "failed to validate kubelet configuration, error: ";
/// Begins an item of the list that is about the configuration.
const FIELD: &str = "invalid configuration: ";
/// The largest number of characters of a message.
const LONGEST: usize = 300;

/// Messages about flags, of pflag and of Go's package flag.
const WRONG_FLAG: [&str; 4] = [
    "unknown flag: ",
    "invalid argument ",
    "invalid value ",
    "flag provided but not defined: ",
];

/// Returns why a program refuses the arguments before [`LAST`]; `None` if it accepts them.
pub(super) fn to_flags(said: &str) -> Option<String> {
    let found = said.lines().find_map(|line| from(line, &WRONG_FLAG))?;
    (!found.contains(LAST)).then(|| readable(found))
}

/// Returns why a program refuses its feature gates or its configuration; `None` if it complains about nothing else than its
/// environment.
pub(super) fn to_settings(said: &str) -> Option<String> {
    if let Some(found) = said.lines().find_map(|line| from(line, &WRONG)) {
        return Some(readable(found));
    }
    let list = said.lines().find_map(|line| from(line, &[INVALID]))?;
    let items = list[INVALID.len()..].trim_start_matches('[').split(", ");
    let items: Vec<&str> = items.filter_map(|item| item.strip_prefix(FIELD)).collect();
    (!items.is_empty()).then(|| readable(&items.join("; ")))
}

/// Returns the end of a line from the first of these messages on.
fn from<'a>(line: &'a str, messages: &[&str]) -> Option<&'a str> {
    let starts = messages.iter().filter_map(|message| line.find(message));
    starts.min().map(|start| &line[start..])
}

/// Returns a part of a line of klog as plain text.
fn readable(text: &str) -> String {
    let text = text.replace("\\\"", "\"");
    let text = text.trim_end_matches(']');
    // The line quotes the whole error, of which this is the end.
    let is_quoted = text.matches('"').count() % 2 == 1;
    let text = text.strip_suffix('"').filter(|_| is_quoted).unwrap_or(text);
    let text = text.trim_end_matches(']');
    text.chars()
        .filter(|c| !c.is_control())
        .take(LONGEST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_before_the_last_one_are_named() {
        let last = format!("Usage:\n\nError: unknown flag: --{LAST}\n");
        assert_eq!(to_flags(&last), None);
        let kubelet = format!(
            "E1124 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --{LAST}\""
        );
        assert_eq!(to_flags(&kubelet), None);
        assert_eq!(
            to_flags("E1124 run.go:72] \"command failed\" err=\"failed to parse kubelet flag: unknown flag: --nosuch\"").unwrap(),
            "unknown flag: --nosuch"
        );
        assert_eq!(
            to_flags("Error: invalid argument \"forever\" for \"--node-monitor-period\" flag: time: invalid duration \"forever\"").unwrap(),
            "invalid argument \"forever\" for \"--node-monitor-period\" flag: time: invalid duration \"forever\""
        );
        assert_eq!(
            to_flags("flag provided but not defined: -nosuch\nUsage:").unwrap(),
            "flag provided but not defined: -nosuch"
        );
        assert_eq!(to_flags("panic: no network"), None);
    }

    #[test]
    fn messages_about_this_machine_are_no_refusal() {
        let gate = "E1124 run.go:72] \"command failed\" err=\"cannot set feature gate NodeSwap to false, feature is locked to true\"";
        assert_eq!(
            to_settings(gate).unwrap(),
            "cannot set feature gate NodeSwap to false, feature is locked to true"
        );
        let field = "I1124 codec.go:102] \"Using lenient decoding as strict decoding failed\" err=\"strict decoding error: unknown field \\\"maxPod\\\"\"\nE1124 mkdir /var/lib/kubelet: permission denied";
        assert_eq!(
            to_settings(field).unwrap(),
            "strict decoding error: unknown field \"maxPod\""
        );
        let list = "E1124 err=\"failed to validate kubelet configuration, error: [invalid configuration: maxPods (--max-pods) -20 must not be a negative number, kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported]\"";
        assert_eq!(
            to_settings(list).unwrap(),
            "maxPods (--max-pods) -20 must not be a negative number"
        );
        let alone = "E1124 err=\"failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1\"";
        assert_eq!(to_settings(alone), None);
        let kubeadm = "error: error unmarshaling configuration schema.GroupVersionKind{Group:\"kubeadm.k8s.io\", Version:\"v1beta4\", Kind:\"ClusterConfiguration\"}: strict decoding error: unknown field \"useHyperKubeImage\"";
        assert_eq!(
            to_settings(kubeadm).unwrap(),
            "strict decoding error: unknown field \"useHyperKubeImage\""
        );
        let client = "E1124 run.go:72] \"command failed\" err=\"invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable\"";
        assert_eq!(to_settings(client), None);
        assert_eq!(to_settings("E1124 no default routes found"), None);
    }
}
