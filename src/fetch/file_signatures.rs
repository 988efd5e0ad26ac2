//! Signatures that publishers store next to their files, as dl.k8s.io does. They are fetched and verified
//! before the file is used.

use url::Url;

use super::response::shown;
use super::signatures::{Policies, Rejected, UNKNOWN_LOG_HINT, Unsigned, Wanted};
use super::{FetchError, Http};
use kubexm_bundle::lock::{Descriptor, FileSignature};
use kubexm_sigstore::{Artifact, file, verify};
use kubexm_types::signature_policy::NamePrefix;
use kubexm_types::{Digest, Message, Version};

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
    pub version: &'a Version,
    pub digest: Digest,
    /// The signature that an earlier build found.
    pub previous: Option<&'a FileSignature>,
}

/// The result of the search for a file's signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundSignature {
    /// The valid signature, if there is one.
    pub signature: Option<FileSignature>,
    /// The prefix that allows a missing signature although the publisher signs this version.
    pub unsigned: Option<NamePrefix>,
}

impl Policies {
    /// Returns true if a policy names who signs a file, so that a signature can prove its content.
    pub(super) fn can_prove(&self, url: &Url) -> bool {
        self.wanted_of(&address(url)).is_some()
    }

    /// Fetches the signature of a file into the cache and verifies it. It may be missing if no policy requires
    /// it.
    ///
    /// # Errors
    /// The signature is missing, is not valid, or cannot be fetched.
    pub async fn verify_file(
        &self,
        http: &Http,
        file: Signed<'_>,
    ) -> Result<FoundSignature, FetchError> {
        let name = address(file.url);
        let found = match self.wanted_of(&name) {
            Some(wanted) => self.signature_of(http, file, &wanted).await?,
            None => None,
        };
        if found.is_some() {
            return Ok(FoundSignature {
                signature: found,
                unsigned: None,
            });
        }
        match self.unsigned(http.mirrors(), &name, Some(file.version)) {
            Unsigned::NotRequired => Ok(FoundSignature::default()),
            Unsigned::Allowed(prefix) => Ok(FoundSignature {
                signature: None,
                unsigned: Some(prefix),
            }),
            Unsigned::Refused(wanted, hint) => {
                Err(refused(file.url, &wanted, "and there is none", &hint))
            }
        }
    }

    /// Fetches and verifies the signature of a file, if there is one.
    async fn signature_of(
        &self,
        http: &Http,
        file: Signed<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<Option<FileSignature>, FetchError> {
        let signature = beside(http, file.url, ".sig", file.previous.map(|s| &s.signature)).await?;
        let Some(signature) = signature else {
            return Ok(None);
        };
        let known = file.previous.and_then(|s| s.certificate.as_ref());
        let certificate = if wanted.signers.are_keys() {
            None
        } else {
            beside(http, file.url, ".cert", known).await?
        };
        let (cache, digest, trust) = (http.cache().clone(), file.digest, wanted.signers.clone());
        let texts = (signature.clone(), certificate.clone());
        let reading = self.reading.lock().await;
        let verified = tokio::task::spawn_blocking(move || {
            if cache.size(&digest).is_some_and(|size| size > LARGEST) {
                let reason = "the file is larger than 512 MiB, the limit for verification";
                return Ok(Err(Rejected::from(reason.to_owned())));
            }
            let content = cache.read(&digest)?;
            let (signature, certificate) = &texts;
            let bundle = file::bundle(signature, certificate.as_deref());
            let verified = bundle.map_err(Rejected::from).and_then(|bundle| {
                trust.verify(|trust| verify(&bundle, Artifact::File(&content), trust))
            });
            Ok::<_, FetchError>(verified)
        });
        let verified = verified
            .await
            .map_err(|error| FetchError::resolve(error.to_string()))??;
        drop(reading);
        let by: kubexm_sigstore::Signer = verified.map_err(|rejected| {
            let reason = format!("and its signature is not valid: {}", rejected.cause);
            let hint = if rejected.is_of_unknown_log {
                UNKNOWN_LOG_HINT
            } else {
                "the file may have been changed, or its publisher may sign with another key; \
                 set the trusted signers in spec.signatures of the bundle manifest"
            };
            refused(file.url, wanted, &reason, hint)
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

fn refused(url: &Url, wanted: &Wanted<'_>, reason: &str, hint: &str) -> FetchError {
    FetchError::Content {
        what: shown(url).to_string(),
        reason: Message::new(format!(
            "the policy for {} requires a signature of {}, {reason}",
            wanted.prefix, wanted.signers
        ))
        .hint(hint),
    }
}

/// Fetches a file next to the signed file; takes it from the cache if an earlier build found it. If the publisher
/// cannot be asked, a mirror may answer, because a signature proves itself; but a mirror cannot state that there is
/// none.
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
        Ok((text, _)) => Ok(Some(text.into_bytes())),
        Err(FetchError::Refused { status: 404, .. }) => Ok(None),
        Err(error @ FetchError::Publisher { .. }) => {
            let of_mirror = http.bytes(&label, &place, file::LARGEST).await;
            of_mirror.map(Some).map_err(|_| error)
        }
        Err(error) => Err(error),
    }
}
