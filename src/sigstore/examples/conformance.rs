//! The client of the official conformance suite: verifies a file with a Sigstore bundle
//! (<https://github.com/sigstore/sigstore-conformance/blob/main/docs/cli_protocol.md>).
//! `tests/sigstore/conformance` runs it.
//!
//! ```sh
//! conformance verify-bundle --bundle FILE --certificate-identity NAME --certificate-oidc-issuer URL \
//!   [--trusted-root FILE] FILE
//! conformance verify-bundle --bundle FILE --key FILE [--trusted-root FILE] FILE
//! ```

use std::process::ExitCode;

use kubexm_sigstore::{Artifact, Signer, Trust, TrustedRoot, bundle, verify};
use kubexm_types::VerifyingKey;
use kubexm_types::signature_policy::Identity;

/// The arguments in the order of the command line.
#[derive(Default)]
struct Arguments {
    bundle: Option<String>,
    identity: Option<String>,
    issuer: Option<String>,
    key: Option<String>,
    root: Option<String>,
    artifact: Option<String>,
}

fn main() -> ExitCode {
    let verified = Arguments::parse(std::env::args().skip(1)).and_then(|given| given.verify());
    match verified {
        Ok(signer) => {
            println!("signed by {signer}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        match arguments.next().as_deref() {
            Some("verify-bundle") => {}
            other => return Err(format!("'{}' is not supported", other.unwrap_or_default())),
        }
        let mut given = Self::default();
        while let Some(argument) = arguments.next() {
            let place = match argument.as_str() {
                "--bundle" => &mut given.bundle,
                "--certificate-identity" => &mut given.identity,
                "--certificate-oidc-issuer" => &mut given.issuer,
                "--key" => &mut given.key,
                "--trusted-root" => &mut given.root,
                option if option.starts_with("--") => {
                    return Err(format!("the option '{option}' is not supported"));
                }
                _ => {
                    given.artifact = Some(argument);
                    continue;
                }
            };
            *place = arguments.next();
        }
        Ok(given)
    }

    fn verify(&self) -> Result<Signer, String> {
        let bundle = bundle::read(&read(&self.bundle)?);
        let bundle = bundle.map_err(|cause| format!("cannot read the bundle: it {cause}"))?;
        let content = read(&self.artifact)?;
        let root = match &self.root {
            None => TrustedRoot::public_instance(),
            Some(_) => TrustedRoot::parse(&read(&self.root)?),
        };
        let root = root.map_err(|cause| format!("cannot read the trusted root: it {cause}"))?;
        let artifact = Artifact::File(&content);
        let verified = if self.key.is_some() {
            let key = String::from_utf8(read(&self.key)?).map_err(|error| error.to_string())?;
            let key: VerifyingKey = key
                .parse()
                .map_err(|error| format!("cannot read the key: {error}"))?;
            verify(&bundle, artifact, Trust::Keys(&[key]))
        } else {
            let identity = Identity::new(
                self.identity.clone().ok_or("an identity is missing")?,
                self.issuer.clone().ok_or("an issuer is missing")?,
            );
            verify(&bundle, artifact, Trust::Identity(&identity, &root))
        };
        verified.map_err(|reason| reason.to_string())
    }
}

fn read(path: &Option<String>) -> Result<Vec<u8>, String> {
    let path = path.as_ref().ok_or("an argument is missing")?;
    std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))
}
