//! The cluster file without its secrets.

use serde_json::Value;

use kubexm_types::redacted::{self, REPLACEMENT};

/// What the text begins with, so that no reader looks for lines of the user's file.
const HEADER: &str =
    "# kubexm has read the cluster file and has written it again, without comments and secrets.\n";

/// The ends of names of fields that say where a secret is.
const ELSEWHERE: [&str; 3] = ["file", "env", "path"];

/// Returns the file without texts that users write for other programs, and without values of fields with secret names.
/// Returns `None` if the text is not YAML: nothing then separates secrets from other text.
pub(super) fn without_secrets(text: &str) -> Option<String> {
    let mut document: Value = serde_saphyr::from_str(text).ok()?;
    redact(&mut document);
    let text = serde_saphyr::to_string(&document).ok()?;
    Some(format!("{HEADER}{text}"))
}

fn redact(value: &mut Value) {
    match value {
        // A text can contain several lines, as a patch does.
        Value::String(text) => *text = redacted::without_in(text),
        Value::Array(values) => values.iter_mut().for_each(redact),
        Value::Object(fields) => {
            let name = fields.get("name").and_then(Value::as_str);
            let is_variable = name.is_some_and(redacted::is_secret_variable);
            for (key, value) in fields {
                if is_secret(key, value) || (is_variable && key == "value") {
                    hide(value)
                } else {
                    redact(value)
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether all below this field may be secret. The contents of files and hooks, variables of kube-vip, headers for
/// registries, and text for haproxy, nginx and keepalived have no names that kubexm could know.
fn is_secret(key: &str, value: &Value) -> bool {
    match key {
        "content" | "env" | "headers" => return true,
        "extraConfig" if value.is_string() => return true,
        _ => {}
    }
    let name = key.to_ascii_lowercase().replace(['-', '_'], "");
    redacted::is_secret_field(key) && !ELSEWHERE.iter().any(|end| name.ends_with(end))
}

/// Replaces every value, and keeps the names of fields.
fn hide(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            *value = REPLACEMENT.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# password: PLANTED1
metadata: {name: a}
spec:
  hosts:
    - {name: node1, password: "PLANTED2, x", port: 22, passwordFile: /etc/p}
    - name: node2
      password:
        PLANTED3
      jumpHost: {password:
        PLANTED4, user: a}
  defaults:
    password: >-
      PLANTED5
      PLANTED6
    passwordEnv: SITE_PASSWORD
  system:
    files:
      - {path: /etc/a, content: PLANTED7}
      - path: /etc/b
        content: |
          PLANTED8
    hooks: [{name: b, content: "PLANTED9\n"}]
  highAvailability:
    haproxy: {extraConfig: "stats auth admin:PLANTED10"}
    nginx: {extraConfig: PLANTED11}
    keepalived:
      extraConfig: |
        auth_pass PLANTED12
    kubeVip: {services: true, env: {bgp_peerpass: PLANTED13, other: PLANTED14, number: 75319}}
  kubernetes:
    apiServer: {extraArgs: {oidc-client-secret: PLANTED15, v: "2"}}
    kubelet: {extraConfig: {maxPods: 50}}
    kubeadm:
      extraConfig: {initConfiguration: {bootstrapTokens: [{token: PLANTED16}], certificateKey: PLANTED17}}
      patches:
        - patch: "spec:\n  env:\n  - {name: DB_PASS, value: PLANTED18}\n  - name: API_KEY\n    value: PLANTED19\n  end: 1"
  containerRuntime:
    extraConfig:
      configs: {r: {auth: {auth: PLANTED20}}}
      registry: {headers: {Cookie: ["session=PLANTED23"], X-Site: [PLANTED24]}}
      accessKey: [PLANTED25]
      pwd: [PLANTED26]
      X-Psk: {v: PLANTED27}
      Authorization: [PLANTED28]
      X-Auth: [PLANTED29]
  proxy: http://user:PLANTED21@proxy:3128
  values: [{name: OWN_TOKEN, value: PLANTED22}, {name: OTHER, value: kept}]
"#;

    #[test]
    fn secrets_are_removed_in_every_form_of_yaml() {
        // The archive removes secrets from every text once more.
        let text = redacted::without(&without_secrets(FILE).unwrap());
        assert!(
            !text.contains("PLANTED") && !text.contains("75319"),
            "{text}"
        );
        let found: Value = serde_saphyr::from_str(&text).unwrap();
        let spec = &found["spec"];
        for (at, kept) in [
            ("/hosts/0/port", "22"),
            ("/hosts/0/passwordFile", "\"/etc/p\""),
            ("/hosts/1/password", "\"[redacted]\""),
            ("/hosts/1/jumpHost/user", "\"a\""),
            ("/defaults/passwordEnv", "\"SITE_PASSWORD\""),
            ("/system/files/1/path", "\"/etc/b\""),
            ("/highAvailability/kubeVip/services", "true"),
            ("/highAvailability/kubeVip/env/other", "\"[redacted]\""),
            ("/kubernetes/apiServer/extraArgs/v", "\"2\""),
            ("/kubernetes/kubelet/extraConfig/maxPods", "50"),
            ("/values/1/value", "\"kept\""),
        ] {
            let value = spec.pointer(at).map(ToString::to_string);
            assert_eq!(value.as_deref(), Some(kept), "{at}: {text}");
        }
        let patch = spec["kubernetes"]["kubeadm"]["patches"][0]["patch"].as_str();
        assert!(patch.unwrap().ends_with("\n  end: 1"), "{text}");
    }

    #[test]
    fn file_that_is_not_yaml_is_left_out() {
        assert_eq!(without_secrets("password: 'PLANTED\n"), None);
        assert_eq!(without_secrets("a: [1\n  password: PLANTED"), None);
    }
}
