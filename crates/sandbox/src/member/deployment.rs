//! A simulator of Kubernetes' Deployment controller, with the pods that a kubelet would run.
//!
//! Pods belong to the Deployment directly: no `ReplicaSet`s are made, and there is no revision history. An image whose
//! name or tag contains `broken` or `does-not-exist` can't be pulled.

use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use super::cache::Key;
use super::flink::is_broken_image;
use super::frame::{Beginning, Id, Life, Told};
use super::{Context, PodPhase, PodView, Timings, later};
use crate::clock::seconds;
use crate::ledger::{Group, Origin};

pub fn api_resource() -> ApiResource {
    ApiResource {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        plural: "deployments".to_owned(),
    }
}

/// What the controller has of all Deployments: how many pods it has made.
#[derive(Debug, Default)]
pub struct Controller {
    pods_made: u64,
}

impl Controller {
    /// Returns what tells the next pod from others of its template.
    fn suffix(&mut self, context: &Context) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.pods_made += 1;
        let mut rng = context.rng(u64::MAX - self.pods_made);
        let mut letter = || char::from(rng.choice(LETTERS).copied().unwrap_or(b'x'));
        (0..5).map(|_| letter()).collect()
    }
}

/// What of a Deployment's spec the controller acts on.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    generation: i64,
    replicas: usize,
    /// Tells templates apart.
    hash: String,
    container: String,
    image: String,
    labels: Vec<(String, String)>,
    surge: usize,
    unavailable: usize,
    recreate: bool,
    paused: bool,
    deadline: SignedDuration,
    /// The volume claim that makes the workload a stateful one.
    claim: Option<String>,
}

impl Spec {
    fn of(object: &DynamicObject) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let template = spec.get("template").unwrap_or(&Value::Null);
        let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let replicas = spec.get("replicas").and_then(number).unwrap_or(1);
        let rolling = |field: &str, up: bool| {
            let value = spec
                .pointer("/strategy/rollingUpdate")
                .and_then(|rolling| rolling.get(field));
            portion(value.unwrap_or(&json!("25%")), replicas, up)
        };
        let (surge, unavailable) = (rolling("maxSurge", true), rolling("maxUnavailable", false));
        let container = template.pointer("/spec/containers/0").unwrap_or(&Value::Null);
        let text = |field: &str| {
            container
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or("main")
                .to_owned()
        };
        let labels = template
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let volumes = template
            .pointer("/spec/volumes")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut claims =
            volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
        Self {
            generation: object.metadata.generation.unwrap_or_default(),
            replicas,
            hash: hash(&template.to_string()),
            container: text("name"),
            image: text("image"),
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            // One of them has to allow for progress.
            unavailable: if surge == 0 {
                unavailable.max(1)
            } else {
                unavailable
            },
            surge,
            recreate: spec.pointer("/strategy/type") == Some(&json!("Recreate")),
            paused: spec.get("paused") == Some(&Value::Bool(true)),
            deadline: SignedDuration::from_secs(
                spec.get("progressDeadlineSeconds")
                    .and_then(Value::as_i64)
                    .unwrap_or(600),
            ),
            claim: claims.next().map(str::to_owned),
        }
    }

    /// Returns what is left to do for a Deployment that is gone.
    fn ended(&self) -> Self {
        Self {
            replicas: 0,
            paused: false,
            ..self.clone()
        }
    }
}

/// Reads `maxSurge` or `maxUnavailable`: a number, or a percentage of the replicas.
fn portion(value: &Value, replicas: usize, round_up: bool) -> usize {
    let percent = value
        .as_str()
        .and_then(|text| text.strip_suffix('%')?.parse::<usize>().ok());
    match percent {
        Some(percent) if round_up => (replicas * percent).div_ceil(100),
        Some(percent) => replicas * percent / 100,
        None => value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    }
}

/// FNV-1a, ten hexadecimal digits.
fn hash(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!(
        "{:010x}",
        text.bytes().fold(0xcbf2_9ce4_8422_2325, mix) & 0xff_ffff_ffff
    )
}

#[derive(Clone, Debug, PartialEq)]
struct PodState {
    suffix: String,
    hash: String,
    image: String,
    container: String,
    labels: Vec<(String, String)>,
    created_at: Timestamp,
    /// `None` for an image that can't be pulled.
    ready_at: Option<Timestamp>,
    gone_at: Option<Timestamp>,
}

