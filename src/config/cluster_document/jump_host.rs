//! `jumpHost` of a host, of `spec.defaults` and of another jump host.

use super::controller_file::expand_home;
use super::password::read_password;
use crate::cluster::{DEFAULT_PORT, JumpHost};
use crate::reader::{Fields, Reader};
use crate::yaml::{Node, Value};
use kubexm_types::{HostAddress, UserName};

/// The number of jump hosts on the way to a host.
const MOST: usize = 2;
/// The value of a host that kubexm reaches directly in spite of the default.
const NONE: &str = "none";

/// Reads the jump hosts on the way to a host, the nearest one first. `None` means that the field is missing.
pub(super) fn read_jump_hosts(host: &Fields<'_>) -> Option<Vec<JumpHost>> {
    let node = host.get("jumpHost")?;
    let mut way = Vec::new();
    if !is_none(node) {
        read(host.reader(), node, &host.path("jumpHost"), &mut way, MOST);
    }
    Some(way)
}

fn is_none(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text == NONE)
}

/// Reads a jump host, after the ones before it.
fn read(reader: &Reader, node: &Node, path: &str, way: &mut Vec<JumpHost>, most: usize) {
    if !matches!(node.value, Value::Map(_)) {
        let message = format!(
            "expected the fields of an SSH server, found {}",
            node.kind()
        );
        let hint = "write {address: gate.example, user: ops}, or none";
        return reader.problem(node, path, message, Some(hint));
    }
    let fields = reader.fields(node, path);
    let address = fields
        .required("address")
        .and_then(|_| fields.value::<HostAddress>("address"));
    let user = fields
        .required("user")
        .and_then(|_| fields.value::<UserName>("user"));
    let port = fields.number("port", 1, 65535);
    let port = port.unwrap_or(i64::from(DEFAULT_PORT));
    let private_key_path = fields.text("privateKeyPath");
    let password = read_password(&fields);
    if most > 1
        && let Some(before) = fields.get("jumpHost")
    {
        read(reader, before, &fields.path("jumpHost"), way, most - 1);
    }
    if let (Some(address), Some(user), Ok(port)) = (address, user, u16::try_from(port)) {
        way.push(JumpHost {
            address: address.to_string(),
            port,
            user: user.to_string(),
            password,
            private_key_path: private_key_path.map(|path| expand_home(&path)),
        });
    }
    fields.finish();
}
