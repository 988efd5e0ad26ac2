//! Where the records of commands are read.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::StateRecord;
use crate::CommandError;
use kubexm_types::HostName;

/// Where the records of commands are read.
pub(super) enum Records<'a> {
    /// In a state directory.
    State(&'a Path),
    /// In what a host records, by the names of files.
    Host(&'a HostName, &'a BTreeMap<String, Value>),
}

impl Records<'_> {
    /// Reads a record; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or it is not such a record.
    pub(super) fn read<R: StateRecord>(&self) -> Result<Option<R>, CommandError> {
        match self {
            Self::State(state) => R::read(state),
            Self::Host(host, records) => {
                let record = records.get(R::FILE).cloned().map(R::parse).transpose();
                Ok(record.map_err(|refused| {
                    let text = format!("cannot read {} on {host}: {}", R::TITLE, refused.text);
                    CommandError::host(text).hint(super::on_hosts::HINT)
                })?)
            }
        }
    }
}
