use proptest::prelude::*;
use serde_json::json;

use super::base64::decoded;
use super::*;

#[test]
fn names_tell_secrets_from_what_refers_to_them() {
    for name in [
        "password",
        "DB_PASSWORD",
        "PGPASSWORD",
        "s3.secret-key",
        "s3.access.key",
        "authToken",
        "github_token2",
        "clientSecret",
        "--api-key",
        "client-key-data",
        "AZURE_STORAGE_CONNECTION_STRING",
        "ssl.keystore.password",
    ] {
        assert!(
            is_credential(name) && may_name_a_secret(name)
                || name.contains("data")
                || name.contains("STRING"),
            "{name}"
        );
        assert!(is_credential(name), "{name}");
    }
    for name in [
        "secretName",
        "tokenPath",
        "key",
        "topologyKey",
        "partition.key",
        "image",
        "",
        "keystore",
        "passwordPolicy",
    ] {
        assert!(!is_credential(name), "{name}");
    }
    assert!(may_name_a_secret("SECRET_BASE64_VALUE") && may_name_a_secret("SIGNING_KEY_PROD"));
    assert!(!may_name_a_secret("KEYBOARD_LAYOUT") && !may_name_a_secret("COMPASS"));
}

#[test]
fn the_value_of_a_secret_handle_is_hidden_in_the_journal_that_has_it() {
    let mut secrets = crate::api::SecretHandles::default();
    secrets.add("s3://C4n4ry");
    let intent = json!({"status": {"journal": {"secrets": secrets}}});
    let shown = kept(&intent).to_string();
    assert!(
        shown.contains("<secret, sha256:") && !shown.contains("C4n4ry"),
        "{shown}"
    );
}

#[test]
fn credentials_are_recognised_in_any_text() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    for (words, clean) in [
        (
            "cannot reach https://ci:p@ss@git.example.com/x: no",
            "cannot reach https://***@git.example.com/x: no",
        ),
        ("pool of me:hunter2@10.0.0.1:9", "pool of me:***@10.0.0.1:9"),
        ("image orders:1.2@sha256:00ff", "image orders:1.2@sha256:00ff"),
        ("ssh://git@github.com/x", "ssh://git@github.com/x"),
        ("https://oauth2tok@github.com/x", "https://***@github.com/x"),
        (
            "{\"Authorization\": \"Basic YWxhZGRpbg==\"}",
            "{\"Authorization\": \"***\"}",
        ),
        ("sent Bearer abc123def, refused", "sent Bearer ***, refused"),
        ("basic authentication is off", "basic authentication is off"),
        (&format!("token {jwt} expired"), "token *** expired"),
        (
            "x -----BEGIN RSA PRIVATE KEY-----\\nMIIE\\nabc=\\n-----END RSA PRIVATE KEY----- y",
            "x *** y",
        ),
        (
            "ca LS0tLS1CRUdJTiBDRVJUSUZJQ0FUR key LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL",
            "ca LS0tLS1CRUdJTiBDRVJUSUZJQ0FUR key ***",
        ),
        ("uses ghp_0123456789abcdefghij", "uses ***"),
        (
            "jdbc:x?user=a&password=b&ssl=1",
            "jdbc:x?user=a&password=***&ssl=1",
        ),
        ("&{map[password:hunter2 user:x]}", "&{map[password:*** user:x]}"),
        (
            r#"{"db_password":"a b","user":"x"}"#,
            r#"{"db_password":"***","user":"x"}"#,
        ),
        (
            r#"{\"db_password\":\"a b\",\"user\":\"x\"}"#,
            r#"{\"db_password\":\"***\",\"user\":\"x\"}"#,
        ),
        (
            "cannot read the token: permission denied",
            "cannot read the token: permission denied",
        ),
        (
            "image reg.example.com:5000/a/b@sha256:00ff",
            "image reg.example.com:5000/a/b@sha256:00ff",
        ),
        ("key=ConfigMap shop/a token=", "key=ConfigMap shop/a token="),
    ] {
        assert_eq!(text(words), clean);
    }
}

/// The object with `x` for every secret.
fn crossed(mut object: Value) -> Value {
    object::hide(&mut object, &mut |_| "x".to_owned());
    object
}

