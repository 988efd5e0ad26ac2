use super::*;

#[test]
fn secrets_of_a_cluster_file_are_removed() {
    let text = "hosts:\n- {name: a, password: PLANTED, port: 22}\n- name: b\n  password: \"PLANTED\"\n  passwordFile: /etc/p\n\
                proxy: http://user:PLANTED@proxy:3128\n-----BEGIN EC PRIVATE KEY-----\nPLANTED\n-----END EC PRIVATE KEY-----\nend";
    let expected = "hosts:\n- {name: a, password: [redacted]\n- name: b\n  password: [redacted]\n  passwordFile: /etc/p\n\
                    proxy: http://[redacted]@proxy:3128\n[redacted: a private key]\nend\n";
    assert_eq!(without(text), expected);
}

#[test]
fn secrets_of_hosts_are_removed() {
    let text = "- {name: \"bgp_peerpass\", value: \"PLANTED\"}\n- {name: port, value: \"6443\"}\n\
                - {value: PLANTED, name: OWN_PSK}\n\
                - name: pass\n  value: |\n    PLANTED\n\n    PLANTED\n- name: vip_interface\n  value: eth0\n\
                - name: bgp_peers\n  # a comment\n  value: PLANTED\n\
                stats auth admin:PLANTED\nuser a insecure-password PLANTED\nauthentication { auth_pass PLANTED }\n\
                \"r\": {\"auth\": \"PLANTED\"}\nauth = 'PLANTED'\n\
                password:\n  PLANTED\ntoken: >-\n  PLANTED\nsecret:\n  secretName: kept\nend";
    let expected = "- {name: \"bgp_peerpass\", value: [redacted]\n- {name: port, value: \"6443\"}\n\
                    - {value: [redacted]\n\
                    - name: pass\n  value: [redacted]\n- name: vip_interface\n  value: eth0\n\
                    - name: bgp_peers\n  # a comment\n  value: [redacted]\n\
                    stats auth [redacted]\nuser a insecure-password [redacted]\nauthentication { auth_pass [redacted]\n\
                    \"r\": {\"auth\": [redacted]\nauth = [redacted]\n\
                    password:\n[redacted]\ntoken: [redacted]\nsecret:\n  secretName: kept\nend\n";
    assert_eq!(without(text), expected);
    assert_eq!(without(expected), expected);
}

/// Lines between the secrets that support needs.
const KEPT: [&str; 8] = [
    "keep this line",
    "      value: db.example",
    "        - {name: \"vip_interface\", value: \"eth0\"}",
    "        - {name: address, value: 192.0.2.99}",
    "      value: \"6443\"",
    "  after: keep this too",
    "image: registry.k8s.io/kube-apiserver:v1.36.3",
    "- --service-account-signing-key-file=/etc/kubernetes/pki/sa.key",
];

#[test]
fn planted_secrets_are_removed_and_ordinary_lines_stay() {
    let planted = include_str!("planted.txt");
    let of_hosts = include_str!("hosts.txt");
    for (text, kept) in [(planted, &[][..]), (of_hosts, &KEPT)] {
        let text = without(text);
        let lower = text.to_ascii_lowercase();
        let mut left = ["planted", "uexbtlrfr", "ls0tls1crudjtibsu0"].into_iter();
        assert_eq!(left.find(|planted| lower.contains(planted)), None, "{text}");
        for kept in kept {
            assert!(text.lines().any(|line| line == *kept), "{kept}: {text}");
        }
        assert!(text.ends_with("\nend of the secrets\n"), "{text}");
    }
    let text = without(planted);
    assert_eq!(without(&text), text);
    let ordinary = include_str!("ordinary.txt");
    assert_eq!(without(ordinary), ordinary);
}

