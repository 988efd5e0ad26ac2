//! The password for SSH and sudo.

use std::path::PathBuf;

use clap::Args;

use super::{ask, of_option};
use crate::cli::Failure;
use crate::cli::connection;
use crate::cli::option_of_service::option_with_file;
use kubexm_session::PasswordOption;
use kubexm_types::Secret;

/// The environment variable with the password for SSH and sudo.
const HOST_PASSWORD: &str = "KUBEXM_HOST_PASSWORD";

/// Where the password for SSH and sudo comes from.
#[derive(Debug, Args)]
pub struct HostPasswordArgs {
    /// Ask for the password for SSH and sudo
    ///
    /// It is for hosts without a password in the cluster file.
    #[arg(long, conflicts_with = "password_file", help_heading = connection::HEADING)]
    ask_password: bool,
    /// A file with the password for SSH and sudo
    ///
    /// It is for hosts without a password in the cluster file. Only its owner may read the file. `/dev/fd/3`
    /// reads file descriptor 3. Without this option, the password comes from KUBEXM_HOST_PASSWORD.
    #[arg(long, value_name = "FILE", help_heading = connection::HEADING)]
    password_file: Option<PathBuf>,
}

impl HostPasswordArgs {
    /// Returns the password, if the options or the environment contain one.
    pub fn password(&self) -> Result<Option<Secret>, Failure> {
        if self.ask_password {
            let password = ask("password for SSH and sudo: ").map_err(|cause| {
                Failure::configuration(cause)
                    .hint(format!("set {HOST_PASSWORD}, or pass --password-file"))
            })?;
            return Ok(Some(Secret(password)));
        }
        match &self.password_file {
            Some(path) => {
                let password = Secret::from_file(path).map_err(of_option("--password-file"))?;
                Ok(Some(password))
            }
            None => Ok(Secret::from_variable(HOST_PASSWORD).ok()),
        }
    }

    /// Returns the option that gives the password.
    pub fn option(&self) -> PasswordOption {
        match &self.password_file {
            Some(file) => PasswordOption::File(file.clone()),
            None if self.ask_password => PasswordOption::Ask,
            None => PasswordOption::None,
        }
    }

    /// Returns the options with which a service gets the password.
    ///
    /// # Errors
    /// A service does not get it.
    pub fn unattended(&self) -> Result<Vec<String>, Failure> {
        let has_variable = Secret::from_variable(HOST_PASSWORD).is_ok();
        match &self.password_file {
            Some(file) => option_with_file("--password-file", file),
            None if self.ask_password || has_variable => Err(Failure::configuration(format!("a run of a timer cannot ask for the password for SSH, and does not have {HOST_PASSWORD}")).hint("let kubexm log \
                 in with an SSH key that needs no passphrase, or pass --password-file")),
            None => Ok(Vec::new()),
        }
    }
}
