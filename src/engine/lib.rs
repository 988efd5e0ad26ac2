//! Plans and their execution: tasks in a graph ([`plan`]), steps that change hosts ([`steps`]), the upload of a
//! bundle's images into registries ([`seed`]), and the identity and the locks of clusters ([`cluster`]). This crate is independent of Kubernetes.

pub mod cluster;
pub mod plan;
pub mod reset;
pub mod seed;
pub mod steps;

pub use kubexm_host::{Command, Host, HostError, Input, Limit, Output};
