//! Karmada's scheduler: one watch, one queue, one worker. It decides on a binding as it has heard of it, and writes that later,
//! whatever the binding is by then.

use std::collections::VecDeque;
use std::sync::Arc;

use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, Placement, meta};
use serde_json::{Value, json};

use crate::plane::{Binding, News, Plane, generation};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Job {
    Binding(usize),
    Canary(String),
}

/// What the worker has decided, and not written yet.
#[derive(Clone, Debug)]
enum Decision {
    Observe(String),
    Place {
        workload: usize,
        /// `None`: those that it is in.
        clusters: Option<Vec<ClusterName>>,
        placement: String,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    /// How much of the news it has heard.
    cursor: usize,
    heard: Vec<Option<Arc<Binding>>>,
    queue: VecDeque<Job>,
    decided: Option<Decision>,
    /// Of several clusters it keeps the last by name, not the first.
    pub keeps_last: bool,
}

impl Scheduler {
    pub fn add(&mut self) {
        self.heard.push(None);
    }

    /// Another process takes over: it hears of everything anew, and has nothing queued.
    #[must_use]
    pub fn replaced(&self) -> Self {
        Self {
            heard: vec![None; self.heard.len()],
            keeps_last: self.keeps_last,
            ..Self::default()
        }
    }

    /// It hears of the next thing that happened to a binding.
    pub fn hear(&mut self, plane: &Plane) -> bool {
        let Some(news) = plane.news.get(self.cursor) else {
            return false;
        };
        self.cursor += 1;
        let job = match news {
            News::Canary(name) => Job::Canary(name.clone()),
            News::Binding(workload, binding) => {
                let before = self.heard[*workload].replace(Arc::clone(binding));
                let is_same =
                    before.is_some_and(|before| generation(&before.json) == generation(&binding.json));
                if is_same {
                    return true;
                }
                Job::Binding(*workload)
            }
        };
        if !self.queue.contains(&job) {
            self.queue.push_back(job);
        }
        true
    }

    /// Its worker takes the first in the queue, and decides.
    pub fn decide(&mut self, plane: &Plane) -> bool {
        if self.decided.is_some() {
            return false;
        }
        let Some(job) = self.queue.pop_front() else {
            return false;
        };
        self.decided = match job {
            Job::Canary(name) => Some(Decision::Observe(name)),
            Job::Binding(workload) => self.place(plane, workload),
        };
        true
    }

    fn place(&self, plane: &Plane, workload: usize) -> Option<Decision> {
        let binding = self.heard[workload].as_ref()?;
        let spec = &binding.typed.spec;
        if spec.scheduling_suspended() {
            return None;
        }
        let placement = spec.placement.as_ref()?;
        let listed: Vec<ClusterName> = spec.clusters.iter().map(|listed| listed.name.clone()).collect();
        let leaving: Vec<&ClusterName> = spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| &task.from_cluster)
            .collect();
        let fits = |(name, cluster): &(&ClusterName, &Cluster)| {
            let wanted = placement
                .cluster_affinity
                .as_ref()
                .is_none_or(|affinity| affinity.matches(cluster));
            wanted && !leaving.contains(name) && (cluster.is_ready() || listed.contains(name))
        };
        let fitting: Vec<ClusterName> = plane
            .clusters
            .iter()
            .filter(fits)
            .map(|(name, _)| name.clone())
            .collect();
        let chosen = self.choose(placement, &listed, fitting);
        Some(Decision::Place {
            workload,
            clusters: (!chosen.is_empty() && chosen != listed).then_some(chosen),
            placement: json!(placement).to_string(),
        })
    }

    /// Where one is enough it keeps one of those that are listed, whoever runs there.
    fn choose(
        &self,
        placement: &Placement,
        listed: &[ClusterName],
        fitting: Vec<ClusterName>,
    ) -> Vec<ClusterName> {
        let takes_one = placement
            .spread_constraints
            .iter()
            .any(|spread| spread.max_groups == 1);
        if !takes_one {
            return fitting;
        }
        let (mut stay, new): (Vec<_>, Vec<_>) = fitting.into_iter().partition(|name| listed.contains(name));
        stay.sort();
        if self.keeps_last {
            stay.reverse();
        }
        stay.into_iter().chain(new).take(1).collect()
    }

    pub const fn has_decided(&self) -> bool {
        self.decided.is_some()
    }

    /// What it has decided it writes, over whatever is there.
    pub fn write(&mut self, plane: &mut Plane) -> bool {
        match self.decided.take() {
            None => false,
            Some(Decision::Observe(name)) => {
                if let Some(canary) = plane.canaries.get_mut(&name) {
                    canary.is_observed = true;
                }
                true
            }
            Some(Decision::Place {
                workload,
                clusters,
                placement,
            }) => {
                let Some(live) = plane.workloads[workload].binding.clone() else {
                    return true;
                };
                let mut json = live.json.clone();
                if let Some(clusters) = clusters {
                    json["spec"]["clusters"] = targets(&json, &clusters);
                }
                json["metadata"]["annotations"][meta::APPLIED_PLACEMENT] = placement.into();
                let is_spec = json["spec"] != live.json["spec"];
                let observed = generation(&json) + i64::from(is_spec);
                json["status"]["schedulerObservedGeneration"] = observed.into();
                plane.put_binding(workload, json);
                true
            }
        }
    }
}

fn targets(binding: &Value, clusters: &[ClusterName]) -> Value {
    let replicas = &binding["spec"]["replicas"];
    let target = |name: &ClusterName| match replicas {
        Value::Null => json!({"name": name}),
        replicas => json!({"name": name, "replicas": replicas}),
    };
    clusters.iter().map(target).collect()
}
