//! The API server of a test, one of two kinds: the sandbox's, or a real one that no other test has meanwhile.
//!
//! A test that needs nothing of either kind is written once, as a function of [`On`], and [`on_both_servers`] makes two
//! tests of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cutover_sandbox::api::{
    ApiServer, DeleteOptions, ListOptions, Options, Patch, Resource, Subresource, WriteOptions, gc,
};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::real::{self, RealServer, in_background};

/// Makes of each function two tests, on the sandbox and on a real API server: `on_the_sandbox::…` and `on_kube::…`.
#[macro_export]
macro_rules! on_both_servers {
    ($($test:ident,)*) => {
        mod on_the_sandbox {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::server::On::Sandbox).await;
            })*
        }

        mod on_kube {
            use $crate::server::On;

            // On threads of its own the program goes on while a test waits for the server.
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(on) = On::kube(concat!(module_path!(), "::", stringify!($test))) {
                    super::$test(on).await;
                }
            })*
        }
    };
}
pub use on_both_servers;

/// On which kind of server a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Sandbox,
    Kube,
}

impl On {
    /// Returns the kind of a test on a real server, unless that has to be left out.
    pub fn kube(test: &str) -> Option<Self> {
        real::tools_for(test).map(|_| Self::Kube)
    }

    /// Returns a server with the kinds of cutover, of Karmada and of the workloads, and nothing else.
    pub fn server(self) -> Server {
        match self {
            Self::Sandbox => {
                let server = ApiServer::new(Options::new("karmada", 1));
                for definition in real::definitions() {
                    server.install(&definition).unwrap();
                }
                Server::Sandbox(server)
            }
            Self::Kube => Server::Kube(Arc::new(Lent::idle())),
        }
    }
}

/// An API server that a test has for itself. Its methods wait; what they do is for the test, and no part of it.
#[derive(Clone)]
pub enum Server {
    Sandbox(ApiServer),
    Kube(Arc<Lent>),
}

impl From<ApiServer> for Server {
    fn from(server: ApiServer) -> Self {
        Self::Sandbox(server)
    }
}

impl Server {
    /// Returns the sandbox, of a test that runs on no other.
    pub fn sandbox(&self) -> &ApiServer {
        match self {
            Self::Sandbox(server) => server,
            Self::Kube(_) => panic!("a real API server"),
        }
    }

    /// Returns a client for the program. Must be called on the tokio runtime that will use it.
    pub fn client(&self) -> kube::Client {
        match self {
            Self::Sandbox(server) => server.client("cutover"),
            Self::Kube(lent) => lent.server().connect(),
        }
    }

    /// Returns the path of the kubeconfig of a real server.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Sandbox(_) => panic!("the sandbox is not served"),
            Self::Kube(lent) => lent.server().kubeconfig(),
        }
    }

    /// Returns all objects of the kinds that tests write, with their versions: what two of them differ by was written.
    pub fn contents(&self) -> Vec<Value> {
        const KINDS: [Resource; 9] = [
            Resource::new("", "configmaps"),
            Resource::new("", "namespaces"),
            Resource::new("", "secrets"),
            Resource::new("apiextensions.k8s.io", "customresourcedefinitions"),
            Resource::new("apps", "deployments"),
            Resource::new("cutover.dev", "claims"),
            Resource::new("cutover.dev", "migrations"),
            Resource::new("flink.apache.org", "flinkdeployments"),
            Resource::new("policy.karmada.io", "propagationpolicies"),
        ];
        KINDS.iter().flat_map(|kind| self.list(kind, None)).collect()
    }

    /// Carries out what a kube-controller-manager would: garbage and namespaces that are deleted. Until it is dropped.
    pub fn chores(&self) -> Chores {
        Chores(match self {
            Self::Sandbox(server) => gc::spawn(server.clone(), Duration::from_millis(1)),
            Self::Kube(lent) => {
                let lent = Arc::clone(lent);
                real::spawn_in_background(async move {
                    loop {
                        lent.collect().await;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                })
            }
        })
    }

    pub fn install(&self, definition: &Value) {
        match self {
            Self::Sandbox(server) => server.install(definition).unwrap(),
            Self::Kube(lent) => {
                let (lent, definition) = (Arc::clone(lent), definition.clone());
                in_background(async move { lent.server().install(&[definition]).await });
            }
        }
    }

    pub fn get(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Value> {
        match self {
            Self::Sandbox(server) => {
                let found = server.get(resource, namespace, name).ok();
                found.map(|object| (*object).clone())
            }
            Self::Kube(lent) => {
                let (code, object) = lent.send(Method::GET, resource, namespace, name, "", None);
                assert!(code == 200 || code == 404, "{object}");
                (code == 200).then_some(object)
            }
        }
    }

    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Value> {
        match self {
            Self::Sandbox(server) => {
                let list = server.list(resource, namespace, &ListOptions::default()).unwrap();
                list.items.iter().map(|object| (**object).clone()).collect()
            }
            Self::Kube(lent) => {
                let (code, list) = lent.send(Method::GET, resource, namespace, "", "", None);
                assert_eq!(code, 200, "{list}");
                list["items"].as_array().unwrap().clone()
            }
        }
    }

    pub fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        object: Value,
        manager: &str,
    ) -> Value {
        match self {
            Self::Sandbox(server) => {
                let options = WriteOptions::manager(manager);
                (*server.create(resource, namespace, object, &options).unwrap()).clone()
            }
            Self::Kube(lent) => {
                let query = format!("?fieldManager={manager}");
                let body = Some(("application/json", object));
                let (code, object) = lent.send(Method::POST, resource, namespace, "", &query, body);
                assert_eq!(code, 201, "{object}");
                object
            }
        }
    }

    /// Changes an object or a part of it. Apply takes the fields that others own.
    pub fn patch(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        part: Option<Subresource>,
        patch: &Patch,
        manager: &str,
    ) -> Value {
        let force = matches!(patch, Patch::Apply(_));
        match self {
            Self::Sandbox(server) => {
                let options = WriteOptions {
                    force,
                    ..WriteOptions::manager(manager)
                };
                let patched = server.patch(resource, namespace, name, part, patch, &options);
                (*patched.unwrap()).clone()
            }
            Self::Kube(lent) => {
                let (language, body) = match patch {
                    Patch::Json(body) => ("application/json-patch+json", body),
                    Patch::Merge(body) => ("application/merge-patch+json", body),
                    Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
                    Patch::Apply(body) => ("application/apply-patch+yaml", body),
                };
                let part = part.map(|part| format!("/{}", part.as_str())).unwrap_or_default();
                let force = if force { "&force=true" } else { "" };
                let query = format!("{part}?fieldManager={manager}{force}");
                let body = Some((language, body.clone()));
                let (code, object) = lent.send(Method::PATCH, resource, namespace, name, &query, body);
                assert!(code == 200 || code == 201, "{object}");
                object
            }
        }
    }

    pub fn delete(&self, resource: &Resource, namespace: Option<&str>, name: &str) {
        match self {
            Self::Sandbox(server) => {
                server
                    .delete(resource, namespace, name, &DeleteOptions::default())
                    .unwrap();
            }
            Self::Kube(lent) => {
                let (code, answer) = lent.send(Method::DELETE, resource, namespace, name, "", None);
                assert!(code == 200 || code == 202, "{answer}");
            }
        }
    }
}

