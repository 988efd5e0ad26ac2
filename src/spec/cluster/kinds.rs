//! The kinds of container runtimes and load balancers: one for each file of the folders that `build.rs`
//! names.

include!(concat!(env!("OUT_DIR"), "/kinds.rs"));
