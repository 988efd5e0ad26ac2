//! Connections to a real sshd on loopback.

#![allow(clippy::unwrap_used)]

mod certificates;
mod commands;
mod jump_hosts;
mod openssh;
mod sshd;
