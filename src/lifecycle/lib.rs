//! The commands that change which hosts and versions a cluster has: install, upgrade, node, restore, reset.

mod addition;
mod etcdutl;
pub mod install;
pub mod node;
pub mod plan;
pub mod render;
pub mod reset;
pub mod restore;
pub mod upgrade;
