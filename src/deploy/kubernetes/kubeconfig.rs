//! Kubeconfigs that the controller fetches from the first control plane.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubexm_config::cluster::{Cluster, HostSpec, KubernetesKind, LoadBalancer};
use kubexm_engine::plan::TaskValue;
use kubexm_engine::steps::ProvideValue;
use kubexm_pki::{Certificate, Pair, PkiError};
use kubexm_types::{Message, Version};
use serde::Deserialize;

use crate::Inputs;

/// What to do about a file that kubeadm and kubexm do not write.
const CHANGED: &str = "a program has changed the file on this host: compare it with that of the state directory, or of another control plane";

/// An API server, as a kubeconfig names it.
pub struct ApiServer {
    /// The URL.
    pub url: String,
    /// The CAs of its certificate, PEM.
    pub ca: String,
}

/// What a program needs of a kubeconfig. One from a host can name programs that kubectl runs, and proxies: a host decides none
/// of them for this machine.
pub struct Kubeconfig {
    /// The API server.
    pub server: ApiServer,
    /// The certificate of the user with its key. Secret.
    pub user: Pair,
}

#[derive(Deserialize)]
struct File {
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: ClusterEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterEntry {
    server: String,
    certificate_authority_data: String,
}

#[derive(Deserialize)]
struct NamedUser {
    user: UserEntry,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UserEntry {
    #[serde(default)]
    client_certificate_data: String,
    #[serde(default)]
    client_key_data: String,
}

impl File {
    fn parse(text: &str) -> Result<Self, Message> {
        serde_saphyr::from_str(text).map_err(|_| other())
    }

    fn server(&self) -> Result<ApiServer, Message> {
        let [NamedCluster { cluster }] = &self.clusters[..] else {
            return Err(other());
        };
        Ok(ApiServer {
            url: cluster.server.clone(),
            ca: pem(&cluster.certificate_authority_data)?,
        })
    }
}

/// Returns the error about a kubeconfig. It quotes nothing of the file, which has a key.
fn other() -> Message {
    Message::new("it is not a kubeconfig with one server, CA, certificate and key")
}

fn pem(data: &str) -> Result<String, Message> {
    let bytes = STANDARD.decode(data).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|text| !text.is_empty()).ok_or_else(other)
}

impl ApiServer {
    /// Reads the API server of a kubeconfig with one cluster.
    ///
    /// # Errors
    /// The kubeconfig has another form.
    pub fn of_kubeconfig(text: &str) -> Result<Self, Message> {
        File::parse(text)?.server()
    }
}

impl Kubeconfig {
    /// Reads a kubeconfig with one cluster and one user.
    ///
    /// # Errors
    /// It has another form, the key of the user is not that of the certificate, or the CA has not signed that one.
    pub fn parse(text: &str) -> Result<Self, Message> {
        let file = File::parse(text)?;
        let server = file.server()?;
        let invalid = |error: PkiError| Message::new(error.to_string());
        let cas = Certificate::parse_all("its CA", &server.ca).map_err(invalid)?;
        let [NamedUser { user }] = &file.users[..] else {
            return Err(other());
        };
        let certificate = pem(&user.client_certificate_data)?;
        let user = Pair::of("its user", certificate, pem(&user.client_key_data)?);
        let user = user.map_err(invalid)?;
        let own = Certificate::first("its user", &user.certificate).map_err(invalid)?;
        if !cas.iter().any(|ca| own.is_signed_by(ca)) {
            return Err("its CA has not signed the certificate of its user".into());
        }
        Ok(Self { server, user })
    }

    /// Returns the text of the file. The name of the user is the one in the certificate.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn text(&self, cluster: &str) -> Result<String, Message> {
        let user = Certificate::first("its user", &self.user.certificate);
        let user = user.map_err(|error| Message::new(error.to_string()))?;
        let text = kubexm_render::text(
            "kubeconfig",
            &kubexm_render::kubernetes::Kubeconfig {
                cluster,
                server: &self.server.url,
                ca: &self.server.ca,
                user: &user.subject,
                certificate: &self.user.certificate,
                key: &self.user.key,
            },
        );
        text.map_err(|error| Message::new(error.to_string()))
    }
}