impl PodState {
    fn is_ready(&self, now: Timestamp) -> bool {
        self.ready_at.is_some_and(|ready| ready <= now)
    }

    fn is_live(&self) -> bool {
        self.gone_at.is_none()
    }
}

/// One Deployment's pods as a function of time.
#[derive(Debug)]
pub struct Rollout {
    spec: Spec,
    pods: Vec<PodState>,
    /// When something last got better.
    progressed_at: Option<Timestamp>,
    best: (usize, usize),
    conditions: Vec<Value>,
}

impl Rollout {
    fn new(spec: Spec) -> Self {
        Self {
            spec,
            pods: Vec::new(),
            progressed_at: None,
            best: (0, 0),
            conditions: Vec::new(),
        }
    }

    /// Removes pods that are gone, then makes and ends as many as the strategy allows.
    fn roll(&mut self, spec: Spec, now: Timestamp, timings: &Timings, name: &mut dyn FnMut() -> String) {
        if spec.hash != self.spec.hash || spec.replicas != self.spec.replicas || self.progressed_at.is_none()
        {
            self.progressed_at = Some(now);
            self.best = (0, 0);
        }
        self.spec = spec;
        self.pods.retain(|pod| pod.gone_at.is_none_or(|gone| gone > now));
        let gone_at = later(now, timings.teardown);
        let current = |pod: &PodState, spec: &Spec| pod.hash == spec.hash;
        let new = self.count(|pod| current(pod, &self.spec));
        let old = self.count(|pod| !current(pod, &self.spec));
        let replicas = self.spec.replicas;
        let hash = self.spec.hash.clone();
        self.end(new.saturating_sub(replicas), gone_at, now, |pod| pod.hash == hash);
        if self.spec.recreate || replicas == 0 {
            self.end(old, gone_at, now, |pod| pod.hash != hash);
        } else {
            let available = self.count(|pod| pod.is_ready(now));
            let spare = available.saturating_sub(replicas.saturating_sub(self.spec.unavailable));
            let unready = self.count(|pod| pod.hash != hash && !pod.is_ready(now));
            self.end(unready + spare.min(old - unready.min(old)), gone_at, now, |pod| {
                pod.hash != hash
            });
        }
        let waits = self.spec.paused || (self.spec.recreate && self.pods.iter().any(|pod| pod.hash != hash));
        let live = self.count(|_| true);
        let room = (replicas + self.spec.surge).saturating_sub(live);
        let missing = if waits {
            0
        } else {
            replicas.saturating_sub(new).min(room)
        };
        for _ in 0..missing {
            self.pods.push(PodState {
                suffix: format!("{hash}-{}", name()),
                hash: hash.clone(),
                image: self.spec.image.clone(),
                container: self.spec.container.clone(),
                labels: self.spec.labels.clone(),
                created_at: now,
                ready_at: (!is_broken_image(&self.spec.image)).then(|| later(now, timings.pod_start)),
                gone_at: None,
            });
        }
        let reached = (
            self.count(|pod| pod.hash == hash),
            self.count(|pod| pod.hash == hash && pod.is_ready(now)),
        );
        if reached > self.best {
            (self.best, self.progressed_at) = (reached, Some(now));
        }
    }

    /// Ends up to `count` live pods of those chosen, unready ones first.
    fn end(&mut self, count: usize, gone_at: Timestamp, now: Timestamp, chosen: impl Fn(&PodState) -> bool) {
        let mut candidates: Vec<_> = self
            .pods
            .iter_mut()
            .filter(|pod| pod.is_live() && chosen(pod))
            .collect();
        candidates.sort_by_key(|pod| pod.is_ready(now));
        for pod in candidates.into_iter().take(count) {
            pod.gone_at = Some(gone_at);
        }
    }

