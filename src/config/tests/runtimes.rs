//! `spec.containerRuntime`.

use super::{assert_refused, read};

#[test]
fn registries_of_the_site_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        path.display().to_string()
    };
    let (ca, password) = (file("ca.crt"), file("password"));
    let read = |entry: &str| {
        read(
            "",
            &format!("  containerRuntime: {{registries: {{{entry}}}}}\n"),
        )
    };
    let good = format!(
        "\"harbor.corp:8443\": {{mirrors: [cache.corp], caFile: {ca}, username: a, passwordFile: {password}}}, docker.io: {{}}"
    );
    let registries = read(&good).unwrap().runtime.registries;
    assert_eq!(registries.len(), 2);
    assert_eq!(registries[0].mirrors, ["cache.corp"]);
    assert!(registries[0].login.is_some() && !registries[0].insecure);
    for (entry, expected) in [
        ("\"https://harbor.corp\": {}", "is not a registry"),
        ("harbor.corp/apps: {}", "is not a registry"),
        (
            "harbor.corp: {mirrors: [\"https://a.corp\"]}",
            "is not another server",
        ),
        (
            "harbor.corp: {mirrors: [harbor.corp]}",
            "is not another server",
        ),
        ("harbor.corp: {caFile: /none}", "does not exist"),
        ("harbor.corp: {username: a}", "belong together"),
        ("harbor.corp: {passwordEnv: A}", "belong together"),
        ("harbor.corp: {skipVerify: true}", "unknown field"),
    ] {
        let problems = read(entry).expect_err(entry).to_string();
        assert!(problems.contains(expected), "{entry}: {problems}");
    }
}

#[test]
fn settings_of_a_runtime_that_another_field_decides_are_refused() {
    let registries = "use containerRuntime.registries";
    for (kind, settings, field, hint) in [
        (
            "containerd",
            "plugins: {io.containerd.cri.v1.images: {registry: {mirrors: {docker.io: {}}}}}",
            "plugins.io.containerd.cri.v1.images.registry.mirrors",
            registries,
        ),
        (
            "containerd",
            "plugins: {io.containerd.grpc.v1.cri: {registry: {configs: {}}}}",
            "plugins.io.containerd.grpc.v1.cri.registry.configs",
            registries,
        ),
        (
            "containerd",
            "grpc: {address: /a}",
            "grpc.address",
            "remove",
        ),
        (
            "docker",
            "registry-mirrors: [a]",
            "registry-mirrors",
            registries,
        ),
        (
            "docker",
            "insecure-registries: [a]",
            "insecure-registries",
            registries,
        ),
        (
            "cri-o",
            "crio: {image: {insecure_registries: [a]}}",
            "crio.image.insecure_registries",
            registries,
        ),
        ("cri-o", "crio: {api: null}", "crio.api", "write a mapping"),
        (
            "cri-o",
            "crio: {image: {pause_image: site/pause}}",
            "crio.image.pause_image",
            "the image that kubexm sets",
        ),
        (
            "containerd",
            "plugins: {io.containerd.cri.v1.images: {pinned_images: {sandbox: site/pause}}}",
            "plugins.io.containerd.cri.v1.images.pinned_images.sandbox",
            "the image that kubexm sets",
        ),
        (
            "docker",
            "hosts: ['fd://']",
            "hosts",
            "its unit names the socket",
        ),
        ("containerd", "plugins: 5", "plugins", "write a mapping"),
        (
            "cri-o",
            "crio: {runroot: /run/site}",
            "crio.runroot",
            "a reset",
        ),
        ("docker", "exec-root: /run/site", "exec-root", "a reset"),
        ("isulad", "data-root: /srv", "data-root", "use graph"),
        (
            "isulad",
            "native.cgroupdriver: cgroupfs",
            "native.cgroupdriver",
            "containerRuntime.cgroupDriver",
        ),
    ] {
        let settings =
            format!("  containerRuntime: {{type: {kind}, extraConfig: {{{settings}}}}}\n");
        let path = format!("spec.containerRuntime.extraConfig.{field}");
        assert_refused("", &settings, &path, hint);
    }
    for free in [
        "type: containerd, extraConfig: {state: /run/site, plugins: {io.containerd.cri.v1.images: {registry: {headers: {}}}}}",
        "type: docker, extraConfig: {data-root: /srv, debug: true}",
        // For a network plugin of the user.
        "type: containerd, extraConfig: {plugins: {io.containerd.cri.v1.runtime: {cni: {bin_dirs: [/opt/cni/bin, /srv]}}}}",
        "type: cri-o, extraConfig: {crio: {runtime: {default_runtime: runc}}}",
    ] {
        let settings = format!("  containerRuntime: {{{free}}}\n");
        read("", &settings).expect(free);
    }
}

#[test]
fn cgroup_drivers_of_runtime_and_kubelet_are_the_same() {
    let runtime = |text: &str| format!("  containerRuntime: {{{text}}}\n");
    let hint = "containerRuntime.cgroupDriver";
    for (kubernetes, settings, path) in [
        (
            "kubelet: {extraConfig: {cgroupDriver: cgroupfs}}",
            "type: docker",
            "spec.kubernetes.kubelet.extraConfig.cgroupDriver",
        ),
        (
            "kubeadm: {patches: [{target: kubeletconfiguration, patch: {cgroupDriver: cgroupfs}}]}",
            "type: docker",
            "spec.kubernetes.kubeadm.patches[0].patch",
        ),
        (
            "",
            "type: docker, extraConfig: {exec-opts: [native.cgroupdriver=cgroupfs]}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "type: cri-o, extraConfig: {crio: {runtime: {cgroup_manager: cgroupfs}}}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "type: isulad, cgroupDriver: cgroupfs, extraConfig: {systemd-cgroup: true}",
            "spec.containerRuntime.extraConfig",
        ),
        (
            "",
            "extraConfig: {plugins: {io.containerd.cri.v1.runtime: {containerd: {runtimes: {runc: \
             {options: {SystemdCgroup: false}}}}}}}",
            "spec.containerRuntime.extraConfig",
        ),
    ] {
        assert_refused(kubernetes, &runtime(settings), path, hint);
    }
    let both = "kubelet: {extraConfig: {cgroupDriver: cgroupfs}}";
    assert!(read(both, &runtime("cgroupDriver: cgroupfs")).is_ok());
}
