//! Addresses and logins of hosts in an OpenSSH configuration (ssh_config(5)).

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use ssh2_config::{Host, HostParams, ParseRule};

use crate::{CommandError, FileError};
use kubexm_config::cluster::{DEFAULT_PORT, DEFAULT_USER, HostSpec};
use kubexm_host::Server;
use kubexm_types::Secret;

/// The number of jump hosts on the way to a host. More are probably a loop.
const MOST: usize = 8;
/// The value of `ProxyJump` and `ProxyCommand` for a direct connection.
const NONE: &str = "none";

/// The configuration; the default has no entries.
#[derive(Default)]
pub struct SshConfig(ssh2_config::SshConfig);

/// A place in `ProxyJump`: `[user@]host[:port]`.
struct Jump<'a> {
    user: Option<&'a str>,
    host: &'a str,
    port: Option<u16>,
}

impl SshConfig {
    /// Reads a file and the files that it includes.
    ///
    /// # Errors
    /// A file cannot be read, or a value is wrong.
    pub fn load(path: &Path) -> Result<Self, CommandError> {
        let failed = |cause: String| {
            let error = FileError::new("read the SSH configuration in", path, &cause);
            error.hint("correct the file, or --ssh-config")
        };
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let rules = ParseRule::ALLOW_UNKNOWN_FIELDS | ParseRule::ALLOW_UNSUPPORTED_FIELDS;
        let parsed = ssh2_config::SshConfig::default().parse(&mut BufReader::new(file), rules);
        let parsed = parsed.map_err(|error| failed(error.to_string()))?;
        // The parser would add the lines of the section to the host before it.
        let mut hosts = parsed.get_hosts().iter();
        let has_match = |host: &Host| {
            let mut unknown = host.params.ignored_fields.keys();
            unknown.any(|name| name.eq_ignore_ascii_case("Match"))
        };
        if hosts.any(has_match) {
            let cause = "it has a Match section, which kubexm does not support".to_owned();
            let hint =
                "set transport: openssh in the cluster file, correct the file, or --ssh-config";
            Err(failed(cause).hint(hint).into())
        } else {
            Ok(Self(parsed))
        }
    }

    /// Returns the server of a host. Fields of the cluster file have precedence.
    ///
    /// # Errors
    /// The host needs a command to connect, or a list of revoked host keys.
    pub fn server(
        &self,
        host: &HostSpec,
        password: Option<Secret>,
    ) -> Result<Server, CommandError> {
        let given = (host.user.as_deref(), host.port);
        let mut server = self.server_at(&host.address, given, || Ok(DEFAULT_USER.to_owned()))?;
        server.password = password;
        if let Some(key) = &host.private_key_path {
            server.private_key = Some(key.clone());
        }
        Ok(server)
    }

    /// Returns the jump hosts on the way to a host, the nearest one first. Each of them may have its own entry.
    ///
    /// # Errors
    /// There are too many, or a place cannot be parsed.
    pub fn way(&self, host: &str) -> Result<Vec<Server>, CommandError> {
        let mut way = Vec::new();
        self.add_way(host, &mut way, MOST)?;
        Ok(way)
    }

    fn add_way(&self, host: &str, way: &mut Vec<Server>, most: usize) -> Result<(), CommandError> {
        let jumps = self.query(host)?.proxy_jump.unwrap_or_default();
        let jumps = jumps.iter().filter(|jump| !jump.eq_ignore_ascii_case(NONE));
        for (at, text) in jumps.enumerate() {
            if way.len() == MOST || most == 0 {
                let message =
                    format!("the SSH configuration has more than {MOST} jump hosts for {host}");
                return Err(CommandError::configuration(message));
            }
            let jump = Jump::parse(text).ok_or_else(|| {
                let message = format!("ProxyJump {text} of {host}: expected [user@]host[:port]");
                CommandError::configuration(message)
            })?;
            // The way to a later one leads through those before it.
            if at == 0 {
                self.add_way(jump.host, way, most - 1)?;
            }
            way.push(self.jump_server(&jump)?);
        }
        Ok(())
    }

    fn jump_server(&self, jump: &Jump<'_>) -> Result<Server, CommandError> {
        self.server_at(jump.host, (jump.user, jump.port), || {
            Err(
                CommandError::configuration(format!("the jump host {} has no user", jump.host))
                    .hint(format!(
                        "add a User for {} to the SSH configuration",
                        jump.host
                    )),
            )
        })
    }

    /// Returns the server of a name. A given user and port have precedence over its entry. `default_user` applies if
    /// neither has a user.
    fn server_at(
        &self,
        name: &str,
        (user, port): (Option<&str>, Option<u16>),
        default_user: impl FnOnce() -> Result<String, CommandError>,
    ) -> Result<Server, CommandError> {
        let found = self.query(name)?;
        let user = user.map(str::to_owned).or(found.user);
        Ok(Server {
            user: user.map_or_else(default_user, Ok)?,
            address: found.host_name.unwrap_or_else(|| name.to_owned()),
            port: port.or(found.port).unwrap_or(DEFAULT_PORT),
            password: None,
            private_key: found.identity_file.into_iter().flatten().next(),
        })
    }

