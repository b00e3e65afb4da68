//! What starts a workload by itself. A copy that is held has no replicas, or is suspended: who scales it up from there, or lets it run
//! again, starts a second writer, whatever the pin says.

use std::fmt;

use serde_json::Value;

use crate::api::{Finding, WorkloadProfileSpec};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// KEDA's kind, and where it is served.
pub const SCALED_OBJECT: (&str, &str) = ("keda.sh/v1alpha1", "ScaledObject");
/// What Kubernetes itself has.
pub const HPA: (&str, &str) = ("autoscaling/v2", "HorizontalPodAutoscaler");

/// The API group of Kueue, which lets a suspended workload run as soon as it has admitted it.
pub const KUEUE: &str = "kueue.x-k8s.io";

/// On what Kueue keeps of a workload that it manages: the uid of that workload.
pub const KUEUE_JOB_UID: &str = "kueue.x-k8s.io/job-uid";

/// The kinds that Kueue suspends and lets run, by their API groups (kubernetes-sigs/kueue@v0.19.2, pkg/controller/jobs). Of kinds that it
/// manages by their pods, such as Deployments, it changes no field.
const OF_KUEUE: &[(&str, &[&str])] = &[
    ("batch", &["Job"]),
    ("jobset.x-k8s.io", &["JobSet"]),
    (
        "kubeflow.org",
        &[
            "JAXJob",
            "MPIJob",
            "PaddleJob",
            "PyTorchJob",
            "TFJob",
            "XGBoostJob",
        ],
    ),
    ("ray.io", &["RayCluster", "RayJob", "RayService"]),
    ("sparkoperator.k8s.io", &["SparkApplication"]),
    ("trainer.kubeflow.org", &["TrainJob"]),
    ("workload.codeflare.dev", &["AppWrapper"]),
];

/// The finding that stays while a scaler is seen that doesn't leave a held copy alone.
const CODE: &str = "ScaledFromZero";
/// The same of Kueue.
const STARTED_BY_KUEUE: &str = "StartedByKueue";

/// The queue that Kueue puts a new workload into that names none.
const DEFAULT_QUEUE: &str = "default";
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// What can be done about a copy that Kueue has (kubernetes-sigs/kueue@v0.19.2, pkg/controller/jobframework/validation.go).
const LET_IT_END: &str = "let it end here, or create it again in a namespace without that queue; Kueue takes no queue off a workload that runs";

const PAUSED: &str = "autoscaling.keda.sh/paused";
const PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";

/// What may start a copy that a kind of workload is held by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concerns {
    /// It is held by the number of its replicas, which autoscalers set.
    pub autoscalers: bool,
    /// It is held by its suspension, and of a kind of which Kueue takes that back.
    pub kueue: bool,
    /// It is held by its suspension: a copy with a queue of Kueue may be of a kind that another controller brings to it.
    pub suspends: bool,
}

impl Concerns {
    /// Of what goes by replicas, whatever holds it.
    pub const AUTOSCALERS: Self = Self {
        autoscalers: true,
        kueue: false,
        suspends: false,
    };

    pub fn of(profile: &WorkloadProfileSpec) -> Self {
        let sets = |field: &str| {
            let mut patches = profile.hold.iter().chain(&profile.suspend);
            patches.any(|patch| patch.path.ends_with(field))
        };
        let of = &profile.applies_to;
        let is_of_kueue = OF_KUEUE.iter().any(|(group, kinds)| {
            *group == of.group && of.kinds.iter().any(|kind| kinds.contains(&kind.as_str()))
        });
        Self {
            autoscalers: sets("/replicas"),
            kueue: is_of_kueue && sets("/suspend"),
            suspends: sets("/suspend"),
        }
    }

    /// Returns whether others have to be read: autoscalers, or what Kueue has.
    pub const fn any(self) -> bool {
        self.autoscalers || self.kueue
    }
}

/// Something that sets the replicas of the workload, or lets it run where it is suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaler {
    pub kind: String,
    pub name: String,
    /// Nothing on the control plane scales anything in a member, but what is there is there to be propagated.
    pub cluster: Option<ClusterName>,
    /// Why it doesn't leave a copy alone that is held; `None` if it does.
    pub from_zero: Option<FromZero>,
}

