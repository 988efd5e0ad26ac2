//! Scripts that a reset runs, by name and with typed arguments.
//!
//! The receipt on a host names a script of this list and its arguments. The text of the script always comes from
//! the kubexm that resets, because a receipt can be damaged or forged. A name must therefore stay in this list
//! for as long as hosts can have receipts with it.

pub mod directories;
pub mod earlier;
pub mod protected;

use std::net::IpAddr;

use kubexm_kinds::{PackageManager, PluginKind, RuntimeKind};

use crate::{Script, etcd, kubeadm, kubernetes, load_balancer, markers, network, os, packages};
use crate::{runtime, steps, systemd};

/// What an argument of an undo script can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A path that [`protected::is_protected_file`] permits.
    File,
    /// A path that [`protected::is_protected_directory`] permits.
    Directory,
    /// A systemd unit that kubexm writes or starts.
    Unit,
    /// A package that a host can do without.
    Package,
    /// An IP address.
    Address,
    /// The socket of a container runtime, as in `unix:///run/containerd/containerd.sock`.
    Socket,
    /// The owner of leftovers of pods: Kubernetes, the DNS cache, or a network plugin.
    Owner,
    /// One of these texts.
    OneOf(&'static [&'static str]),
}

/// Units that a reset stops, besides those of container runtimes. A prefix ends with `*`.
const UNITS: &[&str] = &["etcd.service", "kube-*", "kubelet.service", "kubexm-*"];

/// Packages that a receipt cannot remove, because the host does not start or cannot be reached without them,
/// besides those of the package managers. A prefix ends with `*`.
const ESSENTIAL_PACKAGES: &[&str] = &[
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "dbus*",
    "filesystem",
    "glibc*",
    "grub*",
    "init",
    "initramfs-tools*",
    "kernel*",
    "libc6",
    "linux-image*",
    "mount",
    "openssh*",
    "pam",
    "passwd",
    "shadow*",
    "shim*",
    "sudo",
    "systemd*",
    "udev",
    "util-linux*",
];

impl Parameter {
    /// Returns whether a text is a value of this type.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::File => is_path(text) && !protected::is_protected_file(text),
            Self::Directory => is_path(text) && !protected::is_protected_directory(text),
            Self::Unit => {
                let mut of_runtimes = RuntimeKind::all_properties().flat_map(|own| own.units());
                is_name(text) && (is_listed(text, UNITS) || of_runtimes.any(|unit| unit == text))
            }
            Self::Package => {
                let mut managers = PackageManager::all_properties();
                let is_of_manager = managers.any(|own| is_listed(text, own.essential));
                is_name(text) && !is_of_manager && !is_listed(text, ESSENTIAL_PACKAGES)
            }
            Self::Owner => {
                let mut of_plugins = PluginKind::all_properties().filter_map(|own| own.leftovers);
                matches!(text, "kubernetes" | "node-local-dns") || of_plugins.any(|own| own == text)
            }
            Self::Address => text.parse::<IpAddr>().is_ok(),
            Self::Socket => text
                .strip_prefix("unix://")
                .is_some_and(|path| is_path(path) && path.starts_with("/run/")),
            Self::OneOf(texts) => texts.contains(&text),
        }
    }
}

/// Returns whether a text is an absolute path without `..`, empty parts and control characters.
fn is_path(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|rest| {
        !text.chars().any(char::is_control)
            && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
    })
}

fn is_name(text: &str) -> bool {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | ':' | '@');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
}

fn is_listed(text: &str, list: &[&str]) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == *entry,
    })
}

/// A script that a reset can run.
#[derive(Debug, Clone, Copy)]
pub struct UndoScript {
    /// The script, without a verb: a verb is the first argument.
    pub script: Script,
    /// The types of its arguments.
    pub parameters: &'static [Parameter],
    /// The type of any further arguments.
    pub more: Option<Parameter>,
    /// Returns what the script does, for the user. The arguments are valid.
    pub title: fn(&[String]) -> String,
}

impl UndoScript {
    const fn new(
        script: Script,
        parameters: &'static [Parameter],
        title: fn(&[String]) -> String,
    ) -> Self {
        Self {
            script,
            parameters,
            more: None,
            title,
        }
    }

    /// Returns whether the arguments have the right number and types.
    pub fn accepts(&self, arguments: &[String]) -> bool {
        let (first, rest) = match arguments.split_at_checked(self.parameters.len()) {
            Some(parts) => parts,
            None => return false,
        };
        let mut typed = self.parameters.iter().zip(first);
        typed.all(|(parameter, argument)| parameter.accepts(argument))
            && rest
                .iter()
                .all(|argument| self.more.is_some_and(|more| more.accepts(argument)))
    }
}

/// Returns an argument, or an empty text.
fn argument(arguments: &[String], at: usize) -> &str {
    arguments.get(at).map_or("", String::as_str)
}