/// A task that ends when this is dropped.
pub struct Chores(tokio::task::JoinHandle<()>);

impl Drop for Chores {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Servers that nobody has at the moment. As many are started as tests run at once.
static IDLE: Mutex<Vec<RealServer>> = Mutex::new(Vec::new());

/// A real server, which goes back, emptied, when the last one who has it lets go.
pub struct Lent {
    server: Option<RealServer>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(server) = self.server.take()
            && server.empty()
        {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(server);
        }
    }
}

impl Lent {
    fn idle() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let server = idle.unwrap_or_else(|| {
            let tools = real::tools().unwrap();
            in_background(async move { RealServer::start(&tools).await })
        });
        Self { server: Some(server) }
    }

    fn server(&self) -> &RealServer {
        self.server.as_ref().unwrap()
    }

    fn send(
        self: &Arc<Self>,
        method: Method,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        rest: &str,
        body: Option<(&'static str, Value)>,
    ) -> (u16, Value) {
        let (lent, resource) = (Arc::clone(self), resource.clone());
        let (namespace, name, rest) = (namespace.map(str::to_owned), name.to_owned(), rest.to_owned());
        in_background(async move {
            let collection = lent.collection(&resource, namespace.as_deref()).await;
            let name = if name.is_empty() { name } else { format!("/{name}") };
            lent.ask(method, &format!("{collection}{name}{rest}"), body).await
        })
    }

    /// Returns the path of a kind's objects, in the version that the server prefers.
    async fn collection(&self, resource: &Resource, namespace: Option<&str>) -> String {
        let root = if resource.group.is_empty() {
            "/api/v1".to_owned()
        } else {
            let path = format!("/apis/{}", resource.group);
            let (_, group) = self.ask(Method::GET, &path, None).await;
            let version = &group["preferredVersion"]["version"];
            format!("{path}/{}", version.as_str().unwrap_or("unserved"))
        };
        let namespace = namespace
            .map(|name| format!("/namespaces/{name}"))
            .unwrap_or_default();
        format!("{root}{namespace}/{}", resource.plural)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<(&str, Value)>) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        let mut text = Vec::new();
        if let Some((language, body)) = body {
            request = request.header("content-type", language);
            text = serde_json::to_vec(&body).unwrap();
        }
        let request = request.body(Body::from(text)).unwrap();
        let answer = self.server().background_client().send(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        (code, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }

    /// Lets objects go that wait for their dependents, of which there are none, and namespaces with what is in them.
    async fn collect(&self) {
        for collection in ["/apis/apps/v1/deployments", "/api/v1/configmaps"] {
            for object in self.items(collection).await {
                let metadata = &object["metadata"];
                let waits = metadata["finalizers"] == json!(["foregroundDeletion"]);
                if !metadata["deletionTimestamp"].is_null() && waits {
                    self.release(collection, metadata).await;
                }
            }
        }
        for mut namespace in self.items("/api/v1/namespaces").await {
            if namespace["status"]["phase"] != "Terminating" {
                continue;
            }
            let path = format!(
                "/api/v1/namespaces/{}",
                namespace["metadata"]["name"].as_str().unwrap()
            );
            for part in ["configmaps", "secrets"] {
                self.ask(Method::DELETE, &format!("{path}/{part}"), None).await;
            }
            namespace["spec"]["finalizers"] = json!([]);
            let body = Some(("application/json", namespace));
            self.ask(Method::PUT, &format!("{path}/finalize"), body).await;
        }
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        let (_, list) = self.ask(Method::GET, path, None).await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    async fn release(&self, collection: &str, metadata: &Value) {
        let (root, plural) = collection.rsplit_once('/').unwrap();
        let (namespace, name) = (
            metadata["namespace"].as_str().unwrap(),
            metadata["name"].as_str().unwrap(),
        );
        let path = format!("{root}/namespaces/{namespace}/{plural}/{name}");
        let patch = json!({"metadata": {"finalizers": null, "uid": metadata["uid"]}});
        self.ask(
            Method::PATCH,
            &path,
            Some(("application/merge-patch+json", patch)),
        )
        .await;
    }
}
