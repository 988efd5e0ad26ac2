//! Plans and their execution: tasks in a graph ([`plan`]), steps that change hosts ([`steps`]), and the
//! upload of a bundle's images into registries ([`seed`]). This crate is independent of Kubernetes.

pub mod plan;
pub mod reset;
pub mod seed;
pub mod steps;

pub use kubexm_host::{Command, Host, HostError};