/// Removes kubexm's block from a file.
pub const BLOCK_REMOVE: UndoScript = UndoScript::new(
    steps::BLOCK_EDIT,
    &[
        Parameter::File,
        Parameter::OneOf(&["remove"]),
        Parameter::OneOf(&["absent", "ended", "unended"]),
    ],
    |arguments| format!("Remove kubexm's names from {}", argument(arguments, 0)),
);
/// Ends what a killed install left running.
pub const COMMAND_END: UndoScript = UndoScript::new(steps::RUN_TO_COMPLETION_END, &[], |_| {
    "Stop what an earlier command left running".to_owned()
});
/// Stops and disables a unit.
pub const UNIT_STOP: UndoScript =
    UndoScript::new(systemd::UNIT_STOP, &[Parameter::Unit], |arguments| {
        format!("Stop {}", argument(arguments, 0))
    });
const PACKAGES: fn(&[String]) -> String =
    |arguments| format!("Remove {} packages", arguments.len());
/// Removes packages with dpkg.
pub const APT_REMOVE: UndoScript = UndoScript {
    more: Some(Parameter::Package),
    ..UndoScript::new(packages::APT_REMOVE, &[], PACKAGES)
};
/// Removes packages with rpm.
pub const DNF_REMOVE: UndoScript = UndoScript {
    more: Some(Parameter::Package),
    ..UndoScript::new(packages::DNF_REMOVE, &[], PACKAGES)
};
/// Turns swap on.
pub const SWAP_ON: UndoScript =
    UndoScript::new(os::SWAP_ON, &[], |_| "Turn swap on again".to_owned());
/// Restores kernel settings.
pub const SYSCTL_RESTORE: UndoScript = UndoScript::new(os::SYSCTL_RESTORE, &[], |_| {
    "Restore kernel settings".to_owned()
});
/// Restores the time zone.
pub const TIME_ZONE_RESTORE: UndoScript = UndoScript::new(os::TIME_ZONE_RESTORE, &[], |_| {
    "Restore the time zone".to_owned()
});
/// Restores the name of the host.
pub const HOSTNAME_RESTORE: UndoScript = UndoScript::new(os::HOSTNAME_RESTORE, &[], |_| {
    "Restore the name of the host".to_owned()
});
/// Restores name servers.
pub const RESOLVERS_RESTORE: UndoScript = UndoScript::new(os::RESOLVERS_RESTORE, &[], |_| {
    "Restore name servers".to_owned()
});
/// Restores time servers.
pub const TIME_SERVERS_RESTORE: UndoScript = UndoScript::new(os::TIME_SERVERS_RESTORE, &[], |_| {
    "Restore time servers".to_owned()
});
/// Unloads the kernel modules that kubexm loaded.
pub const MODULES_UNLOAD: UndoScript = UndoScript::new(os::MODULES_UNLOAD, &[], |_| {
    "Unload kernel modules that nothing uses".to_owned()
});
/// Ends a hook of the user that a killed install left running.
pub const HOOK_END: UndoScript = UndoScript::new(os::HOOK_END, &[], |_| {
    "Stop what an earlier hook left running".to_owned()
});
/// Removes empty directories that kubexm created above those of the cluster.
pub const PARENTS_REMOVE: UndoScript = UndoScript {
    more: Some(Parameter::Directory),
    ..UndoScript::new(
        steps::PARENTS_REMOVE,
        &[Parameter::Directory],
        |arguments| format!("Remove {} if it is empty", arguments.join(" and ")),
    )
};
/// Removes a system user that kubexm created.
pub const USER_REMOVE: UndoScript = UndoScript::new(
    os::USER_REMOVE,
    &[Parameter::OneOf(&["etcd", "kubexm-registry"])],
    |arguments| format!("Remove the user {}", argument(arguments, 0)),
);
/// The file that excludes interfaces from NetworkManager.
pub const NETWORK_MANAGER_FILE: &str = "/etc/NetworkManager/conf.d/kubexm.conf";
/// The file that excludes interfaces from systemd-networkd, which takes the first file by name that matches an interface.
pub const NETWORKD_NETWORK_FILE: &str = "/etc/systemd/network/0--kubexm.network";
/// The same file of earlier versions.
const NETWORKD_FORMER_FILE: &str = "/etc/systemd/network/00-kubexm.network";
/// The file with which systemd-networkd keeps routes of other programs.
pub const NETWORKD_FILE: &str = "/etc/systemd/networkd.conf.d/kubexm.conf";
/// Removes one of these files.
pub const NETWORK_MANAGER_FORGET: UndoScript = UndoScript::new(
    os::NETWORK_MANAGER_FORGET,
    &[Parameter::OneOf(&[
        NETWORK_MANAGER_FILE,
        NETWORKD_NETWORK_FILE,
        NETWORKD_FORMER_FILE,
        NETWORKD_FILE,
    ])],
    |arguments| match argument(arguments, 0) {
        NETWORK_MANAGER_FILE => "Let NetworkManager manage all interfaces again".to_owned(),
        file => format!("Remove {file} of systemd-networkd"),
    },
);
/// Removes marker files of kubeadm or of a node.
pub const MARKERS_REMOVE: UndoScript = UndoScript::new(
    markers::REMOVE,
    &[Parameter::OneOf(&[
        "kubeadm",
        "kubernetes-node",
        "encryption",
    ])],
    |arguments| format!("Remove the marker files of {}", argument(arguments, 0)),
);
/// Removes what kubeadm created. Receipts of earlier versions do not have the directory of etcd's data.
pub const KUBEADM_RESET: UndoScript = UndoScript {
    more: Some(Parameter::Directory),
    ..UndoScript::new(kubeadm::RESET, &[Parameter::Socket], |_| {
        "Reset kubeadm".to_owned()
    })
};
/// Stops all pods.
pub const STOP_PODS: UndoScript =
    UndoScript::new(runtime::STOP_PODS, &[], |_| "Stop pods".to_owned());
