//! `username`, `passwordFile` and `passwordEnv` of a registry.

use super::password::{check_password_file, read_elsewhere};
use crate::cluster::RegistryLogin;
use crate::reader::Fields;
use crate::yaml::Node;
use kubexm_types::UserName;

/// Reads the login. A login without a user or without a password is reported at `incomplete`, unless that is `None`.
pub(super) fn read_login(fields: &Fields<'_>, incomplete: Option<&Node>) -> Option<RegistryLogin> {
    let user = fields.value::<UserName>("username");
    let (file, variable) = read_elsewhere(fields);
    check_password_file(fields, file.as_ref());
    let password = file.or(variable);
    let is_incomplete = fields.get("username").is_some() != password.is_some();
    if let Some(node) = incomplete.filter(|_| is_incomplete) {
        let message = "username and passwordFile belong together";
        let hint = "give username and one of passwordFile and passwordEnv, or none of them";
        let path = fields.path("username");
        fields.reader().problem(node, &path, message, Some(hint));
    }
    let (user, password) = user.zip(password)?;
    Some(RegistryLogin {
        user: user.to_string(),
        password,
    })
}
