//! The scripts that rotate authorities.

use super::super::rotation::{
    KUBECONFIGS, SERVING, SIGNER, SIGNING_CA, with_control_plane, with_kubelet, with_unit,
};
use super::{Case, call, kill_everywhere};
use crate::Script;
use crate::kubeadm::ROTATE;
use crate::kubernetes::{KUBELET_CERTIFICATES, SIGNER as UNIT_SIGNER};
use crate::tests::machine::Machine;

#[test]
#[ignore = "kills scripts some hundred times, which takes minutes"]
pub(super) fn rotated_authorities() {
    let case = |before: fn(&Machine), script: Script, arguments: &[&str]| Case {
        before,
        enter: ":",
        check: Some(call(script.verb("check"), arguments)),
        apply: call(script.verb("apply"), arguments),
        undo: vec![],
    };
    // The part that restarts programs writes no file.
    for part in [&SIGNER[..], &KUBECONFIGS] {
        kill_everywhere(&case(with_control_plane, ROTATE, part));
    }
    kill_everywhere(&case(with_unit, UNIT_SIGNER, &SIGNING_CA));
    for verb in ["request", "record"] {
        kill_everywhere(&Case {
            check: Some(call(KUBELET_CERTIFICATES.verb("check"), &["1"])),
            apply: call(KUBELET_CERTIFICATES.verb(verb), &["1", SERVING]),
            ..case(with_kubelet, KUBELET_CERTIFICATES, &[])
        });
    }
}
