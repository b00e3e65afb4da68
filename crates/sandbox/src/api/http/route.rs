//! Paths: which objects, or which document, a request is about.

use super::super::Resource;

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Objects(Place),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`
    Resources {
        group: String,
        version: String,
    },
    Version,
    OpenApiV2,
    OpenApiV3,
    /// The document of a group and version.
    OpenApiV3Of {
        group: String,
        version: String,
    },
    /// A health check.
    Text(&'static str),
    Unknown,
}

/// Where objects are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Place {
    pub(super) fn resource(&self) -> Resource {
        Resource::named(self.group.as_str(), self.plural.as_str())
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

pub(super) fn parse(path: &str) -> Route {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => Route::Text("ok"),
        ["version"] => Route::Version,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3,
        ["openapi", "v3", "api", version] => Route::OpenApiV3Of {
            group: String::new(),
            version: (*version).to_owned(),
        },
        ["openapi", "v3", "apis", group, version] => Route::OpenApiV3Of {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
        },
        ["api", version] => Route::Resources {
            group: String::new(),
            version: (*version).to_owned(),
        },
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version] => Route::Resources {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
        },
        ["api", version, rest @ ..] => Route::Objects(place("", version, rest)),
        ["apis", group, version, rest @ ..] => Route::Objects(place(group, version, rest)),
        _ => Route::Unknown,
    }
}

fn place(group: &str, version: &str, rest: &[&str]) -> Place {
    let (namespace, rest) = match rest {
        // A namespace's own subresources, not resources within it.
        ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    Place {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: rest.first().copied().unwrap_or_default().to_owned(),
        namespace,
        name: rest.get(1).map(|name| decode(name)),
        subresource: rest
            .get(2..)
            .filter(|rest| !rest.is_empty())
            .map(|rest| rest.join("/")),
    }
}

/// Undoes percent-encoding: names may hold `:`.
fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(decoded) = hex
            .filter(|_| byte == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            bytes.push(decoded);
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_objects() {
        let text = |path: &str| match parse(path) {
            Route::Objects(place) => format!(
                "{} {} {} {} {} {}",
                place.group,
                place.version,
                place.plural,
                place.namespace.unwrap_or("-".to_owned()),
                place.name.unwrap_or("-".to_owned()),
                place.subresource.unwrap_or("-".to_owned()),
            ),
            other => format!("{other:?}"),
        };
        for (path, place) in [
            ("/api/v1/namespaces", " v1 namespaces - - -"),
            ("/api/v1/namespaces/a", " v1 namespaces - a -"),
            ("/api/v1/namespaces/a/status", " v1 namespaces - a status"),
            ("/api/v1/namespaces/a/configmaps", " v1 configmaps a - -"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "apps v1 deployments a b scale",
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa",
                "rbac.authorization.k8s.io v1 clusterroles - system:a -",
            ),
            (
                "/apis/cluster.karmada.io/v1alpha1/clusters/east/proxy/api/v1/pods",
                "cluster.karmada.io v1alpha1 clusters - east proxy/api/v1/pods",
            ),
            ("/foo", "Unknown"),
            ("/readyz?verbose", "Unknown"),
        ] {
            assert_eq!(text(path), place, "{path}");
        }
    }
}
