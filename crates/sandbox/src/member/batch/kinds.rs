//! Kinds of runs to completion, and what their operators tell of them.

use serde_json::{Value, json};

use super::{Helpers, Kind, Rules, Stage, Told};
use crate::member::kind::Operated;

/// Kubernetes' own controller.
pub const JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
    operated: Operated::Run(Rules {
        suspend: "/spec/suspend",
        label: "job-name",
        helpers: None,
        status: |told| {
            json!({
                "active": told.active(), "ready": told.ready(), "succeeded": told.succeeded, "startTime": told.began,
                "conditions": told.suspended_or_ended("Complete"),
            })
        },
    }),
};

/// Kinds whose definitions a cluster has only where somebody installs them.
pub const OTHERS: [Kind; 6] = [
    Kind {
        group: "sparkoperator.k8s.io",
        version: "v1beta2",
        kind: "SparkApplication",
        plural: "sparkapplications",
        operated: Operated::Run(Rules {
            suspend: "/spec/suspend",
            label: "sparkoperator.k8s.io/app-name",
            helpers: None,
            status: |told| {
                let state = told.one_of("SUSPENDED", "SUBMITTED", "RUNNING", ["COMPLETED", "FAILED"]);
                let submission = (told.run > 0).then(|| format!("submission-{}", told.run));
                json!({"applicationState": {"state": state}, "submissionID": submission})
            },
        }),
    },
    Kind {
        group: "ray.io",
        version: "v1",
        kind: "RayJob",
        plural: "rayjobs",
        operated: Operated::Run(Rules {
            suspend: "/spec/suspend",
            label: "workload",
            helpers: None,
            status: |told| {
                let deployment = told.one_of("Suspended", "Initializing", "Running", ["Complete", "Failed"]);
                let job = told.one_of("", "PENDING", "RUNNING", ["SUCCEEDED", "FAILED"]);
                let id = (told.active() > 0).then(|| format!("run-{}", told.run));
                json!({"jobDeploymentStatus": deployment, "jobStatus": job, "jobId": id})
            },
        }),
    },
    training("PyTorchJob", "pytorchjobs", |told| trained(told, "Master")),
    // kubeflow/mpi-operator@v0.8.0, pkg/controller/mpi_job_controller.go: syncHandler (the launcher is a Job, which is suspended in its
    // turn; the workers are deleted at once), updateMPIJobStatus (Suspended repeats the request; startTime stays). Its workers end with
    // the launcher, as with `cleanPodPolicy: Running`.
    Kind {
        group: "kubeflow.org",
        version: "v2beta1",
        kind: "MPIJob",
        plural: "mpijobs",
        operated: Operated::Run(Rules {
            suspend: "/spec/runPolicy/suspend",
            label: "training.kubeflow.org/job-name",
            helpers: Some(Helpers {
                count: 2,
                role: "training.kubeflow.org/job-role",
                roles: ["launcher", "worker"],
            }),
            status: |told| {
                let is_over = matches!(told.stage, Stage::Ended { .. });
                let mut conditions = vec![
                    told.condition("Created", true),
                    told.suspended(),
                    told.condition("Running", told.stage == Stage::Running),
                ];
                conditions.extend(told.end("Succeeded"));
                json!({
                    "conditions": conditions, "startTime": told.began,
                    "completionTime": is_over.then(|| told.since.clone()),
                    "replicaStatuses": {"Launcher": {"active": told.ready()}, "Worker": {"active": 2 * told.ready()}},
                })
            },
        }),
    },
    Kind {
        group: "jobset.x-k8s.io",
        version: "v1alpha2",
        kind: "JobSet",
        plural: "jobsets",
        operated: Operated::Run(Rules {
            suspend: "/spec/suspend",
            label: "jobset.sigs.k8s.io/jobset-name",
            helpers: None,
            status: |told| {
                json!({
                    "conditions": told.suspended_or_ended("Completed"), "restarts": 0,
                    "replicatedJobsStatus": [told.replicated("workers")],
                })
            },
        }),
    },
    Kind {
        group: "trainer.kubeflow.org",
        version: "v1alpha1",
        kind: "TrainJob",
        plural: "trainjobs",
        operated: Operated::Run(Rules {
            suspend: "/spec/suspend",
            label: "jobset.sigs.k8s.io/jobset-name",
            helpers: None,
            status: |told| {
                json!({
                    "conditions": told.suspended_or_ended("Complete"), "jobsStatus": [told.replicated("node")],
                })
            },
        }),
    },
];

/// The other kinds of the operator of `PyTorchJob`s, which treats all of them alike.
pub const TRAININGS: [Kind; 4] = [
    training("TFJob", "tfjobs", |told| trained(told, "Worker")),
    training("XGBoostJob", "xgboostjobs", |told| trained(told, "Master")),
    training("PaddleJob", "paddlejobs", |told| trained(told, "Worker")),
    training("JAXJob", "jaxjobs", |told| trained(told, "Worker")),
];

/// A kind of Kubeflow's training operator (kubeflow/trainer@v1.9.4, pkg/controller.v1/common/job.go).
const fn training(kind: &'static str, plural: &'static str, status: fn(&Told) -> Value) -> Kind {
    Kind {
        group: "kubeflow.org",
        version: "v1",
        kind,
        plural,
        operated: Operated::Run(Rules {
            suspend: "/spec/runPolicy/suspend",
            label: "training.kubeflow.org/job-name",
            helpers: None,
            status,
        }),
    }
}

/// `role`: of the replica that does the work.
fn trained(told: &Told, role: &str) -> Value {
    let conditions = vec![
        told.condition("Created", true),
        told.condition("Running", told.stage == Stage::Running),
        told.suspended(),
        told.condition("Succeeded", told.stage == Stage::Ended { well: true }),
        told.condition("Failed", told.stage == Stage::Ended { well: false }),
    ];
    json!({
        "conditions": conditions, "startTime": told.began, "replicaStatuses": {role: {"active": told.active()}},
    })
}
