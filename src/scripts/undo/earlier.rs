//! Undo scripts in receipts of earlier versions, which contain the text of a script instead of its name. A reset never
//! runs such a text. It compares the SHA-256 of the text with those of all scripts that earlier versions wrote, and
//! runs the scripts of this version that have the same purpose.

use super::*;

/// A text that an earlier version wrote.
struct Text {
    sha256: &'static str,
    /// The scripts of this version, in the order in which a reset runs them.
    runs: &'static [(UndoScript, Arguments)],
}

/// How the arguments of a script follow from those of the earlier text.
#[derive(Debug, Clone, Copy)]
enum Arguments {
    Same,
    First,
    None,
    Fixed(&'static str),
}

const TEXTS: &[Text] = &[
    Text {
        sha256: "68d06136968a7fa87b29ad2b3cb708162197b0d3a8f3b585a682064a71d9daf0",
        runs: &[
            (KUBEADM_RESET, Arguments::Same),
            (LEFTOVERS_REMOVE, Arguments::Fixed("kubernetes")),
            (MARKERS_REMOVE, Arguments::Fixed("kubeadm")),
        ],
    },
    Text {
        sha256: "bc23552be037a3670fd7fda1dd88679362333ceca0b6f8d4c0596220f722b75e",
        runs: &[
            (STOP_PODS, Arguments::None),
            (LEFTOVERS_REMOVE, Arguments::Fixed("kubernetes")),
            (MARKERS_REMOVE, Arguments::Fixed("kubernetes-node")),
        ],
    },
    Text {
        sha256: "c57d600789fe3225302bd9bcb820ca823f67544e5e846479cf71472cd6030290",
        runs: &[(STOP_PODS, Arguments::None)],
    },
    Text {
        sha256: "5ba615d49236236df175c7e96fdc3834ff4ef41e75e95252d06c59a292a626e7",
        runs: &[
            (STOP_PODS, Arguments::None),
            (STOP_CRIO_SCOPES, Arguments::None),
        ],
    },
    Text {
        sha256: "aae3d8de72ee1bc1fccaa77a459b5e2862e29279ac7e6b00d0958b1a57dd2cdd",
        runs: &[(BLOCK_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "7e333d6460e6a9d9d155fe1eac5828c604ed2d6d1916886a9e29f7c070c201a6",
        runs: &[(COMMAND_END, Arguments::None)],
    },
    Text {
        sha256: "ce8fc4d8b30554e97ff4aee7c4b5e4dba6e195aea02d5024871089091534adab",
        runs: &[(APT_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "0c58fe13c330e1ea9317838c42e486f8c85b565c6bff0cf9689cc93c1ae54d82",
        runs: &[(DNF_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "883d7a33e170f9648a255f7441953dc63a7ef286b00da0a6d3b345d3021985b4",
        runs: &[(UNIT_STOP, Arguments::Same)],
    },
    Text {
        sha256: "d50da075c9c3b5c0e679d1ee819ce813a7b61c355ebc9cea034b26f2f8dcf3e1",
        runs: &[(NETWORK_MANAGER_FORGET, Arguments::First)],
    },
    Text {
        sha256: "0b0ebae82a3e1c55b58ae70973664d64ad75fd15e22c611ccb1abbf43bfcfbe9",
        runs: &[(ETCD_FOLDER_RESTORE, Arguments::Same)],
    },
    Text {
        sha256: "0e5039b11df781f82e10456b5d40467c31679ff388a529d08e1646869a4f233f",
        runs: &[(SWAP_ON, Arguments::None)],
    },
    Text {
        sha256: "83fc3c5650c4ad4d9e5d8e922cd2cbb86475e9a0b691ddedeabfb01cc9d42279",
        runs: &[(SYSCTL_RESTORE, Arguments::None)],
    },
    Text {
        sha256: "bdde050fce2e2bcce2d8bc7824b878ec30e0e4c75de5c9964da1a77153973fae",
        runs: &[(KUBELET_SURROUNDINGS_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "2426f7790a2e4e4af1a1c20cad4ab65e945e2aefd46dfa841d20c51ad75cabf0",
        runs: &[(ADDRESS_REMOVE, Arguments::First)],
    },
    Text {
        sha256: "7ab4f971d5e0366f8d42c589b2b6c0c3ce3ffe407cb0aabb6d9bd88f83b4cdb9",
        runs: &[(JOIN_PROXY_STOP, Arguments::Fixed("stop"))],
    },
    Text {
        sha256: "d678dd0fc91e5bd5c21fb8373f0ad162d4074f585918d223b0ef018a57641ac5",
        runs: &[(UNMASK_SERVICES, Arguments::None)],
    },
    Text {
        sha256: "f341b2c2f9fba467ac7d23f7d41b6d48662765a99851fbe1a2fd7e791b7321f7",
        runs: &[(LEFTOVERS_REMOVE, Arguments::Fixed("node-local-dns"))],
    },
    Text {
        sha256: "12a4da5c5e5db795250274b9bd644f489007dbcce91e63bfb5562c80e6207c75",
        runs: &[(LEFTOVERS_REMOVE, Arguments::Fixed("bridge"))],
    },
    Text {
        sha256: "19ebda3a01bc5f20d23064b9223f4449286d1b621b8c4ef8ff8362e542697832",
        runs: &[(LEFTOVERS_REMOVE, Arguments::Fixed("calico"))],
    },
    Text {
        sha256: "d05e807a24738ead40addabe5f0e8c81eac3ea45a2c87cf7d49d4c0f00b1a850",
        runs: &[(LEFTOVERS_REMOVE, Arguments::Fixed("cilium"))],
    },
    Text {
        sha256: "028bbfa49092399d96f4137d73d874b3511d56af730cd0408205e931a967dfad",
        runs: &[(BLOCK_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "6d2f67fc0036da9cd7267ca7072f61f2ea37dd3cec6731e3e61a6340837ad39d",
        runs: &[(BLOCK_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "ea5a4361f566852e50df4825e42a32441091ea5beba75a7feaa9615628a96435",
        runs: &[(APT_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "5466f539f57a6c7f770a8dca92528055d13288ff76b519af1dad64b222ca2446",
        runs: &[(DNF_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "cd52cdb8e291b3a73c75f1a7b981cda34747051817b368428335c138a384db27",
        runs: &[(COMMAND_END, Arguments::None)],
    },
    Text {
        sha256: "b88401a6a34d4e93f84f41917b0225620d138532f36dca9ad208df21098d2bec",
        runs: &[(UNIT_STOP, Arguments::Same)],
    },
    Text {
        sha256: "c201aa4fd71dd83045484c3f82d7d432dfe36db29e3f4cfa3f430538bca0df0b",
        runs: &[(NETWORK_MANAGER_FORGET, Arguments::First)],
    },
    Text {
        sha256: "c1b22154a41147f44eda23e9d99157a374866f2f8dcd5b29ff363188147e356a",
        runs: &[(KUBEADM_RESET, Arguments::Same)],
    },
    Text {
        sha256: "df5829fbf82c2824097debe6623db1b31df034e1d4165f49457b9d0944020506",
        runs: &[(KUBEADM_RESET, Arguments::Same)],
    },
    Text {
        sha256: "2222786d1ff18c09f8873f02e601749bc0b23ff63e3f5d00dda35fbf65bc8ffa",
        runs: &[(STOP_PODS, Arguments::None)],
    },
    Text {
        sha256: "904fc4bb301e1343844f3cb0615bda52e77208e1c14244b23ade0e58ab21dd86",
        runs: &[(STOP_PODS, Arguments::None)],
    },
    Text {
        sha256: "5aa674222ab83fc22a419f24e7945f79905c9bc4506edbab250fcde0aa259f02",
        runs: &[(STOP_CRIO_SCOPES, Arguments::None)],
    },
    Text {
        sha256: "f477fe67017dce80a605577a0a3bc3455332702a9d0c9ca8ee32a4163c530b6e",
        runs: &[(STOP_CRIO_SCOPES, Arguments::None)],
    },
    Text {
        sha256: "0dcd0cb376acc9991be590f2d350bd5c626dd5baa2544c008300011d2af6604d",
        runs: &[(ETCD_FOLDER_RESTORE, Arguments::Same)],
    },
    Text {
        sha256: "4da729fa4da48f9f8ae4b0f2838cb3ddab2b5f1c9a1e00f202c594a9c59c1ad9",
        runs: &[(ETCD_FOLDER_RESTORE, Arguments::Same)],
    },
    Text {
        sha256: "5b66c340d5793a7807a4308a1f8847b0a0180cccca1d95b3d47217cffd2f8fc8",
        runs: &[(SWAP_ON, Arguments::None)],
    },
    Text {
        sha256: "6816a76065e068cabb3c55e4f4f9a58de6f989707f9c9d4b26cef0914c876c7d",
        runs: &[(SYSCTL_RESTORE, Arguments::None)],
    },
    Text {
        sha256: "6d8d3cf0357ebd55a56b26a297b50e92420e97a589513764369c4ab8ede4095f",
        runs: &[(KUBELET_SURROUNDINGS_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "98e37c617870548f22af83de4734acb0a477173f4f7ee57f62cf1a29159c5371",
        runs: &[(KUBELET_SURROUNDINGS_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "406190d7b0a527559dd3a402f264f3d6027ac733270f0fbd27d1765cf7533cb5",
        runs: &[(ADDRESS_REMOVE, Arguments::First)],
    },
    Text {
        sha256: "693a3033558b91b736cebe92d5a7c8b6c505ad4c49f68a6dccba826766d2f64c",
        runs: &[(ADDRESS_REMOVE, Arguments::First)],
    },
    Text {
        sha256: "05a815e69685da4f5afcf9fce1ea1d56d65510129286d207cb543278424a7db7",
        runs: &[(JOIN_PROXY_STOP, Arguments::Fixed("stop"))],
    },
    Text {
        sha256: "465b27d9d0f2b157802083545946ed730c48630d75984f33629cc5cdac3d4497",
        runs: &[(JOIN_PROXY_STOP, Arguments::Fixed("stop"))],
    },
    Text {
        sha256: "fcb7ef8fafb68edf2f67ddedad8f62b4eba466a7fe362b5c54456fefd9754f05",
        runs: &[(JOIN_PROXY_STOP, Arguments::Fixed("stop"))],
    },
    Text {
        sha256: "c01c1f9f46643b2336f021a02c1bd0b09f9e47bf4b56d9794f4cbeb27f97b15d",
        runs: &[(UNMASK_SERVICES, Arguments::None)],
    },
    Text {
        sha256: "ef27e94894737d8802f6700949b4c038d0023cdf7f36c28b821938096a96765b",
        runs: &[(UNMASK_SERVICES, Arguments::None)],
    },
    Text {
        sha256: "88f4afd2cf607ca0896b0b85302336c6c4b1df512c92ea0b77120327ab3c5f00",
        runs: &[(LEFTOVERS_REMOVE, Arguments::Same)],
    },
    Text {
        sha256: "7d4173b1dc1b8d07662c65218b5b2116ec8687462ab50b68be2ba23664706012",
        runs: &[(MARKERS_REMOVE, Arguments::Fixed("kubeadm"))],
    },
    Text {
        sha256: "d94b0dd02600ab6ba1e10019c295c82d37d4abda94fc8ee4088818d6b0f73066",
        runs: &[(MARKERS_REMOVE, Arguments::Fixed("kubernetes-node"))],
    },
];

/// Returns the scripts of this version that do what a text of an earlier version did, with their arguments; `None` if no
/// version wrote this text. The arguments are not checked yet.
pub fn replacement(sha256: &str, arguments: &[String]) -> Option<Vec<(UndoScript, Vec<String>)>> {
    let text = TEXTS.iter().find(|text| text.sha256 == sha256)?;
    let runs = text.runs.iter().map(|(script, how)| {
        let arguments = match how {
            // Earlier versions recorded every package that was new on the host. It keeps those that it cannot do without.
            Arguments::Same if script.more == Some(Parameter::Package) => arguments
                .iter()
                .filter(|name| !is_listed(name, ESSENTIAL_PACKAGES))
                .cloned()
                .collect(),
            Arguments::Same => arguments.to_vec(),
            Arguments::First => arguments.first().cloned().into_iter().collect(),
            Arguments::None => Vec::new(),
            Arguments::Fixed(argument) => vec![(*argument).to_owned()],
        };
        (*script, arguments)
    });
    Some(runs.collect())
}
