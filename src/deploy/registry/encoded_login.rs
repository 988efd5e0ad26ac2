//! The login at a registry, as HTTP and the runtimes expect it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::DeployError;
use kubexm_config::cluster::RegistryLogin;

/// Returns user and password in base64 (RFC 7617, section 2). Secret.
///
/// # Errors
/// The password file cannot be read.
pub(super) fn encoded_login(login: &RegistryLogin) -> Result<String, DeployError> {
    let pair = format!("{}:{}", login.user, login.password()?.0);
    Ok(STANDARD.encode(pair))
}
