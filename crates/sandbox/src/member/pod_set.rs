//! What operators of services keep of an object: pods that they make and end, and conditions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::frame::Id;
use super::{PodPhase, PodView};
use crate::clock::seconds;

/// The labels of a pod.
pub type Labels = BTreeMap<String, String>;

pub fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    labels
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .into()
}

#[derive(Debug)]
struct Pod {
    name: String,
    labels: Labels,
    ready_at: Timestamp,
    gone_at: Option<Timestamp>,
}

/// Pods of one object. One that ends does its work until it is gone.
#[derive(Debug, Default)]
pub struct PodSet(Vec<Pod>);

impl PodSet {
    /// Forgets those that are gone.
    pub fn settle(&mut self, now: Timestamp) {
        self.0.retain(|pod| pod.gone_at.is_none_or(|gone| gone > now));
    }

    /// Makes a pod, unless one of that name is there, or not gone yet.
    pub fn make(&mut self, name: &str, labels: Labels, ready_at: Timestamp) {
        if self.0.iter().all(|pod| pod.name != name) {
            self.0.push(Pod {
                name: name.to_owned(),
                labels,
                ready_at,
                gone_at: None,
            });
        }
    }

    /// Ends the pods whose name is chosen.
    pub fn end(&mut self, gone_at: Timestamp, chosen: impl Fn(&str) -> bool) {
        for pod in self.0.iter_mut().filter(|pod| chosen(&pod.name)) {
            pod.gone_at.get_or_insert(gone_at);
        }
    }

    /// Ends the pods of other names, and makes those of these names that aren't there.
    pub fn scale(&mut self, names: &[String], labels: &Labels, ready_at: Timestamp, gone_at: Timestamp) {
        self.end(gone_at, |name| names.iter().all(|stays| stays != name));
        for name in names {
            self.make(name, labels.clone(), ready_at);
        }
    }

    /// Returns how many there are, those that end included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns how many do their work, those that end included.
    pub fn ready(&self, now: Timestamp) -> usize {
        self.0.iter().filter(|pod| pod.ready_at <= now).count()
    }

    /// Returns how many do their work and are to stay.
    pub fn settled(&self, now: Timestamp) -> usize {
        let stays = |pod: &&Pod| pod.gone_at.is_none() && pod.ready_at <= now;
        self.0.iter().filter(stays).count()
    }

    /// Returns whether a pod does its work; nothing of one that isn't there.
    pub fn is_ready(&self, name: &str, now: Timestamp) -> Option<bool> {
        let pod = self.0.iter().find(|pod| pod.name == name)?;
        Some(pod.ready_at <= now)
    }

    pub fn next_change(&self, now: Timestamp) -> Timestamp {
        let changes = self.0.iter().flat_map(|pod| [Some(pod.ready_at), pod.gone_at]);
        let ahead = changes.flatten().filter(|at| *at > now);
        ahead.min().unwrap_or(Timestamp::MAX)
    }

    /// Returns the pods as they are to be shown. Their names tell objects of one name apart that came after each other.
    pub fn views(&self, ((namespace, _), uid): &Id, now: Timestamp) -> Vec<PodView> {
        let view = |pod: &Pod| PodView {
            restarts: 0,
            namespace: namespace.clone(),
            name: format!("{}-{}", pod.name, uid.get(..5).unwrap_or(uid)),
            labels: pod.labels.clone().into_iter().collect(),
            container: "main".to_owned(),
            image: "simulated".to_owned(),
            phase: if pod.ready_at <= now {
                PodPhase::Running
            } else {
                PodPhase::starting()
            },
        };
        self.0.iter().map(view).collect()
    }
}

/// The conditions of a status, in the order in which they were first set.
#[derive(Debug, Default)]
pub struct Conditions(Vec<Value>);

impl Conditions {
    /// Sets a condition; its transition is when its status last changed.
    pub fn set(&mut self, kind: &str, holds: bool, reason: &str, now: Timestamp) {
        let status = if holds { "True" } else { "False" };
        let found = self.0.iter().position(|old| old["type"] == kind);
        let old = found.and_then(|index| self.0.get_mut(index));
        match old {
            Some(old) if old["status"] == status => old["reason"] = json!(reason),
            Some(old) => *old = condition(kind, status, reason, now),
            None => self.0.push(condition(kind, status, reason, now)),
        }
    }

    /// Returns whether a condition is `True`.
    pub fn holds(&self, kind: &str) -> bool {
        let holds = |one: &Value| one["type"] == kind && one["status"] == "True";
        self.0.iter().any(holds)
    }

    pub fn shown(&self) -> Value {
        json!(self.0)
    }
}

fn condition(kind: &str, status: &str, reason: &str, now: Timestamp) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": seconds(now)})
}
