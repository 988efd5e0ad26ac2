//! Registries as nodes reach them.

use crate::registry;
use crate::tests::machine::Machine;

/// A program that is not a registry of the cluster, and a firewall, must not pass for a registry.
#[test]
fn registries_that_do_not_answer_a_node_are_named_with_the_reason() {
    Machine::with_each_shell(|machine| {
        machine.fake("sleep", "");
        machine.fake(
            "kubectl",
            "[ \"$(cat \"$2\")\" = secret ] && [ \"$NO_PROXY\" = '*' ] || exit 9\n\
             case $4 in\n\
             a:1) echo '{}' ;;\n\
             b:2) [ -e /root/once ] || { : >/root/once; echo 'connection refused'; exit 1; } ;;\n\
             c:3) echo 'tls: failed to verify certificate: x509' >&2; exit 1 ;;\n\
             d:4) echo 'error: You must be logged in to the server (Unauthorized)'; exit 1 ;;\n\
             *) exit 1 ;;\n\
             esac",
        );
        let registries = ["a:1", "b:2", "c:3", "d:4", "e:5"];
        let ended = machine.run_after("rm -f /root/once", registry::ANSWERS, &registries, "secret");
        assert_eq!((ended.status, ended.complained.as_str()), (0, ""));
        let expected = [
            "c:3: tls: failed to verify certificate: x509",
            "d:4: it refuses the login of the nodes",
            "e:5: kubectl gave no reason",
        ];
        let lines: Vec<&str> = ended.printed.lines().collect();
        assert_eq!(lines, expected);
        let left = std::fs::read_dir(machine.at("/run/kubexm")).unwrap();
        assert_eq!(left.count(), 0, "the login does not stay on the host");
    });
}
