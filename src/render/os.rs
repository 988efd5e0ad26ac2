//! Kernel modules and settings.

use askama::Template;

/// `/etc/modules-load.d/kubexm.conf`.
#[derive(Template)]
#[template(path = "os/modules.conf")]
pub struct Modules {
    /// Module names.
    pub modules: Vec<&'static str>,
}

/// `/etc/sysctl.d/90-kubexm.conf`.
#[derive(Template)]
#[template(path = "os/sysctl.conf")]
pub struct Sysctl {
    /// Keys and values.
    pub settings: Vec<(String, String)>,
}

/// `/etc/NetworkManager/conf.d/kubexm.conf`.
#[derive(Template)]
#[template(path = "os/networkmanager.conf")]
pub struct NetworkManager {
    /// Names and patterns of interfaces.
    pub interfaces: Vec<&'static str>,
}
