//! The CA of a site that signs for the cluster, in files on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kubexm_config::Cluster;
use kubexm_config::cluster::{KubernetesKind, SiteCa};
use time::OffsetDateTime;

use crate::ca::Ca;
use crate::certificate::Certificate;
use crate::error::{PkiError, invalid};
use crate::pair::{Pair, is_ed25519};
use crate::store::failed;

/// Reads the CA of the site with its key; `None` if the cluster file names none.
///
/// # Errors
/// As [`certificate`]; or the key cannot be read, other users can read it, it is not that of the certificate, or a program cannot
/// sign with it.
pub fn load(cluster: &Cluster) -> Result<Option<Pair>, PkiError> {
    let (Some(SiteCa { key_file, .. }), Some(certificate)) =
        (&cluster.kubernetes.site_ca, certificate(cluster)?)
    else {
        return Ok(None);
    };
    let name = key_file.display().to_string();
    let metadata = std::fs::metadata(key_file).map_err(|error| failed("read", key_file, error))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let reason = "other users can read the key of the CA";
        return Err(invalid(&name, reason).hint(&format!("run `chmod 600 {name}`")));
    }
    let key = read(key_file)?;
    let hint = "name the key of the CA in PEM, for RSA or ECDSA (P-256, P-384); `openssl pkey -in KEY -out NEW` decrypts one";
    let pair = Pair::of(&name, certificate, key).map_err(|error| error.hint(hint))?;
    if is_ed25519(&pair.key) {
        return Err(invalid(&name, "Kubernetes does not sign with Ed25519").hint(hint));
    }
    // kubeadm signs by itself.
    if cluster.kubernetes.kind == KubernetesKind::Systemd {
        Ca::prove(&pair, &name)?;
    }
    Ok(Some(pair))
}

/// Reads the certificate of the CA of the site; `None` if the cluster file names none.
///
/// # Errors
/// The file cannot be read, or is not the certificate of one CA that is valid now and that the programs of the cluster can verify.
pub fn certificate(cluster: &Cluster) -> Result<Option<String>, PkiError> {
    let Some(SiteCa { cert_file, .. }) = &cluster.kubernetes.site_ca else {
        return Ok(None);
    };
    let name = cert_file.display().to_string();
    let text = read(cert_file)?;
    let found = Certificate::parse_all(&name, &text)?;
    let refuse = |reason: String, hint: &str| Err(invalid(&name, reason).hint(hint));
    let [ca] = found.as_slice() else {
        let reason = format!("it has {} certificates", found.len());
        let hint = "leave only the certificate of the CA that signs: the cluster trusts every certificate in this file, and \
                    everybody to whom another CA gives one could log in";
        return refuse(reason, hint);
    };
    // Programs publish the file as it is: a key in it would reach every pod.
    let trimmed = text.trim();
    let is_alone = trimmed.starts_with("-----BEGIN CERTIFICATE-----")
        && trimmed.ends_with("-----END CERTIFICATE-----")
        && trimmed.matches("-----BEGIN").count() == 1;
    if !is_alone {
        return refuse(
            "it has more than a certificate".to_owned(),
            "`openssl x509 -in FILE -out NEW` writes the certificate alone",
        );
    }
    if !ca.can_sign() {
        return refuse(
            "it may not sign certificates".to_owned(),
            "name a certificate with CA:TRUE in its basic constraints, and with keyCertSign if it states key usages",
        );
    }
    if ca.days_left() < 0 || ca.begins > OffsetDateTime::now_utc() {
        let reason = format!("it is not valid now: it ends at {}", ca.expires());
        return refuse(
            reason,
            "name a CA that is valid, or correct the clock of this machine",
        );
    }
    Ok(Some(text))
}

fn read(path: &Path) -> Result<String, PkiError> {
    std::fs::read_to_string(path).map_err(|error| failed("read", path, error))
}

#[cfg(test)]
mod tests;
