//! Kernel modules and settings, NetworkManager and systemd-networkd.

use askama::Template;

/// `/etc/modules-load.d/kubexm.conf`.
#[derive(Template)]
#[template(path = "os/modules.conf")]
pub struct Modules {
    /// Names of modules.
    pub modules: Vec<String>,
}

/// `/etc/sysctl.d/90-kubexm.conf`.
#[derive(Template)]
#[template(path = "os/sysctl.conf")]
pub struct Sysctl {
    /// Pairs of key and value.
    pub settings: Vec<(String, String)>,
}

/// `/etc/NetworkManager/conf.d/kubexm.conf`.
#[derive(Template)]
#[template(path = "os/networkmanager.conf")]
pub struct NetworkManager {
    /// Names and patterns of interfaces.
    pub interfaces: Vec<&'static str>,
}

impl NetworkManager {
    /// Returns the list of devices as NetworkManager writes it.
    fn list(&self) -> String {
        let devices = self.interfaces.iter();
        let devices = devices.map(|name| format!("interface-name:{name};"));
        devices.collect()
    }
}

/// `/etc/systemd/network/0--kubexm.network`.
#[derive(Template)]
#[template(path = "os/networkd.network", escape = "none")]
pub struct NetworkdNetwork {
    /// Names and patterns of interfaces.
    pub interfaces: Vec<&'static str>,
}

/// `/etc/systemd/networkd.conf.d/kubexm.conf`.
#[derive(Template)]
#[template(path = "os/networkd.conf")]
pub struct NetworkdConf;
