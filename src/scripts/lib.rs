//! POSIX shell scripts that run on hosts. Each is a file; `README.md` states their rules.

#[cfg(test)]
mod tests;
pub mod undo;

/// A POSIX shell script. It runs as `sh -euc TEXT kubexm ARGUMENTS…`, so that no value becomes part of
/// its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script {
    /// The path below this crate, as in `steps/run-to-completion.sh`; empty for a command in one line.
    pub name: &'static str,
    /// The text: the shared functions that the script names in this file, then the script's own file.
    pub text: &'static str,
    /// The first argument, if the script has several functions.
    pub verb: Option<&'static str>,
}

impl Script {
    /// Returns the script with a first argument that selects its function.
    #[must_use]
    pub const fn verb(self, verb: &'static str) -> Self {
        Self {
            verb: Some(verb),
            ..self
        }
    }

    /// Returns a call of the script with arguments.
    #[must_use]
    pub fn with<I, S>(self, arguments: I) -> Call
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Call {
            script: self,
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns all arguments: the verb, if there is one, and `arguments`.
    pub fn arguments<I, S>(&self, arguments: I) -> impl Iterator<Item = String>
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let verb = self.verb.map(str::to_owned);
        verb.into_iter()
            .chain(arguments.into_iter().map(Into::into))
    }
}

/// A command in one line. Longer texts are files of this crate.
impl From<&'static str> for Script {
    fn from(text: &'static str) -> Self {
        Self {
            name: "",
            text,
            verb: None,
        }
    }
}

/// A script with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub script: Script,
    /// The arguments after the verb.
    pub arguments: Vec<String>,
}

/// A script without arguments.
impl<T: Into<Script>> From<T> for Call {
    fn from(script: T) -> Self {
        script.into().with([""; 0])
    }
}

