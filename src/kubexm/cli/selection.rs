//! Options that select hosts of a cluster.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use kubexm_session::{HostSelection, Role};
use kubexm_types::HostName;

/// Which hosts a command works on.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Work on this host alone; may be repeated
    #[arg(long = "host", value_name = "NAME", value_parser = HostName::parse)]
    hosts: Vec<HostName>,
    /// Work on the hosts of this role alone; may be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = roles())]
    roles: Vec<Role>,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|name| Role::parse(&name))
}

impl SelectionArgs {
    /// Returns the selection for a command.
    pub fn selection(&self) -> HostSelection {
        HostSelection {
            names: self.hosts.clone(),
            roles: self.roles.clone(),
        }
    }
}