/// What makes a scaler start a copy that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromZero {
    /// KEDA does so as soon as a trigger is active, and without one if `minReplicaCount` says so.
    NotPaused,
    /// The annotation is there, and nothing says yet that KEDA has heard of it.
    NotPausedYet,
    /// It is paused at another number than none.
    PausedAtMore,
    /// An HPA leaves a workload without replicas alone, unless its minimum is zero.
    MinimumZero,
    /// The copy is in a queue of Kueue.
    Queued,
    /// Kueue puts a copy that is created there into this queue.
    DefaultQueue,
    /// Kueue has an object of its own for the copy, in a queue or not.
    Managed,
}

impl FromZero {
    const fn why(self) -> &'static str {
        match self {
            Self::NotPaused => "KEDA would start it again",
            Self::NotPausedYet => "KEDA would start it again: it has not said yet that it is paused",
            Self::PausedAtMore => "KEDA would start it again, with the replicas that it is paused at",
            Self::MinimumZero => "it can be started from there again, as its minReplicas is 0",
            Self::Queued | Self::DefaultQueue | Self::Managed => "Kueue would start it",
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::NotPaused | Self::PausedAtMore => {
                "for as long as the workload is held, pause it with the annotation autoscaling.keda.sh/paused: \"true\" and without \
                 paused-replicas, where it is kept in Git, or remove it"
            }
            Self::NotPausedYet => "check what KEDA reports about it there, or remove it",
            Self::MinimumZero => "set its minReplicas to 1 for as long as the workload is held, or remove it",
            Self::Queued => LET_IT_END,
            Self::DefaultQueue => "give that queue another name, or remove it, before the workload moves",
            Self::Managed => {
                "let it end here, or create it again in a namespace without a queue for it, which Kueue's managedJobsNamespaceSelector \
                 leaves out; Kueue takes no queue off a workload that runs"
            }
        }
    }
}

impl fmt::Display for Scaler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        match &self.cluster {
            Some(cluster) => write!(f, " in {cluster}"),
            None => Ok(()),
        }
    }
}

impl Scaler {
    /// Reads an object of a kind that scales; `None` when it isn't about the workload.
    pub fn of(
        kind: &str,
        object: &Value,
        workload: &ObjectKey,
        cluster: Option<&ClusterName>,
    ) -> Option<Self> {
        let target = object.pointer("/spec/scaleTargetRef")?;
        let text = |field: &str| target[field].as_str().filter(|text| !text.is_empty());
        let of_keda = kind == SCALED_OBJECT.1;
        // Without a kind KEDA means a Deployment.
        let meant = text("kind").or_else(|| of_keda.then_some("Deployment"))?;
        let group = text("apiVersion").map(|version| Gvk::new(version, meant).group);
        let is_meant = meant == workload.kind
            && text("name") == Some(&workload.name)
            && group.is_none_or(|group| group == workload.group);
        is_meant.then(|| Self {
            kind: kind.to_owned(),
            name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            cluster: cluster.cloned(),
            from_zero: match kind {
                _ if of_keda => of_scaled_object(object, cluster.is_some()),
                _ if kind == HPA.1 => (object.pointer("/spec/minReplicas") == Some(&Value::from(0)))
                    .then_some(FromZero::MinimumZero),
                // Karmada's set the replicas of the template, which the pin overrides.
                _ => None,
            },
        })
    }

    /// Returns whether it sets replicas at all: one that is paused does not.
    pub fn is_active(&self) -> bool {
        self.kind != SCALED_OBJECT.1 || self.from_zero.is_some()
    }

    /// Returns the queue of Kueue that a copy in a member is in by its label, whatever its template says: Kueue sets it, too.
    pub(super) fn queue_of(copy: &Value, cluster: &ClusterName) -> Option<Self> {
        let queue = copy.pointer("/metadata/labels")?.get(QUEUE_LABEL)?.as_str()?;
        if queue.is_empty() {
            return None;
        }
        Some(Self::of_kueue(cluster, "LocalQueue", queue, FromZero::Queued))
    }

    fn of_kueue(cluster: &ClusterName, kind: &str, name: &str, why: FromZero) -> Self {
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            cluster: Some(cluster.clone()),
            from_zero: Some(why),
        }
    }

    /// Says why a copy can't be held beside it, and what to do about it.
    pub(super) fn finding(&self) -> Option<Finding> {
        let from_zero = self.from_zero?;
        let (code, does) = match from_zero {
            FromZero::Queued => (
                STARTED_BY_KUEUE,
                format!(
                    "{self} has the workload, by the label {QUEUE_LABEL} of its copy: where that is held"
                ),
            ),
            FromZero::DefaultQueue => (
                STARTED_BY_KUEUE,
                format!(
                    "{self} gets each workload that is created in its namespace and names no queue: where that is held"
                ),
            ),
            FromZero::Managed => (
                STARTED_BY_KUEUE,
                format!("{self} is what Kueue keeps of the workload: where that is held"),
            ),
            _ => (
                CODE,
                format!("{self} scales the workload: where the workload is held with no replicas"),
            ),
        };
        let message = format!("{does}, {}", from_zero.why());
        Some(Finding::new(code, message, from_zero.hint()))
    }
}

