//! Checks of rendered files by the real programs that the lab has built: kubeadm decodes configurations
//! strictly, and the help of each program lists its flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The real programs of one Kubernetes version.
pub struct Programs {
    folder: PathBuf,
    flags: BTreeMap<String, BTreeSet<String>>,
}

impl Programs {
    /// Returns the programs that the lab has built.
    pub fn of(version: &str) -> Self {
        let cache = std::env::var_os("KUBEXM_LAB_CACHE").map_or_else(
            || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kubexm-lab"),
            PathBuf::from,
        );
        let folder = cache.join(format!("upstream/bin/kubernetes-{version}"));
        assert!(
            folder.join("kubeadm").exists(),
            "Kubernetes {version} is not built: run tests/lab/upstream/build --all"
        );
        Self {
            folder,
            flags: BTreeMap::new(),
        }
    }

    pub fn kubeadm(&self) -> PathBuf {
        self.folder.join("kubeadm")
    }

    /// Returns the output of kubeadm if it refuses a configuration, or warns about an unknown field in it.
    pub fn kubeadm_complaint(&self, text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(self.kubeadm())
            .args(["config", "validate", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let strict = printed.contains("strict decoding error") || printed.contains("unknown field");
        (strict || !output.status.success()).then_some(printed)
    }

    /// Returns the flags of a unit that its program does not have. Returns nothing for a program that is not
    /// part of Kubernetes.
    pub fn unknown_flags(&mut self, unit: &str) -> Vec<String> {
        let command: Vec<&str> = unit
            .lines()
            .skip_while(|line| !line.starts_with("ExecStart="))
            .take_while(|line| !line.is_empty() && !line.starts_with("Restart"))
            .flat_map(|line| line.trim_start_matches("ExecStart=").split_whitespace())
            .collect();
        let program = command.first().and_then(|path| path.rsplit('/').next());
        let Some(program) = program.filter(|name| self.folder.join(name).exists()) else {
            return Vec::new();
        };
        let known = self.flags_of(&program.to_owned());
        let flags = command.iter().filter_map(|word| word.strip_prefix("--"));
        let names = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
        names
            .filter(|name| !known.contains(*name))
            .map(|name| format!("{program} has no flag --{name}"))
            .collect()
    }

    fn flags_of(&mut self, program: &String) -> &BTreeSet<String> {
        if !self.flags.contains_key(program) {
            let output = Command::new(self.folder.join(program))
                .arg("--help")
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let words = text.split_whitespace();
            let flags = words.filter_map(|word| word.strip_prefix("--"));
            let name = |flag: &str| flag.split(['=', ',', '[']).next().unwrap().to_owned();
            self.flags
                .insert(program.clone(), flags.map(name).collect());
        }
        &self.flags[program]
    }
}
