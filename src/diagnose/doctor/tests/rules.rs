//! What rules of firewalls lead to.

use super::*;
use crate::doctor::Finding;

/// Returns the finding about packets to the kubelet of node2, which has this rule.
fn with_rule(rule: &str) -> Finding {
    let host = changed(HOST, "", &format!("rule={rule}"));
    let mut seen = seen(&host, RUNTIME);
    let ways = seen.ways.get_mut(&name("node1")).unwrap();
    ways.insert("kubelet/node2/10250".to_owned(), Way::Timeout);
    let report = judge(&seen);
    assert_eq!(causes(&report), ["firewall"], "{rule}");
    report
        .causes()
        .find(|found| found.check == "firewall")
        .unwrap()
        .clone()
}

/// Returns the finding with this rule, which is not certain and has no commands.
fn likely_without_commands(rule: &str) -> Finding {
    let found = with_rule(rule);
    assert_eq!(found.certainty, Certainty::Likely, "{rule}");
    assert_eq!(found.commands, [""; 0], "{rule}");
    found
}

fn is_evidence(found: &Finding, rule: &str) -> bool {
    found.evidence.contains(&format!("node2: {rule}"))
}

#[test]
fn rules_that_name_the_port_are_the_cause() {
    for rule in [
        "-A INPUT -p tcp -m tcp --dport 10250 -j DROP",
        "-A INPUT -s 192.0.2.11/32 -p tcp -m tcp --dport 10250 -j DROP",
    ] {
        let found = with_rule(rule);
        assert_eq!(found.certainty, Certainty::Certain, "{rule}");
        assert!(is_evidence(&found, rule), "{rule}: {found:?}");
        let delete = format!("--host node2 -- iptables -D {}", &rule[3..]);
        assert!(found.commands[0].ends_with(&delete), "{:?}", found.commands);
    }
    // To delete these would open other ports, or is not possible with iptables.
    for rule in [
        "-A own -p tcp -m multiport --dports 22,10000:11000 -j REJECT --reject-with tcp-reset",
        "own: tcp dport { 22, 10250 } counter packets 7 bytes 420 drop",
    ] {
        let found = with_rule(rule);
        assert_eq!(found.certainty, Certainty::Certain);
        assert!(
            is_evidence(&found, rule) && found.commands.is_empty(),
            "{found:?}"
        );
    }
}

#[test]
fn rules_that_may_be_the_cause_are_not_deleted() {
    for rule in [
        "-A INPUT -j DROP",
        ":INPUT DROP [0:0]",
        "-A INPUT -s 192.0.2.11/32 -j DROP",
        "-A ufw-before-input -m conntrack --ctstate INVALID -j DROP",
        // These keep other machines and networks away from the port.
        "-A INPUT ! -s 192.0.2.0/24 -p tcp -m tcp --dport 10250 -j DROP",
        "-A INPUT -i eth1 -p tcp -m tcp --dport 10250 -j DROP",
        "-A INPUT -p tcp -m tcp ! --dport 22 -j DROP",
        "own: ip saddr != 192.0.2.0/24 tcp dport 10250 drop",
        "own: tcp dport @closed drop",
    ] {
        let found = likely_without_commands(rule);
        assert!(is_evidence(&found, rule), "{rule}: {found:?}");
    }
}

#[test]
fn rules_about_other_packets_are_not_mentioned() {
    for rule in [
        "-A f2b-sshd -s 198.51.100.7/32 -j REJECT --reject-with icmp-port-unreachable",
        "-A INPUT -p udp -m udp --dport 10250 -j DROP",
        "-A INPUT -p tcp -m tcp --dport 22 -j DROP",
        "-A INPUT -p icmp -j DROP",
        "-A FORWARD -j DROP",
        "own: ip saddr { 198.51.100.7, 198.51.100.8 } drop",
        "own: udp dport 53 drop",
    ] {
        let found = likely_without_commands(rule);
        assert!(!is_evidence(&found, rule), "{rule}: {found:?}");
    }
}

#[test]
fn packets_of_pods_are_udp() {
    for (rule, certainty, is_shown, commands) in [
        (
            "-A INPUT -p udp -m udp --dport 8472 -j DROP",
            Certainty::Certain,
            true,
            1,
        ),
        (":FORWARD DROP [0:0]", Certainty::Likely, true, 0),
        (
            "-A INPUT -p tcp -m tcp --dport 8472 -j DROP",
            Certainty::Likely,
            false,
            0,
        ),
    ] {
        let host = changed(HOST, "", &format!("rule={rule}"));
        let mut seen = seen(&host, RUNTIME);
        let ways = seen.ways.get_mut(&name("node2")).unwrap();
        ways.insert("pod/node1/53".to_owned(), Way::Timeout);
        let report = judge(&seen);
        let found = report
            .causes()
            .find(|found| found.check == "pod-network")
            .unwrap();
        assert_eq!(found.certainty, certainty, "{rule}");
        assert_eq!(is_evidence(found, rule), is_shown, "{rule}: {found:?}");
        assert_eq!(found.commands.len(), commands, "{:?}", found.commands);
    }
}
