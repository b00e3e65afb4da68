//! Objects as JSON: where their metadata is, and the paths under which an API server serves them.

use kube::discovery::ApiResource;
use serde_json::Value;

use super::{Error, Result};
use cutover_karmada::name::Gvk;

/// A kind as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub gvk: Gvk,
    pub plural: String,
    pub namespaced: bool,
    pub watchable: bool,
}

impl Served {
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.gvk.group.clone(),
            version: self.gvk.version.clone(),
            api_version: self.gvk.api_version(),
            kind: self.gvk.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

pub(super) fn meta<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object["metadata"][field].as_str().filter(|text| !text.is_empty())
}

/// Returns the path of a collection: everywhere, or in one namespace.
pub(super) fn collection(served: &Served, namespace: Option<&str>) -> Result<String> {
    let base = if served.gvk.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let api_version = served.gvk.api_version();
    let plural = &served.plural;
    Ok(match namespace.filter(|_| served.namespaced) {
        Some(namespace) => format!("{base}/{api_version}/namespaces/{}/{plural}", segment(namespace)?),
        None => format!("{base}/{api_version}/{plural}"),
    })
}

/// Returns the path of one object.
pub(super) fn item(served: &Served, namespace: Option<&str>, name: &str) -> Result<String> {
    if served.namespaced && namespace.is_none() {
        return Err(Error::BadName(String::new()));
    }
    Ok(format!("{}/{}", collection(served, namespace)?, segment(name)?))
}

/// Returns a name as one segment of a path. Names come from files: one with a slash must not reach another object.
pub(super) fn segment(name: &str) -> Result<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return Err(Error::BadName(name.to_owned()));
    }
    Ok(escape(name))
}

/// Returns a text as it may stand in a path or a query.
pub(super) fn escape(text: &str) -> String {
    use std::fmt::Write;
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut escaped, byte| {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                    escaped.push(char::from(byte));
                }
                _ => {
                    let _ = write!(escaped, "%{byte:02X}");
                }
            }
            escaped
        })
}

/// Fills in what the items of a list leave out.
pub(super) fn with_type(mut object: Value, gvk: &Gvk) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields
            .entry("apiVersion")
            .or_insert_with(|| gvk.api_version().into());
        fields.entry("kind").or_insert_with(|| gvk.kind.clone().into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(namespaced: bool) -> Served {
        Served {
            gvk: Gvk::new("apps/v1", "Deployment"),
            plural: "deployments".into(),
            namespaced,
            watchable: true,
        }
    }

    #[test]
    fn paths_are_those_of_an_api_server() {
        let path = item(&served(true), Some("shop"), "orders").unwrap();
        assert_eq!(path, "/apis/apps/v1/namespaces/shop/deployments/orders");
        assert_eq!(
            collection(&served(true), None).unwrap(),
            "/apis/apps/v1/deployments"
        );
        assert_eq!(
            item(&served(false), None, "a:b").unwrap(),
            "/apis/apps/v1/deployments/a:b"
        );
    }

    #[test]
    fn a_name_cannot_reach_another_object() {
        for name in ["", "..", "a/../../b", "a%2fb"] {
            assert!(item(&served(true), Some("shop"), name).is_err(), "{name}");
        }
        assert_eq!(segment("a b?c").unwrap(), "a%20b%3Fc");
        assert!(item(&served(true), None, "orders").is_err());
    }
}
