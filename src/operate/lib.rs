//! The commands that work on a running cluster: registry, exec, logs, kubeconfig, conformance.

pub mod conformance;
pub mod exec;
pub mod kubeconfig;
pub mod logs;
pub mod registry;
