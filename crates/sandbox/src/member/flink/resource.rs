//! One `FlinkDeployment` or `FlinkSessionJob` as a pass of the operator works on it.

use std::borrow::Cow;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use serde_json::Value;

use super::jobs::Key;
use super::spec::{Conf, Spec};
use super::status::Status;

/// The kinds that the operator looks after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// An application, or without a job a session cluster.
    #[default]
    Deployment,
    /// A job in a session cluster.
    SessionJob,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "FlinkDeployment",
            Self::SessionJob => "FlinkSessionJob",
        }
    }

    pub const fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "flinkdeployments",
            Self::SessionJob => "flinksessionjobs",
        }
    }

    /// Returns the operator's finalizer on every object of the kind that it has seen.
    pub fn finalizer(self) -> String {
        format!("{}.flink.apache.org/finalizer", self.plural())
    }

    pub fn api_resource(self) -> ApiResource {
        ApiResource {
            group: "flink.apache.org".to_owned(),
            version: "v1beta1".to_owned(),
            api_version: "flink.apache.org/v1beta1".to_owned(),
            kind: self.name().to_owned(),
            plural: self.plural().to_owned(),
        }
    }
}

/// The session cluster that a session job names, as its `FlinkDeployment` shows it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Session {
    pub spec: Spec,
    /// Its status says that the `JobManager` is ready (`SessionJobReconciler.sessionClusterReady`).
    pub is_ready: bool,
}

/// The spec and generation of a cached object, which may be old, with the status that the operator wrote last.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Resource {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub spec: Spec,
    pub status: Status,
    /// Of a session job, where the cluster that it names is there.
    pub session: Option<Session>,
}

impl Resource {
    pub fn new(kind: Kind, object: &DynamicObject) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let status = object
            .data
            .get("status")
            .cloned()
            .and_then(|status| serde_json::from_value(status).ok());
        Self {
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: Spec::new(spec),
            status: status.unwrap_or_default(),
            session: None,
        }
    }

    /// Returns whether it is a cluster without a job of its own.
    pub fn is_session_cluster(&self) -> bool {
        self.kind == Kind::Deployment && !self.spec.has_job()
    }

    pub fn is_session_job(&self) -> bool {
        self.kind == Kind::SessionJob
    }

    /// Returns the session cluster that a session job names.
    pub fn session_key(&self) -> Key {
        (self.namespace.clone(), self.spec.deployment_name().to_owned())
    }

    /// Returns whether a session job can be worked on at all.
    pub fn session_is_ready(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_ready)
    }

    /// Returns a spec of this resource with what the session cluster adds to that of a session job.
    pub fn effective<'s>(&self, spec: &'s Spec) -> Cow<'s, Spec> {
        match &self.session {
            Some(session) => Cow::Owned(spec.in_session(&session.spec)),
            None => Cow::Borrowed(spec),
        }
    }

    pub fn conf(&self) -> Conf {
        self.effective(&self.spec).conf()
    }

    /// `CommonStatus.isJmAccessible`.
    pub fn is_accessible(&self) -> bool {
        self.is_session_job() || self.status.manager_is_ready()
    }

    /// `CommonStatus.isJobCancellable`.
    pub fn job_is_cancellable(&self) -> bool {
        self.status.job_is_live() && self.is_accessible()
    }
}