#[test]
#[allow(clippy::too_many_lines, reason = "one object, before and after")]
fn secrets_are_found_wherever_an_object_can_hold_them() {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "token", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{}}",
            "team": "shop", "hook": "https://hooks.example.com:8/a?token=abc",
        }},
        "env": [{"name": "SIGNING_KEY", "value": "k"}, {"name": "MODE", "value": "m"},
            {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            {"name": "API_TOKEN", "value": "$(OTHER)"}],
        "flinkConfiguration": {"s3.secret-key": "k", "s3.endpoint": "e", "jobmanager.rpc.port": 1},
        "args": ["--token", "t", "--mode", "m", "--db-password=p", "run --api-key k -v"],
        "patches": [{"op": "replace", "path": "/spec/env/auth.token", "value": {"deep": ["t"]}}],
        "secretName": "s", "automountServiceAccountToken": true,
        "data": {
            "json": "{\"user\": \"u\", \"password\": \"p\"}",
            "yaml": "user: u\npassword: a b # c\nkeys:\n  token: |\n    line\n  other: o\n",
            "properties": "db.password = a b\ndb.user=u\n",
            "xml": "<name>fs.s3a.secret.key</name>\n <value>k</value><user>u</user><password>p</password>",
        },
    });
    insta::assert_snapshot!(serde_json::to_string_pretty(&crossed(object)).unwrap(), @r#"
    {
      "apiVersion": "v1",
      "kind": "ConfigMap",
      "metadata": {
        "name": "token",
        "annotations": {
          "kubectl.kubernetes.io/last-applied-configuration": "x",
          "team": "shop",
          "hook": "https://hooks.example.com:8/a?token=x"
        }
      },
      "env": [
        {
          "name": "SIGNING_KEY",
          "value": "x"
        },
        {
          "name": "MODE",
          "value": "m"
        },
        {
          "name": "DB_PASSWORD",
          "valueFrom": {
            "secretKeyRef": {
              "name": "db",
              "key": "password"
            }
          }
        },
        {
          "name": "API_TOKEN",
          "value": "$(OTHER)"
        }
      ],
      "flinkConfiguration": {
        "s3.secret-key": "x",
        "s3.endpoint": "e",
        "jobmanager.rpc.port": 1
      },
      "args": [
        "--token",
        "x",
        "--mode",
        "m",
        "--db-password=x",
        "run --api-key x -v"
      ],
      "patches": [
        {
          "op": "replace",
          "path": "/spec/env/auth.token",
          "value": {
            "deep": [
              "x"
            ]
          }
        }
      ],
      "secretName": "s",
      "automountServiceAccountToken": true,
      "data": {
        "json": "{\"user\":\"u\",\"password\":\"x\"}",
        "yaml": "user: u\npassword: x\nkeys:\n  token: |\n    x\n  other: o\n",
        "properties": "db.password = x\ndb.user=u\n",
        "xml": "<name>fs.s3a.secret.key</name>\n <value>x</value><user>u</user><password>x</password>"
      }
    }
    "#);
}

#[test]
fn an_embedded_secret_is_one_and_both_its_forms_are_the_same() {
    let secret = |field: &str, value: &str| json!({"list": [{"apiVersion": "v1", "kind": "Secret", field: {"a": value}}]});
    let (plain, encoded) = (secret("stringData", "hunter2"), secret("data", "aHVudGVyMg=="));
    let (before, after) = pair(&plain, &encoded);
    assert_eq!(before, after);
    let (before, after) = pair(&plain, &secret("stringData", "hunter3"));
    assert_ne!(before, after);
    let odd = json!({"kind": "Secret", "data": "hunter2", "stringData": {"a": ["hunter2", 2]}});
    assert!(!kept(&odd).to_string().contains("hunter2"));
}

#[test]
fn what_a_server_quotes_of_an_object_is_taken_out() {
    let secret = json!({"kind": "Secret", "data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "line one\nline \"two\"", "c": "ab"}});
    let secrets = Secrets::of([&secret]);
    for (words, clean) in [
        ("Invalid value: \"hunter2\"", "Invalid value: \"***\""),
        ("got aHVudGVyMg==", "got ***"),
        (
            r#"Invalid value: "line one\nline \"two\"""#,
            "Invalid value: \"***\"",
        ),
        ("then line one came", "then *** came"),
        ("ab is about \"ab\"", "*** is about \"***\""),
    ] {
        assert_eq!(secrets.scrub(words), clean);
    }
    assert_eq!(
        format!("{secrets:?}"),
        format!("Secrets({})", secrets_count(&secret))
    );
}

fn secrets_count(object: &Value) -> usize {
    let text = format!("{:?}", Secrets::of([object]));
    text.trim_start_matches("Secrets(")
        .trim_end_matches(')')
        .parse()
        .unwrap()
}

proptest! {
    #[test]
    fn what_is_hidden_is_not_shown(secret in "[a-zA-Z0-9]{8,20}", place in 0..12_usize) {
        let around = |text: String| json!({"spec": {"text": text}});
        let object = match place {
            0 => json!({"kind": "Secret", "stringData": {"a": secret}}),
            1 => json!({"kind": "Secret", "data": {"a": base64(secret.as_bytes())}}),
            2 => json!({"containers": [{"env": [{"name": "MY_PASSWORD", "value": secret}]}]}),
            3 => json!({"args": ["--token", secret]}),
            4 => around(format!("https://user:{secret}@example.com/")),
            5 => around(format!("Authorization: Bearer {secret}")),
            6 => around(format!("a=b\npassword: {secret}\nc=d")),
            7 => around(format!("{{\"a\": {{\"token\": \"{secret}\"}}}}")),
            8 => around(format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n")),
            9 => json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": secret}}}),
            10 => around(format!("java -Djavax.net.ssl.keyStorePassword={secret} -jar x")),
            _ => json!({"conf": {"s3.secret-key": secret}}),
        };
        let shown = kept(&object).to_string();
        prop_assert!(!shown.contains(&secret), "{}", shown);
        prop_assert!(!shown.contains(&base64(secret.as_bytes())), "{}", shown);
        let scrubbed = Secrets::of([&object]).scrub(&format!("refused: \"{secret}\" and {object}"));
        prop_assert!(!scrubbed.contains(&secret), "{}", scrubbed);
        prop_assert_eq!(kept(&object), kept(&kept(&object)));
    }

    #[test]
    fn base64_is_decoded_to_what_was_encoded(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        prop_assert_eq!(decoded(&base64(&bytes)), Some(bytes));
    }

    #[test]
    fn any_text_can_be_looked_at(words in ".{0,60}", before in "[a-z]*password[:=] ?") {
        let _ = text(&words);
        let _ = kept(&json!({"a": format!("{before}{words}"), "b": words}));
    }
}

mod cases;
mod cost;
