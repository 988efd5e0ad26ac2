//! Scripts that compare objects with the cluster. kubectl is a stand-in.

use super::machine::Machine;
use crate::kubernetes;

/// `status --fix` applies what differs, so an API server that does not answer must not look like a difference.
#[test]
fn api_server_that_does_not_answer_is_not_a_difference() {
    Machine::with_each_shell(|machine| {
        let manifest = "/etc/kubexm/flannel.yaml";
        let status = |diff: u8, api: u8| {
            machine.fake(
                "kubectl",
                &format!("case $* in *' diff '*) echo 'error: said' >&2; exit {diff} ;; *' get --raw /readyz') exit {api} ;; esac"),
            );
            let access = [manifest, "https://192.0.2.11:6443"];
            let of_manifest = machine.run(kubernetes::MANIFEST.verb("check"), &[manifest]);
            let of_access = machine.run(kubernetes::ACCESS.verb("check"), &access);
            assert_eq!(of_manifest.status, of_access.status);
            (of_manifest.status, of_manifest.printed)
        };
        let absent = (1, "the cluster does not exist yet\n".to_owned());
        assert_eq!(status(0, 0), absent);
        machine.write("/etc/kubernetes/admin.conf", "");
        assert_eq!(status(0, 0), (0, String::new()));
        assert_eq!(status(1, 0), (1, "differs\n".to_owned()));
        // The kind of an object does not exist yet.
        let unknown = "cannot be compared: error: said\n".to_owned();
        assert_eq!(status(2, 0), (1, unknown));
        assert_eq!(status(2, 1), (75, String::new()));
    });
}

#[test]
fn resources_are_printed_although_an_aggregated_api_server_does_not_answer() {
    Machine::with_each_shell(|machine| {
        let fake = |resources: &str| {
            let fake = format!("case $* in *api-versions*) echo v1 ;; *) {resources} ;; esac");
            machine.fake("kubectl", &fake);
            machine.run(kubernetes::RESOURCES, &[])
        };
        let found = fake("echo 'pods po v1 true Pod'; exit 1");
        assert_eq!(
            (found.status, found.printed.as_str()),
            (0, "v1\npods po v1 true Pod\n")
        );
        assert_eq!(fake("exit 1").status, 75);
    });
}
