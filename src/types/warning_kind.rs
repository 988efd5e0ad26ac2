//! Kinds of warnings.

crate::kinds::kinds! {
    /// The subject of a warning. Its name in JSON is stable. Monitoring programs decide on it.
    WarningKind;
    BackupContent: "What a backup does not contain. If a restore needs it, a warning of the kind `backup-incomplete` follows."
    BackupIncomplete: "A backup that does not have what a restore needs."
    Base: "A bundle that should provide blobs, and does not."
    Cause: "Why a condition that kubexm waits for does not come true."
    Clock: "A clock that is wrong."
    EarlierRestore: "A restore that has begun earlier, and that this one does not continue."
    EtcdSnapshot: "Snapshots of etcd: members that provide none, or one without the last writes."
    Experimental: "Settings, distributions and architectures that no test has run on a real host."
    Host: "A host that does not answer, that refuses kubexm, or that someone has changed."
    HostKey: "An SSH host key that was unknown, and that kubexm accepted."
    HostLeftOut: "A worker that failed, and that the command leaves out."
    Images: "Images that a chart or a manifest can need, and that the bundle does not contain."
    Interruption: "What an interruption of the command means from now on."
    Kept: "What stays after the command: on hosts, in the cluster, or on this machine."
    LockDiffers: "A lock that differs from what publishers state."
    Logs: "Logs that have more lines than kubexm reads."
    NotApplied: "A setting of a host that is not what the cluster file states, and that kubexm does not change."
    NotChecked: "What the command did not check."
    OlderBundle: "A bundle that is not the newest one of the cluster."
    Pods: "Pods that Kubernetes does not replace."
    Registry: "A registry: the login, and what it does not contain or does not accept."
    Rights: "More rights than usual, which the user asked for: programs without a sandbox, an administrator of the cluster."
    Settings: "Settings in files of the user that should change: former names, contradictions, passwords that others can read."
    Signatures: "Signatures that a bundle or a registry does not contain."
    StateDirectory: "A state directory that does not exist, that takes the place of another one, or in which an archive or a key stays in clear text."
    StillNeeded: "What the command removes although the cluster or other content needs it."
    Tests: "Tests of Kubernetes that failed."
    WithoutContact: "A host that the command removes without contact."
}