/// Returns a kubeconfig in which a field of all its clusters or users has another value, if it does not have it. Other lines stay as
/// they are.
pub(super) fn with_field(
    kubeconfig: &str,
    field: &str,
    has_value: impl Fn(&str) -> bool,
    value: &str,
) -> String {
    let lines = kubeconfig.split('\n').map(|line| {
        let former = line.trim_start().strip_prefix(field);
        match former.and_then(|former| former.strip_prefix(':')) {
            Some(former) if !has_value(former.trim().trim_matches('"')) => {
                let indent = &line[..line.len() - line.trim_start().len()];
                format!("{indent}{field}: {value}")
            }
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the function that writes the kubeconfig of a host again for the controller. With local proxies the endpoint is on
/// loopback, so the controller connects to the first control plane instead. A file that does not exist stays empty.
pub(crate) fn kubeconfig_for_controller(
    inputs: &Inputs<'_>,
    first: &HostSpec,
) -> impl Fn(&str) -> Result<String, Message> + Send + Sync + use<> {
    let cluster = inputs.cluster;
    let local = matches!(cluster.high_availability.kind, LoadBalancer::Local { .. });
    let url = if local {
        format!("https://{}", cluster.api_server(first))
    } else {
        format!("https://{}", cluster.control_plane_endpoint)
    };
    let name = cluster.kubernetes.cluster_name.clone();
    move |text| {
        if text.is_empty() {
            return Ok(String::new());
        }
        let found = Kubeconfig::parse(text).map_err(|error| error.hint(CHANGED))?;
        let url = url.clone();
        let server = ApiServer {
            url,
            ..found.server
        };
        Kubeconfig { server, ..found }.text(&name)
    }
}

/// Returns the step that fetches the administrator's kubeconfig from the first control plane.
pub(crate) fn fetch_kubeconfig(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    fetch(
        inputs,
        first,
        "the administrator's kubeconfig",
        "cat /etc/kubernetes/admin.conf",
        value,
    )
}

/// Returns whether `kubeadm init` writes super-admin.conf. Versions before 1.29 have one kubeconfig for both.
pub(crate) fn has_super_admin(cluster: &Cluster) -> bool {
    cluster.kubernetes.kind == KubernetesKind::Kubeadm
        && cluster.kubernetes.version >= Version::new(1, 29, 0)
}

/// Returns the step that fetches super-admin.conf. No authorizer can restrict its group, and it cannot be
/// revoked, so kubexm removes it from the host after it is stored on this machine.
///
/// kubeadm needs the file during `kubeadm init` only: `kubeadm upgrade` and `kubeadm certs renew` skip it where it does not
/// exist
/// (<https://kubernetes.io/docs/setup/best-practices/certificates/#configure-certificates-for-user-accounts>).
pub(crate) fn fetch_super_admin(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    let script =
        "[ ! -e /etc/kubernetes/super-admin.conf ] || cat /etc/kubernetes/super-admin.conf";
    fetch(inputs, first, "super-admin.conf", script, value)
}

fn fetch(
    inputs: &Inputs<'_>,
    first: &HostSpec,
    what: &str,
    script: &'static str,
    value: &TaskValue<String>,
) -> ProvideValue<String> {
    ProvideValue {
        title: format!("Fetch {what}"),
        script: script.into(),
        arguments: Vec::new(),
        input: None,
        parse: Box::new(kubeconfig_for_controller(inputs, first)),
        value: value.clone(),
        only_reads: false,
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{cluster, with_inputs};
    use kubexm_pki::{Ca, CertificateStore, Leaf};
    use serde_json::{Value, json};

    /// Returns a kubeconfig as kubeadm writes it.
    fn of_host() -> Value {
        let dir = tempfile::tempdir().unwrap();
        let store = CertificateStore::new(dir.path());
        let ca = Ca::load_or_create(&store, "ca").unwrap();
        let admin = Leaf::client("kubernetes-admin", Some("kubeadm:cluster-admins"));
        let pair = ca.issue(&store, "admin", &admin).unwrap();
        json!({
            "clusters": [{"name": "a", "cluster": {
                "server": "https://192.0.2.66:6443",
                "certificate-authority-data": STANDARD.encode(ca.certificate()),
            }}],
            "users": [{"name": "b", "user": {
                "client-certificate-data": STANDARD.encode(pair.certificate),
                "client-key-data": STANDARD.encode(pair.key),
            }}],
        })
    }

    fn written(text: &str) -> Result<Value, Message> {
        with_inputs(&cluster("", ""), &[], "", |inputs| {
            let first = inputs.first().unwrap();
            kubeconfig_for_controller(inputs, first)(text)
        })
        .map(|text| serde_saphyr::from_str(&text).unwrap())
    }

    #[test]
    fn host_decides_no_program_proxy_or_server_of_this_machine() {
        let mut text = of_host();
        let honest = written(&text.to_string()).unwrap();
        let cluster = &mut text["clusters"][0]["cluster"];
        for field in ["proxy-url", "tls-server-name"] {
            cluster[field] = json!("PLANTED");
        }
        cluster["insecure-skip-tls-verify"] = json!(true);
        let user = &mut text["users"][0]["user"];
        for field in ["exec", "auth-provider"] {
            user[field] = json!({"command": "PLANTED", "name": "PLANTED"});
        }
        user["tokenFile"] = json!("PLANTED");
        let found = written(&text.to_string()).unwrap();
        assert_eq!(found, honest);
        assert!(!found.to_string().contains("PLANTED"), "{found}");
        let server = &found["clusters"][0]["cluster"]["server"];
        assert_ne!(server, "https://192.0.2.66:6443");
        assert_eq!(found["current-context"], "kubernetes-admin@kubernetes");
        // The file in the state directory has the server of kubexm.
        let own = Kubeconfig::parse(&text.to_string()).unwrap();
        let own = own.text("demo").unwrap();
        // Scripts take data out with sed.
        let data = text["users"][0]["user"]["client-certificate-data"].as_str();
        let line = format!("client-certificate-data: {}\n", data.unwrap());
        assert!(own.contains(&line), "{own}");
        let own: Value = serde_saphyr::from_str(&own).unwrap();
        let kept = &own["clusters"][0]["cluster"]["server"];
        assert_eq!(kept, "https://192.0.2.66:6443");
        assert_eq!(own["current-context"], "kubernetes-admin@demo");
    }

    #[test]
    fn kubeconfig_without_the_key_of_its_certificate_is_refused() {
        let (mut text, other) = (of_host(), of_host());
        let key = &other["users"][0]["user"]["client-key-data"];
        text["users"][0]["user"]["client-key-data"] = key.clone();
        let refused = written(&text.to_string()).unwrap_err();
        assert!(refused.text.contains("its user"), "{refused}");
        let mut text = of_host();
        text["clusters"] = other["clusters"].clone();
        let refused = written(&text.to_string()).unwrap_err();
        assert_eq!(
            refused.text,
            "its CA has not signed the certificate of its user"
        );
        let expected = "it is not a kubeconfig with one server, CA, certificate and key";
        let exec = "users: [{user: {exec: {command: a}}}]";
        for text in ["a", "clusters: []\nusers: []\n", exec] {
            assert_eq!(written(text).unwrap_err().text, expected);
        }
    }

    #[test]
    fn file_that_does_not_exist_stays_empty() {
        let empty = with_inputs(&cluster("", ""), &[], "", |inputs| {
            kubeconfig_for_controller(inputs, inputs.first().unwrap())("")
        });
        assert_eq!(empty.unwrap(), "");
    }
}