/// Stops CRI-O's scopes.
pub const STOP_CRIO_SCOPES: UndoScript = UndoScript::new(runtime::STOP_CRIO_SCOPES, &[], |_| {
    "Stop what pods left running".to_owned()
});
/// Removes leftovers of pods.
pub const LEFTOVERS_REMOVE: UndoScript = UndoScript::new(
    network::REMOVE_LEFTOVERS,
    &[Parameter::Owner],
    |arguments| {
        format!(
            "Remove devices, routes and rules of {}",
            argument(arguments, 0)
        )
    },
);
/// Restores the mode of etcd's data directory.
pub const ETCD_FOLDER_RESTORE: UndoScript =
    UndoScript::new(etcd::FOLDER_RESTORE, &[Parameter::Directory], |_| {
        "Restore the mode of etcd's directory".to_owned()
    });
/// Removes the kubelet's directory of static pods and its resolv.conf.
pub const KUBELET_SURROUNDINGS_REMOVE: UndoScript = UndoScript::new(
    kubernetes::KUBELET_SURROUNDINGS_REMOVE,
    &[
        Parameter::OneOf(&["/etc/kubernetes/manifests"]),
        Parameter::OneOf(&["/etc/kubernetes/resolv.conf"]),
    ],
    |_| "Remove the kubelet's directory of static pods and its resolv.conf".to_owned(),
);
/// Removes the endpoint's address.
pub const ADDRESS_REMOVE: UndoScript = UndoScript::new(
    load_balancer::ADDRESS_REMOVE,
    &[Parameter::Address],
    |arguments| format!("Remove the address {}", argument(arguments, 0)),
);
/// Ends the pod with which kube-vip assigns addresses to services, and removes these addresses. The further arguments are
/// addresses that stay.
pub const KUBE_VIP_SERVICES_STOP: UndoScript = UndoScript {
    more: Some(Parameter::Address),
    ..UndoScript::new(
        load_balancer::KUBE_VIP_SERVICES,
        &[
            Parameter::OneOf(&["stop"]),
            Parameter::OneOf(&["/etc/kubernetes/manifests/kube-vip-services.yaml"]),
        ],
        |_| "Remove the addresses of services".to_owned(),
    )
};
/// Stops the proxy for joins.
pub const JOIN_PROXY_STOP: UndoScript = UndoScript::new(
    load_balancer::JOIN_PROXY,
    &[Parameter::OneOf(&["stop"])],
    |_| "Stop the proxy for joins".to_owned(),
);
/// Unmasks services of load balancers.
pub const UNMASK_SERVICES: UndoScript =
    UndoScript::new(load_balancer::UNMASK_SERVICES, &[], |_| {
        "Unmask services".to_owned()
    });

/// Ends conformance tests that a killed run left.
pub const CONFORMANCE_CLEAR: UndoScript = UndoScript::new(
    kubernetes::CONFORMANCE,
    &[Parameter::OneOf(&["clear"])],
    |_| "End conformance tests and remove their files".to_owned(),
);

/// All scripts that a receipt can name.
pub const SCRIPTS: &[UndoScript] = &[
    ADDRESS_REMOVE,
    APT_REMOVE,
    BLOCK_REMOVE,
    COMMAND_END,
    CONFORMANCE_CLEAR,
    DNF_REMOVE,
    ETCD_FOLDER_RESTORE,
    HOOK_END,
    HOSTNAME_RESTORE,
    JOIN_PROXY_STOP,
    KUBEADM_RESET,
    KUBELET_SURROUNDINGS_REMOVE,
    KUBE_VIP_SERVICES_STOP,
    LEFTOVERS_REMOVE,
    MARKERS_REMOVE,
    MODULES_UNLOAD,
    NETWORK_MANAGER_FORGET,
    PARENTS_REMOVE,
    RESOLVERS_RESTORE,
    STOP_CRIO_SCOPES,
    STOP_PODS,
    SWAP_ON,
    SYSCTL_RESTORE,
    TIME_SERVERS_RESTORE,
    TIME_ZONE_RESTORE,
    UNIT_STOP,
    UNMASK_SERVICES,
    USER_REMOVE,
];

/// Returns the script of this name.
pub fn find(name: &str) -> Option<&'static UndoScript> {
    SCRIPTS.iter().find(|undo| undo.script.name == name)
}
