//! kubexm: Kubernetes clusters for places without internet.
//!
//! Each module is a room with one concern, and imports only go down this list:
//! `cli` → `report` → `deploy` → `steps` → `plan` → `render` → `pki` → `seed` → `host` → `fetch` →
//! `sbom` → `bundle` → `catalog` → `sigstore` → `spec` → `event`. `fetch` (the connected side) and
//! `deploy` (the disconnected side) never meet: they only know `bundle`.

pub mod bundle;
pub mod catalog;
pub mod cli;
pub mod deploy;
pub mod event;
pub mod fetch;
pub mod host;
pub mod pki;
pub mod plan;
pub mod render;
pub mod report;
pub mod sbom;
pub mod seed;
pub mod sigstore;
pub mod spec;
pub mod steps;