    fn count(&self, chosen: impl Fn(&PodState) -> bool) -> usize {
        self.pods
            .iter()
            .filter(|pod| pod.is_live() && chosen(pod))
            .count()
    }

    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let pods = self
            .pods
            .iter()
            .flat_map(|pod| [pod.ready_at, pod.gone_at])
            .flatten();
        let deadline = (!self.is_complete(now)).then(|| self.deadline()).flatten();
        pods.chain(deadline).filter(|at| *at > now).min()
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.progressed_at?.saturating_add(self.spec.deadline).ok()
    }

    fn is_complete(&self, now: Timestamp) -> bool {
        let updated = self.count(|pod| pod.hash == self.spec.hash && pod.is_ready(now));
        updated == self.spec.replicas && self.count(|_| true) == updated
    }

    fn views(&self, (namespace, name): &Key, now: Timestamp) -> Vec<PodView> {
        let view = |pod: &PodState| PodView {
            restarts: 0,
            namespace: namespace.clone(),
            name: format!("{name}-{}", pod.suffix),
            labels: pod.labels.clone(),
            container: pod.container.clone(),
            image: pod.image.clone(),
            phase: match pod.ready_at {
                Some(ready) if ready <= now => PodPhase::Running,
                Some(_) => PodPhase::starting(),
                None => PodPhase::Waiting {
                    reason: "ImagePullBackOff",
                    message: format!("Back-off pulling image \"{}\"", pod.image),
                },
            },
        };
        self.pods.iter().map(view).collect()
    }

    fn status(&mut self, now: Timestamp) -> Value {
        let (spec, live) = (&self.spec, self.count(|_| true));
        let ready = self.count(|pod| pod.is_ready(now));
        let updated = self.count(|pod| pod.hash == spec.hash);
        let available = ready >= spec.replicas.saturating_sub(spec.unavailable);
        let (is_available, why) = if available {
            ("True", "MinimumReplicasAvailable")
        } else {
            ("False", "MinimumReplicasUnavailable")
        };
        let late = self.deadline().is_some_and(|deadline| deadline <= now);
        let (progressing, reason) = match (self.is_complete(now), late) {
            (true, _) => ("True", "NewReplicaSetAvailable"),
            (false, true) => ("False", "ProgressDeadlineExceeded"),
            (false, false) => ("True", "ReplicaSetUpdated"),
        };
        let (replicas, generation) = (spec.replicas, spec.generation);
        self.conditions = vec![
            self.condition("Available", is_available, why, now),
            self.condition("Progressing", progressing, reason, now),
        ];
        // Null takes a number away that is zero, as the controller omits it.
        let some = |n: usize| if n == 0 { Value::Null } else { json!(n) };
        let mut status = json!({
            "observedGeneration": generation,
            "replicas": some(live),
            "updatedReplicas": some(updated),
            "readyReplicas": some(ready),
            "availableReplicas": some(ready),
            "unavailableReplicas": some(replicas.saturating_sub(ready)),
            "conditions": self.conditions,
        });
        if let Some(fields) = status.as_object_mut() {
            fields.sort_keys();
        }
        status
    }

    fn condition(&self, kind: &str, status: &str, reason: &str, now: Timestamp) -> Value {
        let old = self.conditions.iter().find(|old| old["type"] == kind);
        let now = json!(seconds(now));
        let same = |old: &&Value| old["status"] == status;
        let transition = old.filter(same).map_or(&now, |old| &old["lastTransitionTime"]);
        let update = old
            .filter(|old| same(old) && old["reason"] == reason)
            .map_or(&now, |old| &old["lastUpdateTime"]);
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": transition, "lastUpdateTime": update,
        })
    }
}

impl Life for Rollout {
    type Operator = Controller;
    type Seen = Spec;

    fn see(object: DynamicObject) -> Spec {
        Spec::of(&object)
    }

    fn begin(spec: &Spec) -> Self {
        Self::new(spec.clone())
    }

    fn advance(
        &mut self,
        controller: &mut Controller,
        seen: Option<&Spec>,
        context: &Context,
        now: Timestamp,
    ) {
        let spec = seen.map_or_else(|| self.spec.ended(), Clone::clone);
        let mut name = || controller.suffix(context);
        self.roll(spec, now, &context.timings, &mut name);
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        self.due(now).unwrap_or(Timestamp::MAX)
    }

    fn is_over(&self) -> bool {
        self.pods.is_empty()
    }

    fn can_write(&self, now: Timestamp) -> bool {
        self.pods.iter().any(|pod| pod.is_ready(now))
    }

