//! The commands that work on a running cluster: app, registry, exec, logs, kubeconfig, conformance.

pub mod applications;
pub mod conformance;
pub mod exec;
pub mod kubeconfig;
pub mod logs;
pub mod registry;