/// Returns what Kueue has in a member that a copy of the workload would be started by: of the queues of its namespace, and of the objects
/// that Kueue keeps of what it manages.
pub fn of_kueue(
    workload: &ObjectKey,
    cluster: &ClusterName,
    queues: &[Value],
    managed: &[Value],
) -> Vec<Scaler> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let default = queues.iter().map(name).filter(|name| name == DEFAULT_QUEUE);
    let default = default.map(|name| Scaler::of_kueue(cluster, "LocalQueue", &name, FromZero::DefaultQueue));
    let managed = managed
        .iter()
        .filter(|object| is_owned_by(object, workload))
        .map(name);
    let managed = managed.map(|name| Scaler::of_kueue(cluster, "Workload", &name, FromZero::Managed));
    default.chain(managed).collect()
}

fn is_owned_by(object: &Value, workload: &ObjectKey) -> bool {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let kind = Gvk::new(text("apiVersion"), text("kind"));
        (&kind.group, &kind.kind) == (&workload.group, &workload.kind) && text("name") == workload.name
    })
}

/// What is paused scales nothing, if that is what KEDA says of it, too.
fn of_scaled_object(object: &Value, in_member: bool) -> Option<FromZero> {
    let annotation = |name: &str| object["metadata"]["annotations"][name].as_str();
    match annotation(PAUSED_REPLICAS) {
        Some("0") => {}
        Some(_) => return Some(FromZero::PausedAtMore),
        None if annotation(PAUSED) == Some("true") => {}
        None => return Some(FromZero::NotPaused),
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_paused = |condition: &Value| condition["type"] == "Paused" && condition["status"] == "True";
    let has_said = conditions.into_iter().flatten().any(is_paused);
    (in_member && !has_said).then_some(FromZero::NotPausedYet)
}

/// Returns a finding for each that doesn't leave a held copy alone.
pub(super) fn findings(scalers: &[Scaler]) -> Vec<Finding> {
    scalers.iter().filter_map(Scaler::finding).collect()
}

/// Returns whether a finding is one of those.
pub(super) fn is_told(code: &str) -> bool {
    [CODE, STARTED_BY_KUEUE].contains(&code)
}

/// Returns what is waited for where one of them keeps a workload from being held.
pub(super) fn wait(finding: Finding) -> String {
    let Finding { code, message, hint } = finding;
    let who = if code == STARTED_BY_KUEUE {
        "Kueue"
    } else {
        "autoscalers"
    };
    format!(
        "{who} to let go of what is held: {message} ({})",
        hint.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn web() -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        }
    }

    fn scaled(annotations: Value, status: Value) -> Value {
        json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"scaleTargetRef": {"name": "web"}, "triggers": []},
            "status": status,
        })
    }

    fn undoes(kind: &str, object: &Value, cluster: Option<&str>) -> Option<FromZero> {
        let cluster = cluster.map(ClusterName::new);
        let scaler = Scaler::of(kind, object, &web(), cluster.as_ref());
        scaler.expect("it is about the workload").from_zero
    }

    #[test]
    fn keda_leaves_a_held_copy_alone_only_when_it_says_that_it_is_paused() {
        let paused = json!({"conditions": [{"type": "Paused", "status": "True"}]});
        let cases = [
            (json!({}), json!({}), Some(FromZero::NotPaused)),
            (
                json!({PAUSED: "false"}),
                paused.clone(),
                Some(FromZero::NotPaused),
            ),
            (json!({PAUSED: "true"}), json!({}), Some(FromZero::NotPausedYet)),
            (json!({PAUSED: "true"}), paused.clone(), None),
            (json!({PAUSED_REPLICAS: "0"}), paused.clone(), None),
            (
                json!({PAUSED: "true", PAUSED_REPLICAS: "3"}),
                paused,
                Some(FromZero::PausedAtMore),
            ),
        ];
        for (annotations, status, expected) in cases {
            let object = scaled(annotations, status);
            let kind = SCALED_OBJECT.1;
            assert_eq!(undoes(kind, &object, Some("west")), expected, "{object}");
        }
        // What is to be propagated has no status.
        let template = scaled(json!({PAUSED: "true"}), json!({}));
        assert_eq!(undoes(SCALED_OBJECT.1, &template, None), None);
    }

    #[test]
    fn an_hpa_leaves_it_alone_unless_its_minimum_is_zero() {
        let hpa = |spec: Value| {
            let mut object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
            }}});
            let fields = spec.as_object().unwrap().clone();
            object["spec"].as_object_mut().unwrap().extend(fields);
            undoes(HPA.1, &object, Some("west"))
        };
        assert_eq!(hpa(json!({})), None);
        assert_eq!(hpa(json!({"minReplicas": 2})), None);
        assert_eq!(hpa(json!({"minReplicas": 0})), Some(FromZero::MinimumZero));
    }

    #[test]
    fn what_scales_another_workload_is_none_of_its_business() {
        for target in [
            json!({"name": "shop"}),
            json!({"kind": "StatefulSet", "name": "web"}),
            json!({"apiVersion": "example.org/v1", "kind": "Deployment", "name": "web"}),
        ] {
            let object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target}});
            assert_eq!(
                Scaler::of(SCALED_OBJECT.1, &object, &web(), None),
                None,
                "{object}"
            );
        }
    }

    #[test]
    fn autoscalers_concern_what_is_held_by_its_replicas_and_kueue_what_is_held_by_its_suspension() {
        let of = |kind: &str, group: &str| {
            let api_version = format!("{group}/v1");
            let found = crate::profile::find(&[], None, &Gvk::new(&api_version, kind));
            let Concerns {
                autoscalers, kueue, ..
            } = Concerns::of(&found.unwrap().unwrap().spec);
            (autoscalers, kueue)
        };
        assert_eq!(of("Deployment", "apps"), (true, false));
        assert_eq!(of("StatefulSet", "apps"), (true, false));
        assert_eq!(of("FlinkDeployment", "flink.apache.org"), (false, false));
        assert_eq!(of("Job", "batch"), (false, true));
        assert_eq!(of("PyTorchJob", "kubeflow.org"), (false, true));
        // Kueue knows nothing of another kind, however that is suspended.
        let job = crate::profile::find(&[], None, &Gvk::new("batch/v1", "Job"));
        let mut own = job.unwrap().unwrap().spec;
        own.applies_to.group = "example.org".to_owned();
        assert!(!Concerns::of(&own).any());
        let of_kueue = crate::profile::built_in().unwrap().iter();
        let of_kueue = of_kueue.filter(|builtin| Concerns::of(&builtin.spec).kueue);
        assert_eq!(of_kueue.count(), 9, "as many as refuse the label of a queue");
    }

    #[test]
    fn kueue_would_start_what_is_in_a_queue_or_gets_one_or_is_managed() {
        let train = ObjectKey {
            group: "batch".to_owned(),
            kind: "Job".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "train".to_owned(),
        };
        let west = ClusterName::new("west");
        let named = |name: &str| json!({"metadata": {"name": name}});
        let owned = |api_version: &str, kind: &str, name: &str| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": name});
            json!({"metadata": {"name": "job-train-1", "ownerReferences": [owner]}})
        };
        let found = |queues: &[Value], managed: &[Value]| {
            let found = of_kueue(&train, &west, queues, managed).into_iter();
            found.map(|scaler| scaler.to_string()).collect::<Vec<_>>()
        };
        assert!(found(&[named("research")], &[named("job-train-1")]).is_empty());
        assert_eq!(found(&[named("default")], &[]), ["LocalQueue default in west"]);
        let own = owned("batch/v1", "Job", "train");
        assert_eq!(found(&[], &[own]), ["Workload job-train-1 in west"]);
        for other in [
            owned("batch/v1", "Job", "load"),
            owned("batch/v1", "CronJob", "train"),
            owned("example.org/v1", "Job", "train"),
        ] {
            assert!(found(&[], std::slice::from_ref(&other)).is_empty(), "{other}");
        }
        let mut copy = named("train");
        assert_eq!(Scaler::queue_of(&copy, &west), None);
        copy["metadata"]["labels"] = json!({QUEUE_LABEL: "research"});
        let finding = Scaler::queue_of(&copy, &west).unwrap().finding().unwrap();
        assert_eq!(finding.code, STARTED_BY_KUEUE);
        assert!(
            finding
                .message
                .starts_with("LocalQueue research in west has the workload"),
            "{finding:?}"
        );
        assert!(wait(finding).starts_with("Kueue to let go of what is held: "));
    }
}
