//! The receipt of a host: what a reset accepts names no directory of the operating system.
#![no_main]
use kubexm_engine::plan::Record;
use kubexm_engine::steps::Undo;
use libfuzzer_sys::fuzz_target;

/// Directories that a reset never deletes.
const PROTECTED: [&str; 12] = [
    "/", "/etc", "/usr", "/usr/bin", "/var", "/var/lib", "/home", "/root", "/boot", "/lib", "/run", "/opt",
];

fuzz_target!(|text: &str| {
    for line in text.lines() {
        let Ok(record) = serde_json::from_str::<Record>(line) else { continue };
        let Ok(undo) = serde_json::from_value::<Undo>(record.undo) else { continue };
        let path = match &undo {
            Undo::RemoveFile { path, .. } | Undo::RestoreFile { path, .. } => Some(path),
            Undo::RemoveDirectory { path } | Undo::RemoveTree { path } => Some(path),
            Undo::Run { .. } | Undo::Script { .. } => None,
        };
        let Ok(reverts) = undo.validate() else { continue };
        let path = path.map(|path| path.as_str()).unwrap_or_default();
        assert!(!PROTECTED.contains(&path), "{path}");
        assert!(!path.split('/').any(|part| part == ".."), "{path}");
        // Only known texts of earlier versions have replacements, which may be empty.
        assert!(!reverts.is_empty() || matches!(undo, Undo::Script { .. }), "{undo:?}");
    }
});
