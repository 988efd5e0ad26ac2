//! The commands that find what is wrong: status, doctor, support-bundle.

pub mod doctor;
pub mod status;
pub mod support_bundle;
pub mod timer_run;
