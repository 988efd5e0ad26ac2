//! What kubexm knows of each kind of container runtime, network plugin, load balancer and package manager on hosts: units,
//! sockets, ports, directories and files; and of each add-on. Each kind has one file here, with a constant for each of its members.
//! Everything else asks these constants.

mod addon;
mod directory;
pub mod load_balancer;
pub mod network_plugin;
pub mod package_manager;
pub mod ports;
pub mod runtime;

pub use addon::{Addon, AddonContent, AddonObjects, AddonProperties};
pub use directory::{Content, Directory};
pub use load_balancer::{AddressHolder, BalancerProperties, ControlPlanePod, LocalProxy};
pub use network_plugin::{
    Calico, Cilium, CiliumRouting, Encapsulation, FlannelBackend, NetworkPlugin, POD_ROUTES_UNIT,
    PluginKind, PluginProperties,
};
pub use package_manager::{PackageManager, PackageManagerProperties};
pub use runtime::{RuntimeKind, RuntimeProperties};

#[cfg(test)]
mod tests;

/// Declares an enum whose variants have a name in cluster files.
#[macro_export]
macro_rules! named_kinds {
    ($(#[$doc:meta])* $kind:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $kind {
            /// All values, in the order of [`Self::NAMES`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The names in cluster files.
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// Returns the value with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }

            /// Returns the name in cluster files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