    /// Returns the values for a host. Fails if kubexm would reach another host without a setting, or trust a key that the
    /// configuration revokes.
    fn query(&self, host: &str) -> Result<HostParams, CommandError> {
        let found = self.0.query(host);
        let sets = |wanted: &str| {
            let fields = found.unsupported_fields.iter().chain(&found.ignored_fields);
            let mut fields = fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            fields.any(|(_, values)| !values.iter().any(|value| value == NONE))
        };
        for (name, cause, hint) in [
            (
                "ProxyCommand",
                "does not run",
                "set transport: openssh for the host in the cluster file, or write ProxyJump",
            ),
            (
                "RevokedHostKeys",
                "does not read",
                "remove the revoked keys from the known hosts, or mark them there with @revoked; then set \
                 RevokedHostKeys to none for this host",
            ),
        ] {
            if sets(name) {
                return Err(CommandError::configuration(format!(
                    "the SSH configuration has a {name} for {host}, which kubexm {cause}"
                ))
                .hint(hint));
            }
        }
        Ok(found)
    }
}

impl<'a> Jump<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix("ssh://").unwrap_or(text);
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                (host, rest.strip_prefix(':'))
            }
            // An IPv6 address without brackets has no port.
            None if rest.matches(':').count() == 1 => {
                let (host, port) = rest.split_once(':')?;
                (host, Some(port))
            }
            None => (rest, None),
        };
        let port = port.map(str::parse).transpose().ok()?;
        (!host.is_empty()).then_some(Self { user, host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
Host gate
    HostName 192.0.2.1
    User ops
    IdentityFile /keys/gate
Host inner
    HostName 10.0.0.1
    Port 2222
    User jump
    ProxyJump gate
Host node1
    HostName 10.0.0.11
    User admin
    IdentityFile /keys/node
    ProxyJump inner
Host node2
    ProxyJump ops@[2001:db8::1]:2200,inner
Host node3
    ProxyJump none
Host loop
    User a
    ProxyJump loop
Host no-user
    ProxyJump unknown.example
Host command
    ProxyCommand nc %h %p
Host revoking
    RevokedHostKeys /etc/ssh/revoked_keys
Host trusting
    RevokedHostKeys none
Host *
    Port 22022
    ControlMaster auto
";

    fn load(text: &str) -> Result<SshConfig, CommandError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        SshConfig::load(&file)
    }

    fn config() -> SshConfig {
        load(CONFIG).unwrap()
    }

    fn host(address: &str, fields: &str) -> HostSpec {
        let fields = format!("{address}, internalAddress: 10.0.0.11{fields}");
        let text = kubexm_config::example::text_of("control-plane: [node]", "", "");
        let text = text.replace("192.0.2.11", &fields);
        kubexm_config::parse_cluster("c", &text).unwrap().hosts[0].clone()
    }

    fn shown(server: &Server) -> String {
        let key = server.private_key.as_ref();
        let key = key.map_or(String::new(), |key| format!(" with {}", key.display()));
        format!("{}@{server}{key}", server.user)
    }

    #[test]
    fn fields_of_the_cluster_file_have_precedence() {
        let server = |fields: &str| shown(&config().server(&host("node1", fields), None).unwrap());
        assert_eq!(server(""), "admin@10.0.0.11:22022 with /keys/node");
        let fields = ", user: root, port: 22, privateKeyPath: /k";
        assert_eq!(server(fields), "root@10.0.0.11:22 with /k");
        let plain = SshConfig::default().server(&host("192.0.2.9", ""), None);
        assert_eq!(shown(&plain.unwrap()), "root@192.0.2.9:22");
    }

    #[test]
    fn each_jump_host_may_have_its_own_entry() {
        let way = |host: &str| {
            let way = config().way(host).unwrap();
            way.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            way("node1"),
            "ops@192.0.2.1:22022 with /keys/gate jump@10.0.0.1:2222"
        );
        // The first place decides how the others are reached.
        assert_eq!(way("node2"), "ops@[2001:db8::1]:2200 jump@10.0.0.1:2222");
        assert_eq!(way("node3"), "");
        assert_eq!(way("192.0.2.9"), "");
    }

    /// The parser adds the lines of such a section to the host before it.
    #[test]
    fn files_with_a_match_section_are_refused() {
        let text = "Host node1\nUser a\nmatch host node2\nUser b\n";
        let error = load(text).err().unwrap().to_string();
        let expected = "it has a Match section, which kubexm does not support\nhint: set transport: openssh in the cluster file, correct the file, or --ssh-config";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn what_kubexm_cannot_do_is_an_error() {
        let way = |host: &str| config().way(host).unwrap_err().to_string();
        let missing = SshConfig::load(Path::new("/nowhere")).err().unwrap();
        let all = [
            way("loop"),
            way("no-user"),
            way("command"),
            way("revoking"),
            missing.to_string(),
        ];
        insta::assert_snapshot!(all.join("\n"), @"
        the SSH configuration has more than 8 jump hosts for loop
        the jump host unknown.example has no user
        hint: add a User for unknown.example to the SSH configuration
        the SSH configuration has a ProxyCommand for command, which kubexm does not run
        hint: set transport: openssh for the host in the cluster file, or write ProxyJump
        the SSH configuration has a RevokedHostKeys for revoking, which kubexm does not read
        hint: remove the revoked keys from the known hosts, or mark them there with @revoked; then set RevokedHostKeys to none for this host
        cannot read the SSH configuration in /nowhere: No such file or directory (os error 2)
        hint: correct the file, or --ssh-config
        ");
    }
}
