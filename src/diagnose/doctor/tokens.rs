//! Tokens with which nodes join.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::api::Token;
use super::check::{Check, Found, Outcome, Source};
use super::report::Area;
use super::seen::Seen;
use kubexm_config::cluster::KubernetesKind;
use kubexm_session::quoting::quoted;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "join-tokens",
    area: Area::ApiServer,
    source: Source::ControlPlanes,
    read: "when each bootstrap token in kube-system ends, and the signatures in cluster-info",
    run: join_tokens,
}];

/// Seconds in which the controller manager deletes a token that has expired, and signs `cluster-info` for a new one.
const PROMPT: i64 = 60;
/// The names of the Secrets, before the identifier of the token
/// (<https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/>).
const PREFIX: &str = "bootstrap-token-";

fn join_tokens(seen: &Seen) -> Outcome {
    if seen.cluster.kubernetes.kind != KubernetesKind::Kubeadm {
        return Outcome::Unknown("only kubeadm uses it".to_owned());
    }
    let Some(tokens) = seen.asked(|api| &api.tokens) else {
        return Outcome::without_server();
    };
    let host = seen.administrator();
    let (mut expired, mut unsigned) = (Vec::new(), Vec::new());
    for Token { metadata, data } in tokens {
        let name = metadata.name.as_str();
        let end = decoded(&data.expiration);
        let past = seen.age(OffsetDateTime::parse(&end, &Rfc3339).ok());
        if past > PROMPT {
            expired.push((name, end));
        } else if past <= 0
            && decoded(&data.usage_bootstrap_signing) == "true"
            && seen.age(metadata.creation_timestamp) > PROMPT
            && has_signature(seen, name) == Some(false)
        {
            unsigned.push(name);
        }
    }
    let mut all = Vec::new();
    if !expired.is_empty() {
        let lines = expired
            .iter()
            .map(|(name, end)| format!("{name}: its end was {end}"));
        let mut found = Found::new("tokens for joins have expired, and still exist")
            .evidence(lines)
            .cause("nodes cannot join with them; the controller manager, which deletes such tokens, does not run or its token cleaner is off")
            .fix("let the controller manager run, or delete the tokens; `kubexm install` and `kubexm node add` create new ones for each join");
        for (name, _) in &expired {
            let words = format!("-n kube-system delete secret {}", quoted(name));
            found = found.run(seen.line.kubectl(host, &words));
        }
        all.push(found);
    }
    if !unsigned.is_empty() {
        let found = Found::new("the ConfigMap cluster-info has no signature for tokens that are valid")
            .evidence(unsigned)
            .cause("a join with such a token fails: 'could not find a JWS signature'; the controller manager, which signs, does not run or its bootstrap signer is off")
            .fix("let the controller manager run with the controller bootstrap-signer-controller")
            .run(seen.line.logs("kube-controller-manager", host));
        all.push(found);
    }
    Outcome::Known(all)
}

/// Returns whether `cluster-info` is signed for a token; `None` without this ConfigMap.
fn has_signature(seen: &Seen, secret: &str) -> Option<bool> {
    let info = seen.asked(|api| &api.cluster_info)?.first()?;
    let id = secret.strip_prefix(PREFIX)?;
    Some(info.data.contains_key(&format!("jws-kubeconfig-{id}")))
}

/// Returns the text of a field of a Secret; an empty one for a field that is missing.
fn decoded(base64: &str) -> String {
    let bytes = STANDARD.decode(base64.trim()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.unwrap_or_default()
}