/// A part of a log can begin and end everywhere.
#[test]
fn each_form_of_a_secret_is_removed_wherever_the_text_is_cut() {
    let forms: Vec<&str> = include_str!("forms.txt").lines().collect();
    let single = forms.iter().take_while(|line| !line.contains("-----BEGIN"));
    let single: Vec<&str> = single.copied().collect();
    assert!(single.len() >= 60, "{}", single.len());
    let is_left = |text: &str| {
        let lower = text.to_ascii_lowercase();
        ["planted", "uexbtlrfr", "=plan"]
            .iter()
            .any(|planted| lower.contains(planted))
    };
    for line in single {
        assert!(is_left(line), "{line}");
        let text = without(line);
        assert!(!is_left(&text), "{text}");
    }
    for from in 0..forms.len() {
        let text = without(&forms[from..].join("\n"));
        assert!(!is_left(&text), "from line {from}: {text}");
        assert!(
            text.ends_with("\nend of the secrets\n") || from + 1 == forms.len(),
            "{text}"
        );
        let text = without(&forms[..from].join("\n"));
        assert!(!is_left(&text), "to line {from}: {text}");
    }
}

#[test]
fn part_of_a_key_without_its_first_and_last_line_is_removed() {
    let line = "aB3dEf7hIj1lMn5pQr9tUv2xYz4AbCdEfGh6jKlMnOp8rStUvWx0zAbCdaB3dEf7h";
    let text = format!("before\nlog: {line}\nlog: {line}\nan ordinary line: it stays\n");
    let expected = "before\n[redacted: a private key]\nan ordinary line: it stays\n";
    assert_eq!(without(&text), expected);
    let end = format!("{line}\n{line}\n");
    assert_eq!(without(&end), "[redacted: a private key]\n");
}

/// Certificates are public, and support needs them.
#[test]
fn certificates_and_sums_stay() {
    let line = "aB3dEf7hIj1lMn5pQr9tUv2xYz4AbCdEfGh6jKlMnOp8rStUvWx0zAbCdaB3dEf7h";
    let certificate =
        format!("-----BEGIN CERTIFICATE-----\n{line}\n{line}\nabc=\n-----END CERTIFICATE-----\n");
    assert_eq!(without(&certificate), certificate);
    let sums = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  a\n".repeat(3);
    assert_eq!(without(&sums), sums);
    let kept = "user 1000:1000 -u 1000:1000\nthe password is wrong\nkubectl -pods\n-p 8080:80\nsha512 abc\n";
    assert_eq!(without(kept), kept);
}

#[test]
fn long_lines_are_searched_to_their_end() {
    let filler = "a b, ".repeat(10_000);
    let text = without(&format!(
        "{filler}AGE-SECRET-KEY-1PLANTED {filler}password: PLANTED {filler}PLANTED"
    ));
    let expected = format!("{filler}[redacted: a key of age] {filler}password: [redacted]\n");
    assert!(text == expected, "{} {}", text.len(), expected.len());
    assert_eq!(without(&filler), format!("{filler}\n"));
    let hostile = ["basic aaaa ", "eyJ", "://", "name=", "--token "].map(|part| part.repeat(5_000));
    assert!(hostile.iter().all(|line| !without(line).is_empty()));
}

#[test]
fn documents_keep_their_form_without_secrets() {
    let mut document = serde_json::json!({
        "findings": [{"what": "a", "evidence": ["x: HTTPS_PROXY=\"http://u:PLANTED@proxy\"", "token: PLANTED"]}],
        "password": "PLANTED",
        "keys": 3,
        "text": "a\n-----BEGIN PRIVATE KEY-----\nPLANTED\n-----END PRIVATE KEY-----\nb",
    });
    remove_from(&mut document);
    let expected = serde_json::json!({
        "findings": [{"what": "a", "evidence": ["x: HTTPS_PROXY=\"http://[redacted]@proxy\"", "token: [redacted]"]}],
        "password": "[redacted]",
        "keys": 3,
        "text": "a\n[redacted: a private key]\nb",
    });
    assert_eq!(document, expected);
}

#[test]
fn other_text_stays() {
    for line in [
        "image: registry.k8s.io/kube-apiserver:v1.36.3",
        "- --service-account-signing-key-file=/etc/kubernetes/pki/sa.key",
        "tokens:",
        "secret",
        "- {name: vip_interface, value: eth0}",
        "- {name: own_key, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}",
        "auth_type PASS",
        "password: \"[redacted]\"",
        "the token is old",
        "\"auth\": {",
    ] {
        assert_eq!(without(line), format!("{line}\n"));
    }
}
