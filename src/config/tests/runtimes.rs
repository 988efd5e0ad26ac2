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