    fn beginning(&mut self, context: &Context, (namespace, _): &Key, _: Timestamp) -> Beginning {
        let (group, from) = match &self.spec.claim {
            Some(claim) => {
                let volume = format!("{}/{namespace}/{claim}", context.cluster);
                (Group::Stateful, Origin::Volume(volume))
            }
            None => (Group::Stateless, Origin::Empty),
        };
        Beginning {
            group,
            from,
            writes: 0,
        }
    }

    fn pods(&self, _: &Controller, (key, _): &Id, now: Timestamp) -> Vec<PodView> {
        self.views(key, now)
    }

    fn tell(&mut self, _: &Controller, now: Timestamp) -> Told {
        Told::status(self.status(now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn spec(replicas: u32, image: &str) -> Spec {
        let mut object = DynamicObject::new("web", &api_resource());
        object.metadata.generation = Some(1);
        object.data = json!({"spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "web", "image": image}]}},
        }});
        Spec::of(&object)
    }

    fn advance(rollout: &mut Rollout, spec: &Spec, millis: i64) -> Value {
        let timings = Timings {
            pod_start: Duration::from_millis(100),
            teardown: Duration::from_millis(200),
            ..Timings::default()
        };
        let mut n = rollout.pods.len();
        let mut name = || {
            n += 1;
            n.to_string()
        };
        rollout.roll(spec.clone(), at(millis), &timings, &mut name);
        rollout.status(at(millis))
    }

    #[test]
    fn replicas_become_available_when_their_pods_have_started() {
        let spec = spec(3, "web:1");
        let mut rollout = Rollout::new(spec.clone());
        let status = advance(&mut rollout, &spec, 0);
        assert_eq!(
            (&status["replicas"], &status["availableReplicas"]),
            (&json!(3), &Value::Null)
        );
        assert_eq!(status["conditions"][0]["status"], "False");
        let status = advance(&mut rollout, &spec, 100);
        assert_eq!(
            (&status["availableReplicas"], &status["unavailableReplicas"]),
            (&json!(3), &Value::Null)
        );
        assert_eq!(status["conditions"][1]["reason"], "NewReplicaSetAvailable");
    }

    #[test]
    fn a_rolling_update_never_goes_below_what_has_to_be_available() {
        let (old, new) = (spec(4, "web:1"), spec(4, "web:2"));
        let mut rollout = Rollout::new(old.clone());
        advance(&mut rollout, &old, 0);
        advance(&mut rollout, &old, 100);
        let mut now = 200;
        loop {
            let status = advance(&mut rollout, &new, now);
            assert!(status["availableReplicas"].as_u64() >= Some(3), "{status}");
            assert!(status["replicas"].as_u64() <= Some(5), "{status}");
            match rollout.due(at(now)).filter(|_| !rollout.is_complete(at(now))) {
                Some(next) => now = next.as_millisecond(),
                None => break,
            }
        }
        assert!(rollout.is_complete(at(now)));
        assert!(
            rollout
                .pods
                .iter()
                .filter(|pod| pod.is_live())
                .all(|pod| pod.image == "web:2")
        );
    }

    #[test]
    fn a_broken_image_never_becomes_ready_and_misses_its_deadline() {
        let spec = spec(1, "web:broken");
        let mut rollout = Rollout::new(spec.clone());
        advance(&mut rollout, &spec, 0);
        assert_eq!(
            advance(&mut rollout, &spec, 599_999)["conditions"][1]["status"],
            "True"
        );
        let status = advance(&mut rollout, &spec, 600_000);
        assert_eq!(status["conditions"][1]["reason"], "ProgressDeadlineExceeded");
        assert_eq!(status["readyReplicas"], Value::Null);
    }

    #[test]
    fn pods_of_an_ended_deployment_work_until_they_are_gone() {
        let spec = spec(2, "web:1");
        let mut rollout = Rollout::new(spec.clone());
        advance(&mut rollout, &spec, 0);
        advance(&mut rollout, &spec, 100);
        advance(&mut rollout, &spec.ended(), 300);
        assert!(rollout.pods.iter().all(|pod| pod.is_ready(at(300))));
        advance(&mut rollout, &spec.ended(), 500);
        assert!(rollout.pods.is_empty());
    }
}
