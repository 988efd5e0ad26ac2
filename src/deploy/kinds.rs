//! Proofs that every kind of runtime, network plugin and load balancer is known to scripts, manifests and the book, which the
//! compiler does not compare. Each finding names the file in which something is missing.

use std::fs;
use std::path::Path;

use kubexm_config::cluster::{
    Addon, AddressHolder, ControlPlanePod, LocalProxy, PluginKind, RuntimeKind,
};
use kubexm_config::{load_balancer, ports};
use kubexm_scripts::network;

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

    fn none(self) {
        assert!(self.0.is_empty(), "missing:\n{}", self.0.join("\n"));
    }
}

#[test]
fn runtimes_are_known_everywhere() {
    let mut missing = Missing::default();
    for kind in RuntimeKind::ALL {
        let own = kind.properties();
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
        if let Some(owner) = own.leftovers {
            missing.script(network::REMOVE_LEFTOVERS, &format!("\n{owner})"));
        }
        missing.text("docs/src/howto/networks.md", &format!("| `{name}` |"));
        missing.proof(name);
    }
    missing.none();
}

#[test]
fn addons_are_known_everywhere() {
    let mut missing = Missing::default();
    for addon in Addon::ALL {
        let name = addon.name();
        missing.text(
            "manifests/catalog/addons.yaml",
            &format!("- name: {name}\n"),
        );
        missing.text("manifests/schema/bundle.json", &format!("\"{name}\""));
        missing.text("tests/online/components.yaml", &format!("    {name}: "));
        let page = format!("(addons/{name}.md)");
        missing.text("docs/src/howto/addons.md", &page);
        missing.text("docs/src/SUMMARY.md", &format!("howto/addons/{name}.md"));
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
    let known: Vec<&str> = load_balancer::all_properties()
        .filter_map(|own| own.unit)
        .collect();
    for balancer in crate::load_balancer::all() {
        for unit in balancer.units() {
            let is_there = known.contains(&unit.as_str());
            missing.expect(is_there, "src/kinds/load_balancer.rs", &unit);
        }
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