/// The named parameters of a script.
pub trait Parameters: Sized {
    /// Returns names and values.
    fn pairs(self) -> Vec<(&'static str, String)>;

    /// Returns the arguments `name=value` of all values that are not empty.
    fn arguments(self) -> Vec<String> {
        let pairs = self.pairs().into_iter();
        let given = pairs.filter(|(_, value)| !value.is_empty());
        given
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    /// Returns the arguments, and further ones that the script has as `$@`.
    fn and<S: Into<String>>(self, more: impl IntoIterator<Item = S>) -> Vec<String> {
        let mut arguments = self.arguments();
        arguments.push("--".to_owned());
        arguments.extend(more.into_iter().map(Into::into));
        arguments
    }
}

/// Declares one module per folder with one constant per file, and [`ALL`]. The brackets have the functions of `lib/` that a
/// script calls. Their text comes first. The braces have a type with the named parameters of a script, whose fields are
/// arguments `name=value`; text before the script reads them into variables. An empty one is not an argument. Other
/// arguments follow `--` ([`Parameters::and`]).
macro_rules! scripts {
    ($($(#[$about:meta])* $area:ident {
        $($name:ident = $path:literal $([$($function:ident)+])? $({ $type:ident: $($parameter:ident)+ })?)*
    })*) => {
        $(
            $(#[$about])*
            pub mod $area {
                $(
                    #[doc = concat!("`", $path, "`")]
                    pub const $name: super::Script = super::Script {
                        name: $path,
                        text: concat!(
                            $(
                                "verb=''",
                                $(" ", stringify!($parameter), "=''",)+
                                "\nwhile [ $# -gt 0 ]; do\n  case $1 in\n",
                                $("  ", stringify!($parameter), "=*) ", stringify!($parameter), "=${1#*=} ;;\n",)+
                                "  --) shift; break ;;\n  *) verb=$1 ;;\n  esac\n  shift\ndone\n",
                            )?
                            $($(include_str!(concat!("lib/", stringify!($function), ".sh")),)+)?
                            include_str!($path),
                        ),
                        verb: None,
                    };
                    $(
                        #[doc = concat!("Parameters of `", $path, "`, which describes them.")]
                        #[derive(Debug, Clone, Default)]
                        pub struct $type {
                            $(pub $parameter: String,)+
                        }
                        impl super::Parameters for $type {
                            fn pairs(self) -> Vec<(&'static str, String)> {
                                vec![$((stringify!($parameter), self.$parameter)),+]
                            }
                        }
                        impl IntoIterator for $type {
                            type Item = String;
                            type IntoIter = std::vec::IntoIter<String>;

                            fn into_iter(self) -> Self::IntoIter {
                                super::Parameters::arguments(self).into_iter()
                            }
                        }
                    )?
                )*
            }
        )*
        /// All scripts.
        pub const ALL: &[Script] = &[$($($area::$name,)*)*];
    };
}

scripts! {
    /// Applications of the user.
    applications {
        RELEASE = "applications/release.sh" [kubectl] { Release: name namespace chart files labels pending adopts waits seconds }
    }
    /// DNS in the cluster.
    dns {
        ANSWERS = "dns/answers.sh"
        COREFILE_CHECK = "dns/corefile-check.sh" [kubectl compare]
        DIAGNOSIS = "dns/diagnosis.sh" [kubectl]
        NODE_LOCAL = "dns/node-local.sh" [kubectl]
    }
    /// What is wrong with a cluster.
    doctor {
        HOST = "doctor/host.sh" [timed bounded each]
        LOGS = "doctor/logs.sh"
        RUNTIME = "doctor/runtime.sh"
        SUPPORT = "doctor/support.sh" [below_limit first newest time_for]
        SUPPORT_API = "doctor/support-api.sh" [below_limit first newest time_for]
        WAYS = "doctor/ways.sh"
    }
    /// Checks of hosts that preflight and doctor share.
    preflight {
        CHECKS = "preflight/checks.sh" [timed bounded each some variables unit_variables proxies deepest xfs_ftype unsaved_mounts unloaded_modules networks packet_rules fapolicyd_rules kubelet_flags unit_overrides resolv_writers] { Checks: data etcd directories files chains units }
    }
    /// Members of etcd.
    etcd {
        ASK = "etcd/ask.sh" [in_etcd etcdctl_of_member] { Ask: kind endpoints most }
        AWAKE = "etcd/awake.sh"
        CLIENTS_END = "etcd/clients-end.sh" { ClientsEnd: kind unit cas }
        ETCDCTL = "etcd/etcdctl.sh"
        FOLDER_OWNER = "etcd/folder-owner.sh"
        FOLDER_RESTORE = "etcd/folder-restore.sh"
        FOLDER = "etcd/folder.sh"
        FORMED = "etcd/formed.sh"
        MEMBER = "etcd/member.sh" [in_etcd etcdctl_of_member] { Member: data state members }
        PREPARE = "etcd/prepare.sh"
        RESTARTS = "etcd/restarts.sh"
        RESTORE = "etcd/restore.sh" [enough enter_own nearest] { Restore: id kind data name peer members bump bytes }
        SNAPSHOT = "etcd/snapshot.sh" [in_etcd etcdctl_of_member] { Snapshot: kind data part }
    }
    /// Scripts of the crate `kubexm-host`.
    host {
        BEGUN = "host/begun.sh" [replace]
        CLAIM = "host/claim.sh" [replace]
        END_GROUP = "host/end-group.sh"
        FACTS = "host/facts.sh" { Facts: tools modules sockets plugins lines files }
        LOCK = "host/lock.sh" { Lock: token origin seconds holder }
        SANDBOX = "host/sandbox.sh"
        SUPERVISE = "host/supervise.sh"
        UPLOAD = "host/upload.sh" [replace] { Upload: path mode owner }
    }
    /// kubeadm.
    kubeadm {
        AUTHORITIES = "kubeadm/authorities.sh"
        CLUSTER_SETTINGS = "kubeadm/cluster-settings.sh" [replace kubectl] { ClusterSettings: config }
        ETCD_CA = "kubeadm/etcd-ca.sh"
        JOIN_SECRETS = "kubeadm/join-secrets.sh"
        KUBE_PROXY = "kubeadm/kube-proxy.sh" [kubectl]
        KUBECONFIG = "kubeadm/kubeconfig.sh"
        NODE = "kubeadm/node.sh" [kubeadm_files replace unmount_below] { Node: socket etcd config static_pods }
        PATCHES = "kubeadm/patches.sh"
        PROGRAMS = "kubeadm/programs.sh"
        RENEW = "kubeadm/renew.sh" [replace] { Renew: id config }
        RESET = "kubeadm/reset.sh" [kubeadm_files unmount_below]
        ROTATE = "kubeadm/rotate.sh" [replace]
        SETTINGS = "kubeadm/settings.sh" [api replace] { Settings: config phase former path content name node }
        UPGRADE_SPACE = "kubeadm/upgrade-space.sh"
        UPGRADE = "kubeadm/upgrade.sh" [replace] { Upgrade: role version patches ignored config }
    }
    /// Nodes and objects of the cluster.
    kubernetes {
        ACCESS = "kubernetes/access.sh" [kubectl compare]
        API_SERVER_READY = "kubernetes/api-server-ready.sh"
        APPROVE = "kubernetes/approve.sh" [kubectl]
        CONFORMANCE = "kubernetes/conformance.sh" [kubectl] { Conformance: run processes seconds labels focus skip file }
        CONTROL_PLANE = "kubernetes/control-plane.sh" [replace]
        CONTROL_PLANE_STOP = "kubernetes/control-plane-stop.sh"
        CREATE = "kubernetes/create.sh" [kubectl]
        DELETE = "kubernetes/delete.sh" [kubectl patiently]
        DEPRECATED_REQUESTS = "kubernetes/deprecated-requests.sh" [kubectl]
        DRAIN = "kubernetes/drain.sh" [kubectl patiently]
        ENCRYPTION_KEYS = "kubernetes/encryption-keys.sh"
        ENCRYPTION_REWRITE = "kubernetes/encryption-rewrite.sh" [kubectl]
        ENDPOINT = "kubernetes/endpoint.sh" [kubectl]
        FILE_MODES = "kubernetes/file-modes.sh"
        FORMER = "kubernetes/former.sh" [replace] { Former: restore kind version }
        HANDSHAKES = "kubernetes/handshakes.sh" { Handshakes: cas certificate key }
        GET = "kubernetes/get.sh" [kubectl]
        KUBELET_CERTIFICATES = "kubernetes/kubelet-certificates.sh" [replace]
        KUBELET_RESTART = "kubernetes/kubelet-restart.sh" { KubeletRestart: version }
        KUBELET_SURROUNDINGS_REMOVE = "kubernetes/kubelet-surroundings-remove.sh"
        KUBELET_SURROUNDINGS = "kubernetes/kubelet-surroundings.sh" [replace]
        LAST_LOG = "kubernetes/last-log.sh" [kubectl]
        LIVE_SETTINGS = "kubernetes/live-settings.sh"
        MANIFEST = "kubernetes/manifest.sh" [kubectl compare]
        NODE_METADATA = "kubernetes/node-metadata.sh" [kubectl]
        NODES_DIAGNOSIS = "kubernetes/nodes-diagnosis.sh" [kubectl]
        NODE_REMOVE = "kubernetes/node-remove.sh" [kubectl patiently]
        PATCH = "kubernetes/patch.sh" [kubectl]
        RESOURCES = "kubernetes/resources.sh" [kubectl]
        RESTORED = "kubernetes/restored.sh" [kubectl]
        ROLLOUT = "kubernetes/rollout.sh" [kubectl]
        SAME_CA = "kubernetes/same-ca.sh"
        SERVING_LOOK = "kubernetes/serving-look.sh" [kubectl]
        SIGNER = "kubernetes/signer.sh" [replace]
        SURVEY = "kubernetes/survey.sh"
        VERSIONS = "kubernetes/versions.sh"
    }
    /// The control plane's endpoint.
    load_balancer {
        ADDRESS_LEAVE = "load-balancer/address-leave.sh"
        ADDRESS_REMOVE = "load-balancer/address-remove.sh"
        CHECK_PROXY = "load-balancer/check-proxy.sh"
        INTERFACE = "load-balancer/interface.sh"
        JOIN_PROXY = "load-balancer/join-proxy.sh" { JoinProxy: address server manifest }
        KUBE_VIP_SERVICES = "load-balancer/kube-vip-services.sh"
        KUBE_VIP_SETTLED = "load-balancer/kube-vip-settled.sh" [kubectl]
        MASK_SERVICES = "load-balancer/mask-services.sh"
        POD_DIAGNOSIS = "load-balancer/pod-diagnosis.sh"
        UNMASK_SERVICES = "load-balancer/unmask-services.sh"
    }
    /// Marker files of changes that run once.
    markers {
        CHECK = "markers/check.sh"
        REMOVE = "markers/remove.sh"
        SET = "markers/set.sh"
    }
    /// The pod network.
    network {
        FLANNEL_RESTART = "network/flannel-restart.sh" [flannels]
        POD_BRIDGE = "network/pod-bridge.sh" [flannels]
        POD_ROUTES = "network/pod-routes.sh"
        REMOVE_LEFTOVERS = "network/remove-leftovers.sh" [delete_rules replace]
    }
    /// The operating system.
    os {
        HOOK_END = "os/hook-end.sh"
        HOOK = "os/hook.sh" [replace] { Hook: name record cluster host }
        HOSTNAME_RESTORE = "os/hostname-restore.sh" [replace]
        HOSTNAME = "os/hostname.sh" [replace]
        MODULES_UNLOAD = "os/modules-unload.sh"
        MODULES = "os/modules.sh"
        NETWORK_MANAGER_FORGET = "os/network-manager-forget.sh"
        NETWORK_MANAGER = "os/network-manager.sh" [replace]
        PORT_OPEN = "os/port-open.sh"
        RESOLVERS_RESTORE = "os/resolvers-restore.sh" [replace]
        RESOLVERS = "os/resolvers.sh" [replace] { Resolvers: servers searches }
        SWAP_OFF = "os/swap-off.sh" [replace]
        SWAP_ON = "os/swap-on.sh" [replace]
        SYSCTL_RESTORE = "os/sysctl-restore.sh"
        SYSCTL = "os/sysctl.sh"
        TIME_SERVERS_RESTORE = "os/time-servers-restore.sh" [replace]
        TIME_SERVERS = "os/time-servers.sh" [replace] { TimeServers: role servers clients }
        TIME_ZONE_RESTORE = "os/time-zone-restore.sh" [replace]
        TIME_ZONE = "os/time-zone.sh" [replace]
        USER_REMOVE = "os/user-remove.sh"
        USER = "os/user.sh"
    }
    /// Installation of OS packages.
    packages {
        APT_CHECK = "packages/apt-check.sh"
        APT_REMOVE = "packages/apt-remove.sh"
        APT = "packages/apt.sh"
        DNF_CHECK = "packages/dnf-check.sh"
        DNF_REMOVE = "packages/dnf-remove.sh"
        DNF = "packages/dnf.sh"
    }
    /// The local registry and its storage.
    registry {
        ANSWERS = "registry/answers.sh"
        BLOBS = "registry/blobs.sh"
        FOLDER = "registry/folder.sh"
        GARBAGE = "registry/garbage.sh"
        LINK = "registry/link.sh"
        LIST = "registry/list.sh"
        NODE_IMAGES = "registry/node-images.sh"
        PART = "registry/part.sh" { Part: data digest first count }
        RECEIVE = "registry/receive.sh"
        RELEASE_IMAGES = "registry/release-images.sh" [kubectl]
        REMOVE = "registry/remove.sh"
        SOUND = "registry/sound.sh"
    }
    /// Container runtimes.
    runtime {
        CONTAINERD_IMAGES = "runtime/containerd-images.sh" [pull]
        CONTAINERD_PODS = "runtime/containerd-pods.sh" [alone api]
        CONTAINERD_SHIMS = "runtime/containerd-shims.sh" [alone]
        CONTAINERD_SURVEY = "runtime/containerd-survey.sh"
        CRI_IMAGES = "runtime/cri-images.sh" [pull]
        ISULAD_INSTALLED = "runtime/isulad-installed.sh"
        ISULAD_PULL = "runtime/isulad-pull.sh"
        STOP_CRIO_SCOPES = "runtime/stop-crio-scopes.sh"
        STOP_PODS = "runtime/stop-pods.sh"
    }
    /// The state of an installed cluster.
    status {
        HOST = "status/host.sh" [in_etcd etcdctl_of_member]
    }
    /// Files, directories, receipts, and commands that run to completion.
    steps {
        BLOCK_EDIT = "steps/block-edit.sh" [replace]
        BLOCK_STATE = "steps/block-state.sh"
        DIRECTORY_CREATE = "steps/directory-create.sh" [replace]
        DIRECTORY_REMOVE = "steps/directory-remove.sh"
        FILE_LOOK = "steps/file-look.sh"
        FILE_PREPARE = "steps/file-prepare.sh" [replace] { FilePrepare: path secret digest }
        FILE_REMOVE = "steps/file-remove.sh"
        FILE_RESTORE = "steps/file-restore.sh" [replace]
        FLUSH = "steps/flush.sh"
        FORMER_FILES = "steps/former-files.sh"
        INSTALL_LOOK = "steps/install-look.sh"
        INSTALL_RECEIVE = "steps/install-receive.sh" [replace]
        MISSING_PATHS = "steps/missing-paths.sh"
        PARENTS_REMOVE = "steps/parents-remove.sh"
        READ_FILES = "steps/read-files.sh"
        RECEIPT_APPEND = "steps/receipt-append.sh"
        RECEIPT_FORGET = "steps/receipt-forget.sh" [replace]
        RECEIPT_REMOVE = "steps/receipt-remove.sh"
        RECEIVE_INPUT = "steps/receive-input.sh"
        RUN_TO_COMPLETION_END = "steps/run-to-completion-end.sh" [command_runs]
        RUN_TO_COMPLETION_WAIT = "steps/run-to-completion-wait.sh" [command_runs]
        RUN_TO_COMPLETION = "steps/run-to-completion.sh" [command_runs replace] {
            RunToCompletion: id input command command_verb cleanup cleanup_verb limit
        }
    }
    /// systemd units.
    systemd {
        HEALTHY = "systemd/healthy.sh"
        JOURNAL = "systemd/journal.sh"
        LOGS = "systemd/logs.sh" { Logs: name count since }
        UNIT_STOP = "systemd/unit-stop.sh"
        UNIT = "systemd/unit.sh" { Unit: unit start config test }
    }
}
