//! Proofs that every kind of runtime, network plugin and load balancer is known to scripts, manifests and the book, which the
//! compiler does not compare. Each finding names the file in which something is missing.

use std::fs;
use std::path::Path;

use kubexm_config::cluster::{
    AddressHolder, ControlPlanePod, LoadBalancer, LocalProxy, PluginKind, RuntimeKind,
};
use kubexm_config::ports;
use kubexm_host::facts::{BALANCERS, NETWORKS};
use kubexm_scripts::undo::directories::{self, content};
use kubexm_scripts::undo::{LEFTOVERS_REMOVE, Parameter};
use kubexm_scripts::{doctor, host, network, registry};

/// Reads a file of the repository.
fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(file)).unwrap()
}

/// What is missing.
#[derive(Default)]
struct Missing(Vec<String>);

impl Missing {
    fn expect(&mut self, is_there: bool, file: &str, what: &str) {
        if !is_there {
            self.0.push(format!("{file}: {what}"));
        }
    }

    /// Expects a text in a file of the repository.
    fn text(&mut self, file: &str, what: &str) {
        self.expect(read(file).contains(what), file, what);
    }

    /// Expects that the book says whether a real host has run it.
    fn proof(&mut self, name: &str) {
        let file = "docs/src/architecture/proven.md";
        let is_there = read(file).to_lowercase().contains(name);
        self.expect(is_there, file, name);
    }

    fn script(&mut self, script: kubexm_scripts::Script, what: &str) {
        let file = format!("src/scripts/{}", script.name);
        self.expect(script.text.contains(what), &file, what.trim());
    }

    fn unit(&mut self, unit: &str) {
        let is_there = Parameter::Unit.accepts(unit);
        self.expect(is_there, "UNITS of src/scripts/undo/mod.rs", unit);
    }

    fn directories(&mut self, all: &[&str]) {
        for path in all {
            let is_there = directories::is_known(path);
            self.expect(is_there, "src/scripts/undo/directories.rs", path);
        }
    }

    fn none(self) {
        assert!(self.0.is_empty(), "missing:\n{}", self.0.join("\n"));
    }
}

#[test]
fn runtimes_are_known_everywhere() {
    let mut missing = Missing::default();
    for kind in RuntimeKind::ALL {
        let own = kind.properties();
        own.units().into_iter().for_each(|unit| missing.unit(unit));
        missing.directories(own.directories);
        missing.script(host::FACTS, own.found_by);
        missing.script(registry::NODE_IMAGES, own.sandbox_file);
        let folder = own.config.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_there =
            [own.config, &format!("{folder}/*")].map(|path| doctor::SUPPORT.text.contains(path));
        missing.expect(
            is_there.contains(&true),
            "src/scripts/doctor/support.sh",
            own.config,
        );
        for component in own.components {
            missing.text(
                "manifests/catalog/runtime.yaml",
                &format!("- name: {component}\n"),
            );
        }
        missing.text(
            "docs/src/howto/runtimes.md",
            &format!("| `{}` |", kind.name()),
        );
        missing.proof(kind.name());
    }
    missing.none();
}

#[test]
fn network_plugins_are_known_everywhere() {
    let mut missing = Missing::default();
    for kind in PluginKind::ALL {
        let (name, own) = (kind.name(), kind.properties());
        missing.directories(own.directories);
        own.unit.into_iter().for_each(|unit| missing.unit(unit));
        if let Some(owner) = own.leftovers {
            let is_there = LEFTOVERS_REMOVE.accepts(&[owner.to_owned()]);
            missing.expect(
                is_there,
                "LEFTOVERS_REMOVE of src/scripts/undo/mod.rs",
                owner,
            );
            missing.script(network::REMOVE_LEFTOVERS, &format!("\n{owner})"));
        }
        for (device, _) in own.overlays {
            missing.script(doctor::HOST, device);
        }
        if let Some(beginning) = own.cni_file {
            let path = format!("net.d/{beginning}");
            let mut patterns = content("/etc/cni").patterns.iter();
            let is_there = patterns.any(|pattern| pattern.starts_with(&path));
            missing.expect(
                is_there,
                "CNI_CONFIGURATIONS of src/scripts/undo/directories.rs",
                &path,
            );
        }
        if let Some(path) = own.found_by {
            let is_there = NETWORKS.contains(&(name, path));
            missing.expect(is_there, "NETWORKS of src/host/facts/applied.rs", path);
        }
        missing.text("docs/src/howto/networks.md", &format!("| `{name}` |"));
        missing.proof(name);
    }
    missing.none();
}

#[test]
fn load_balancers_are_known_everywhere() {
    let mut missing = Missing::default();
    let names = [
        LocalProxy::NAMES,
        AddressHolder::NAMES,
        ControlPlanePod::NAMES,
    ];
    for name in names.concat() {
        missing.text("docs/src/howto/load-balancers.md", &format!("`{name}`"));
    }
    for balancer in crate::load_balancer::all() {
        balancer.units().iter().for_each(|unit| missing.unit(unit));
    }
    let programs = LoadBalancer::types().flat_map(|(_, programs)| programs);
    let pods = LocalProxy::NAMES.iter().chain(ControlPlanePod::NAMES);
    let pods = pods.map(|name| format!("{name} pod"));
    let units = programs.filter(|program| !ControlPlanePod::NAMES.contains(program));
    for balancer in units.map(str::to_owned).chain(pods) {
        let is_there = BALANCERS.iter().any(|(name, _, _)| *name == balancer);
        missing.expect(
            is_there,
            "BALANCERS of src/host/facts/applied.rs",
            &balancer,
        );
    }
    missing.none();
}

/// Scripts cannot name the constants of the ports.
#[test]
fn scripts_ask_programs_at_known_ports() {
    let mut missing = Missing::default();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sh") {
                let text = fs::read_to_string(&path).unwrap();
                for local in ["https://127.0.0.1:", "https://[::1]:"] {
                    for rest in text.split(local).skip(1) {
                        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                        let is_known = port.is_empty() || port == ports::ETCD_CLIENT.to_string();
                        missing.expect(is_known, &path.display().to_string(), &port);
                    }
                }
                for rest in text.split("${port:-").skip(1) {
                    let default = format!("{}}}", ports::API_SERVER);
                    let file = path.display().to_string();
                    missing.expect(
                        rest.starts_with(&default),
                        &file,
                        "the port of the API server",
                    );
                }
            }
        }
    }
    missing.none();
}
