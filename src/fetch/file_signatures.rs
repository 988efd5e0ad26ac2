//! Signatures that publishers store next to their files, as dl.k8s.io does. They are fetched and verified
//! before the file is used.

use url::Url;

use super::signatures::{Policies, Wanted};
use super::{FetchError, Http};
use kubexm_bundle::lock::{Descriptor, FileSignature};
use kubexm_sigstore::{Artifact, file, verify};
use kubexm_types::Digest;

/// Media type of a signature file.
const SIGNATURE_TYPE: &str = "application/vnd.dev.cosign.signature.v1";
const CERTIFICATE_TYPE: &str = "application/pem-certificate-chain";
/// Maximum size of a signed file, in bytes, because verification reads the whole file into memory.
const LARGEST: u64 = 512 * 1024 * 1024;

/// A file in the cache that may be signed.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The public address.
    pub url: &'a Url,
    pub digest: Digest,
    /// The signature that an earlier build found.
    pub previous: Option<&'a FileSignature>,
}

impl Policies {
    /// Fetches the signature of a file into the cache and verifies it. Returns `None` if no policy requires
    /// one, or if a policy permits that it is missing.
    ///
    /// # Errors
    /// The signature is missing, is not valid, or cannot be fetched.
    pub async fn verify_file(
        &self,
        http: &Http,
        file: Signed<'_>,
    ) -> Result<Option<FileSignature>, FetchError> {
        let Some(wanted) = self.wanted_of(&address(file.url)) else {
            return Ok(None);
        };
        let signature = beside(http, file.url, ".sig", file.previous.map(|s| &s.signature)).await?;
        let Some(signature) = signature else {
            return match wanted.required {
                false => Ok(None),
                true => Err(refused(file.url, &wanted, "and there is none")),
            };
        };
        let known = file.previous.and_then(|s| s.certificate.as_ref());
        let certificate = match wanted.signers.are_keys() {
            true => None,
            false => beside(http, file.url, ".cert", known).await?,
        };
        let (cache, digest, trust) = (http.cache().clone(), file.digest, wanted.signers.clone());
        let texts = (signature.clone(), certificate.clone());
        let reading = self.reading.lock().await;
        let verified = tokio::task::spawn_blocking(move || {
            if cache.size(&digest).is_some_and(|size| size > LARGEST) {
                return Ok(Err(
                    "the file is larger than 512 MiB, the limit for verification".to_owned(),
                ));
            }
            let content = cache.read(&digest)?;
            let (signature, certificate) = &texts;
            let bundle = file::bundle(signature, certificate.as_deref());
            let verified = bundle.and_then(|bundle| {
                let verified = verify(&bundle, Artifact::File(&content), trust.trust());
                verified.map_err(|error| error.cause().to_owned())
            });
            Ok::<_, FetchError>(verified)
        });
        let verified = verified
            .await
            .map_err(|error| FetchError::Resolve(error.to_string()))??;
        drop(reading);
        let by: kubexm_sigstore::Signer = verified.map_err(|reason| {
            let reason = format!("and its signature is not valid: {reason}");
            refused(file.url, &wanted, &reason)
        })?;
        let keep = |media_type: &str, bytes: &[u8]| -> Result<Descriptor, FetchError> {
            Ok(Descriptor {
                media_type: media_type.to_owned(),
                digest: http.cache().insert(bytes)?,
                size: bytes.len() as u64,
            })
        };
        Ok(Some(FileSignature {
            policy: wanted.prefix.clone(),
            by,
            signature: keep(SIGNATURE_TYPE, &signature)?,
            certificate: certificate
                .map(|bytes| keep(CERTIFICATE_TYPE, &bytes))
                .transpose()?,
        }))
    }
}

/// Returns the name of a file for policies.
fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}{}", url.path()),
        None => format!("{host}{}", url.path()),
    }
}

fn refused(url: &Url, wanted: &Wanted<'_>, reason: &str) -> FetchError {
    FetchError::Content {
        what: url.to_string(),
        reason: format!(
            "the policy for {} requires a signature of {}, {reason}\n\
             hint: set the trusted signers in spec.signatures of the bundle manifest",
            wanted.prefix, wanted.signers
        ),
    }
}

/// Fetches a file next to the signed file; takes it from the cache if an earlier build found it.
async fn beside(
    http: &Http,
    url: &Url,
    suffix: &str,
    known: Option<&Descriptor>,
) -> Result<Option<Vec<u8>>, FetchError> {
    if let Some(known) = known.filter(|known| http.cache().size(&known.digest).is_some()) {
        return Ok(Some(http.cache().read(&known.digest)?));
    }
    let mut place = url.clone();
    place.set_path(&format!("{}{suffix}", url.path()));
    let label = place
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    match http.published(&label, &place, file::LARGEST).await {
        Ok(text) => Ok(Some(text.into_bytes())),
        Err(FetchError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
