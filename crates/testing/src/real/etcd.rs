//! The store of a real API server: emptied of what a test left there, so that the next one may have the server.
//!
//! Nobody collects garbage on these servers, and finalizers keep objects for ever; so what is left is taken away below
//! the API server, which sees it go by its watches.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};

/// What the API server keeps of its own: the first part of a key.
const OWN: [&str; 14] = [
    "apiregistration.k8s.io",
    "clusterrolebindings",
    "clusterroles",
    "endpointslices",
    "flowschemas",
    "ipaddresses",
    "masterleases",
    "priorityclasses",
    "prioritylevelconfigurations",
    "ranges",
    "rolebindings",
    "roles",
    "servicecidrs",
    "services",
];

/// The definitions that a server begins with.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// The store of one server.
#[derive(Debug)]
pub struct Etcd {
    socket: PathBuf,
    /// What was there before the first test, and since which revision.
    before: BTreeMap<String, String>,
}

impl Etcd {
    /// Takes what is in the store for the server's own.
    pub fn of(folder: &std::path::Path) -> Self {
        let mut etcd = Self {
            socket: folder.join("etcd.sock:0"),
            before: BTreeMap::new(),
        };
        etcd.before = etcd.keys();
        etcd
    }

    /// Removes what came since. Returns false when something of the server's own isn't as it was: nobody should
    /// have that server any more.
    pub fn empty(&self) -> bool {
        let now = self.keys();
        // One by one: API servers take it for granted that a revision changes one object.
        for key in now
            .keys()
            .filter(|key| !self.before.contains_key(*key) && !is_own(key))
        {
            self.ask("/v3/kv/deleterange", &json!({"key": encode(key)}));
        }
        let mut definitions = self.before.iter().filter(|(key, _)| key.starts_with(DEFINITIONS));
        definitions.all(|(key, revision)| now.get(key) == Some(revision))
    }

    /// Returns the keys of all objects, with the revision at which each was written last.
    fn keys(&self) -> BTreeMap<String, String> {
        let all = json!({"key": encode("/registry/"), "range_end": encode("/registry0"), "keys_only": true});
        let answer = self.ask("/v3/kv/range", &all);
        let keys = answer["kvs"].as_array().into_iter().flatten();
        keys.map(|pair| {
            let text = |field: &str| pair[field].as_str().unwrap().to_owned();
            let key = openssl::base64::decode_block(&text("key")).unwrap();
            (String::from_utf8(key).unwrap(), text("mod_revision"))
        })
        .collect()
    }

    /// Asks etcd in JSON. HTTP 1.0, so that the answer ends with the connection.
    fn ask(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{path}: {answer}");
        serde_json::from_str(body).unwrap()
    }
}

fn encode(key: &str) -> String {
    openssl::base64::encode_block(key.as_bytes())
}

fn is_own(key: &str) -> bool {
    let parts: Vec<&str> = key.trim_start_matches("/registry/").split('/').collect();
    OWN.contains(&parts[0])
        || parts.iter().any(|part| part.starts_with("kube-"))
        || parts == ["namespaces", "default"]
}
