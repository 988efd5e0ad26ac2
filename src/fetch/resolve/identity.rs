//! Which program a signed file is. The signature of a file names neither the file nor its version. If the
//! publisher cannot be asked for a checksum, a mirror could serve another file that the same publisher signed:
//! another program, an older version, or one for another architecture. Go programs state all three, and the
//! signature proves that the publisher wrote the statement.

use memchr::memmem;

use super::Resolver;
use crate::FetchError;
use kubexm_catalog::Download;
use kubexm_types::{Arch, Digest, Message, ShownUrl};

/// The offset of `e_machine` in an ELF header.
const MACHINE: usize = 18;

impl Resolver<'_> {
    /// Checks that a signed file in the cache is the requested program.
    ///
    /// # Errors
    /// It states another name, version or architecture, or none; or it cannot be read.
    pub(super) async fn check_identity(
        &self,
        file: &Download,
        digest: Digest,
    ) -> Result<(), FetchError> {
        let cache = self.http.cache().clone();
        let (name, version) = (file.component.clone(), file.version.to_string());
        let arch = file.arch;
        let checking = tokio::task::spawn_blocking(move || {
            let content = cache.read(&digest)?;
            Ok::<_, FetchError>(check(&content, &name, &version, arch))
        });
        let wrong = |reason: String| {
            FetchError::Content {
            what: ShownUrl::from(&file.url).to_string(),
            reason: Message::new(format!(
                "its publisher cannot be asked for a checksum, and its signature names neither file nor version; {reason}"
            ))
            .hint(
                "make the publisher reachable (HTTPS_PROXY names a proxy), or set `checksums: mirror` in the mirrors \
                 file (--mirrors) if you trust the mirror",
            ),
        }
        };
        let checked = checking.await.map_err(|error| wrong(error.to_string()))??;
        checked.map_err(wrong)
    }
}

/// Compares the build information of a Go program with the requested program. The linker writes the version
/// (`-X …gitVersion=v1.36.3`) with a zero byte at its end; the versions of modules have none.
fn check(content: &[u8], name: &str, version: &str, arch: Arch) -> Result<(), String> {
    if !content.starts_with(b"\x7fELF") {
        return Err("it is not a program, so kubexm cannot recognize it".to_owned());
    }
    let machine: u16 = match arch {
        Arch::Amd64 => 62,
        Arch::Arm64 => 183,
    };
    if content.get(MACHINE..MACHINE + 2) != Some(&machine.to_le_bytes()[..]) {
        return Err(format!("it is not a program for {arch}"));
    }
    let path = format!("path\tk8s.io/kubernetes/cmd/{name}\n");
    if memmem::find(content, path.as_bytes()).is_none() {
        return Err(format!("its build information does not name {name}"));
    }
    let version = format!("v{version}");
    match memmem::find(content, format!("{version}\0").as_bytes()) {
        Some(_) => Ok(()),
        None => Err(format!("it does not state the version {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts of a Go program that matter here.
    fn program(machine: u8, name: &str, version: &str) -> Vec<u8> {
        let mut content = vec![0; 64];
        content[..4].copy_from_slice(b"\x7fELF");
        content[MACHINE] = machine;
        let text = format!(
            "path\tk8s.io/kubernetes/cmd/{name}\nmod\tk8s.io/kubernetes\t{version}\n\
             dep\tgoogle.golang.org/protobuf\tv1.36.3\th1:x=\n\0{version}\0"
        );
        content.extend_from_slice(text.as_bytes());
        content
    }

    #[test]
    fn only_the_requested_program_is_accepted() {
        let of = |content: &[u8]| check(content, "kubelet", "1.36.3", Arch::Amd64);
        assert_eq!(of(&program(62, "kubelet", "v1.36.3")), Ok(()));
        for (content, reason) in [
            (program(62, "kubectl", "v1.36.3"), "does not name kubelet"),
            (program(62, "kubelet-x", "v1.36.3"), "does not name kubelet"),
            // A module of the same version does not count.
            (
                program(62, "kubelet", "v1.36.2"),
                "does not state the version v1.36.3",
            ),
            (
                program(62, "kubelet", "v1.36.30"),
                "does not state the version v1.36.3",
            ),
            (
                program(62, "kubelet", "v1.36.3-rc.0"),
                "does not state the version v1.36.3",
            ),
            (
                program(183, "kubelet", "v1.36.3"),
                "not a program for amd64",
            ),
            (b"#!/bin/sh\n".to_vec(), "is not a program"),
            (b"\x7fELF".to_vec(), "not a program for amd64"),
            (Vec::new(), "is not a program"),
        ] {
            let refused = of(&content).unwrap_err();
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
    }

    #[test]
    #[ignore = "needs the programs of tests/lab/upstream/build"]
    fn real_programs_state_name_and_version() {
        let cache = std::env::var_os("KUBEXM_LAB_CACHE").map_or_else(
            || std::path::Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kubexm-lab"),
            std::path::PathBuf::from,
        );
        let folder = cache.join("upstream/bin/kubernetes-1.36.3");
        let arch = Arch::of_this_machine().unwrap();
        for name in [
            "kubeadm",
            "kubectl",
            "kubelet",
            "kube-apiserver",
            "kube-proxy",
        ] {
            let content = std::fs::read(folder.join(name)).unwrap();
            assert_eq!(check(&content, name, "1.36.3", arch), Ok(()), "{name}");
            assert!(check(&content, name, "1.36.2", arch).is_err(), "{name}");
            assert!(
                check(&content, "kubelet2", "1.36.3", arch).is_err(),
                "{name}"
            );
        }
    }
}
