//! A folder that stands for a machine, with fake programs.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Script, host};

/// Replaces modprobe. Something uses the module `kubexm_used`.
pub const MODPROBE: &str = "case $*:$2 in\n-r*:kubexm_used) exit 1 ;;\n-r*) rm -r \"/sys/module/$2\" ;;\n\
                            *) mkdir \"/sys/module/$1\" ;;\nesac";

/// Replaces systemctl by one that stores the state of units in `/root/units`: the file `UNIT` of a unit that exists,
/// `UNIT.enabled` and `UNIT.active`.
pub const SYSTEMCTL: &str = "units=/root/units\ncase $1 in\ncat) [ -e \"$units/$2\" ] ;;\n\
     enable) : >\"$units/$3.enabled\" ;;\ndisable) rm -f \"$units/$3.enabled\" ;;\n\
     restart) : >\"$units/$2.active\" ;;\nstop) rm -f \"$units/$2.active\" ;;\n\
     is-enabled) [ -e \"$units/$3.enabled\" ] ;;\nis-active) [ -e \"$units/$3.active\" ] ;;\nesac";

/// Shells that hosts have as `sh`, each as a command and with an awk: those of Debian, RHEL and small systems. bash follows
/// POSIX if its name is `sh`.
const SHELLS: [(&str, &str, &str); 3] = [
    ("dash", "dash", "mawk"),
    ("bash", "bash --posix", "gawk"),
    ("busybox", "busybox sh", "busybox awk"),
];

/// What scripts run in. Fake programs are in `/usr/local/bin` of the machine; each writes a line with its
/// name and arguments to `/root/calls` first. The awk of the shell is there, too.
pub struct Machine {
    folder: tempfile::TempDir,
    shell: &'static str,
}

/// What a script left.
pub struct Ended {
    /// The exit status; 137 for a script that was killed.
    pub status: i32,
    pub printed: String,
    pub complained: String,
}

impl Machine {
    /// Calls `test` with a machine for each shell that hosts have as `sh`.
    pub fn with_each_shell(test: impl Fn(&Machine)) {
        for (shell, _, _) in SHELLS {
            eprintln!("with {shell}");
            test(&Self::new(shell));
        }
    }

    /// Returns a machine with a shell of [`SHELLS`], and its awk.
    pub fn new(shell: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let of_name = SHELLS.into_iter().find(|(name, _, _)| *name == shell);
        let (_, shell, awk) = of_name.unwrap();
        let machine = Self { folder, shell };
        let root = machine.at("/");
        std::fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).unwrap();
        for path in "usr dev proc etc/alternatives tmp run root/fake var/lib var/tmp".split(' ') {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in ["bin", "sbin", "lib", "lib32", "lib64"] {
            if let Ok(target) = std::fs::read_link(format!("/{path}")) {
                symlink(target, root.join(path)).unwrap();
            }
        }
        // Not a link: a test that replaces it would write to the program of this machine.
        machine.program("awk", &format!("exec {awk} \"$@\""));
        machine
    }

    /// The machine's path as this one sees it.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub fn has(&self, path: &str) -> bool {
        self.at(path).symlink_metadata().is_ok()
    }

    /// Content of a file; empty if it does not exist.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.at(path)).unwrap_or_default()
    }

    /// Writes a file. A link with an absolute path would lead to a file of this machine.
    pub fn write(&self, path: &str, content: &str) {
        let file = self.at(path);
        let leads_out = std::fs::read_link(&file).is_ok_and(|target| target.is_absolute());
        assert!(!leads_out, "{path} is a link that leads out of the machine");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }

    /// Adds a program whose text is `body`.
    pub fn fake(&self, name: &str, body: &str) {
        let note = format!("echo \"{name}${{*:+ }}$*\" >>/root/calls");
        self.program(name, &format!("{note}\n{body}"));
    }

    fn program(&self, name: &str, body: &str) {
        let path = format!("/root/fake/{name}");
        self.write(&path, &format!("#!/bin/sh\n{body}\n"));
        let mode = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.at(&path), mode).unwrap();
    }

    /// Calls of fake programs since the last time.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.read("/root/calls");
        self.write("/root/calls", "");
        calls.lines().map(str::to_owned).collect()
    }

    pub fn run(&self, script: Script, arguments: &[&str]) -> Ended {
        self.run_after(":", script, arguments, "")
    }

    /// Runs a script that must succeed, and returns what it printed.
    pub fn done(&self, script: Script, arguments: &[&str]) -> String {
        let ended = self.run(script, arguments);
        let words = (&ended.printed, &ended.complained);
        assert_eq!(ended.status, 0, "{}: {words:?}", script.name);
        ended.printed
    }

    /// Runs a script with standard input after the commands `before`, in a mount namespace of its own.
    pub fn run_after(
        &self,
        before: &str,
        script: Script,
        arguments: &[&str],
        input: &str,
    ) -> Ended {
        let enter = format!(
            "mount --bind /root/fake /usr/local/bin\n{before}\ntext=$1\nshift\n\
             exec {} -euc \"$text\" kubexm \"$@\"",
            self.shell
        );
        let mut command = Command::new("unshare");
        if !is_root() {
            command.arg("--map-root-user");
        }
        command
            .args(["--mount", "--net", "--"])
            .args(["sh", "-euc", host::SANDBOX.text, "kubexm"])
            .arg(self.at("/"))
            .args(["sh", "-euc", &enter, "kubexm", script.text])
            .args(script.arguments(arguments.iter().copied()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A script may end before it has read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ended {
            status: output.status.code().unwrap_or(137),
            printed: text(output.stdout),
            complained: text(output.stderr),
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
