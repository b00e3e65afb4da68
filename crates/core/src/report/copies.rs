//! What runs where: the copies of workloads in the members, as Karmada's bindings and the claims of intents have them.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::names;
use crate::api::{Claim, Intent, WorkloadRef};
use crate::redact;
use cutover_karmada::meta::BINDING_ID;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{AggregatedStatus, Health, ResourceBinding};

/// The most characters of a member's own words that are kept.
const MOST_WORDS: usize = 400;
/// The conditions by which a workload says that it is well.
const READY: [&str; 2] = ["Ready", "Available"];

/// What runs where, as far as that could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    pub workloads: Vec<WorkloadCopies>,
    /// Why nothing is known of it.
    pub unknown: Option<String>,
}

/// A workload, and each cluster that it runs in, is to run in, or leaves.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadCopies {
    #[serde(flatten)]
    pub(super) key: WorkloadKey,
    /// The intent that has claimed it.
    pub(super) claimed_by: Option<String>,
    /// Since when every chosen cluster has what the template says.
    pub(super) applied_since: Option<Timestamp>,
    pub(super) clusters: Vec<MemberCopy>,
}

/// Which workload is meant, as people and intents name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadKey {
    /// Empty for a kind of cluster scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// A copy in one member.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberCopy {
    pub(super) cluster: String,
    pub(super) state: CopyState,
    /// What the member, or Karmada, says of a copy that isn't healthy, in its own words.
    pub(super) message: Option<String>,
    /// Since when a healthy copy has been running or ready, where the copy itself says so.
    pub(super) since: Option<Timestamp>,
}

/// A workload, and the clusters in which its copy is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthyWorkload {
    #[serde(flatten)]
    pub(super) workload: WorkloadKey,
    pub(super) clusters: Vec<String>,
}

/// The clusters in which a migration starts or stops the copy of a workload right now.
pub(super) type Moving = BTreeMap<WorkloadKey, BTreeSet<String>>;

/// How a copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CopyState {
    /// Karmada's interpreter finds it healthy.
    Healthy,
    /// The member has it; whether it is healthy isn't known.
    Applied,
    Unhealthy,
    /// It is not healthy, and a migration starts or stops it right now.
    Moving,
    /// The member hasn't taken what the template says.
    NotApplied,
    /// The cluster is chosen, and nothing is known of a copy there.
    Unreported,
    /// The claim on the workload lets another cluster run it, or none.
    Held,
    /// The cluster isn't chosen any more, and still reports a copy.
    Leaving,
    /// Karmada reports it as healthy, and the intent that has told it to stop has not seen it run since.
    Unconfirmed,
    /// Its cluster can't be reached: what Karmada reports is from before.
    Unknown,
}

impl Copies {
    /// Returns that nothing is known, and why.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            workloads: Vec::new(),
            unknown: Some(why.into()),
        }
    }

    /// Reads bindings and claims. One that has another form than this release knows leaves everything unknown: a shorter list would
    /// look like all there is, and a copy whose claim isn't known like one that may run.
    pub fn of(bindings: &[impl Borrow<Value>], claims: &[impl Borrow<Value>]) -> Self {
        let (claims, bindings) = match (read::<Claim>(claims), read::<ResourceBinding>(bindings)) {
            (Ok(claims), Ok(bindings)) => (claims, bindings),
            (Err(error), _) => return Self::unknown(format!("a Claim cannot be read: {error}")),
            (_, Err(error)) => return Self::unknown(format!("a ResourceBinding cannot be read: {error}")),
        };
        Self::among(&bindings, &claims)
    }

    /// Returns what bindings and claims say.
    pub fn among(bindings: &[ResourceBinding], claims: &[Claim]) -> Self {
        let claims: HashMap<&str, &Claim> = claims
            .iter()
            .rev()
            .map(|claim| (claim.spec.binding_id.as_str(), claim))
            .collect();
        let mut workloads: Vec<_> = bindings
            .iter()
            .map(|binding| WorkloadCopies::of(binding, &claims))
            .collect();
        workloads.sort_by(|one, other| one.order().cmp(&other.order()));
        Self {
            workloads,
            unknown: None,
        }
    }

    /// Takes in which clusters cannot be reached: what is reported of copies there is from before.
    #[must_use]
    pub fn in_clusters(mut self, clusters: &[impl Borrow<Value>]) -> Self {
        let mut lost = clusters
            .iter()
            .map(Borrow::borrow)
            .filter(|cluster| !is_ready(cluster));
        let lost: Vec<String> = lost
            .by_ref()
            .filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        let copies = self.workloads.iter_mut().flat_map(|one| &mut one.clusters);
        for copy in copies.filter(|copy| lost.contains(&copy.cluster)) {
            (copy.state, copy.message, copy.since) = (CopyState::Unknown, None, None);
        }
        self
    }

    /// Takes in of which workloads nobody was seen running since one was told to stop.
    pub(super) fn confirm(&mut self, down: &BTreeSet<WorkloadKey>) {
        let workloads = self.workloads.iter_mut().filter(|one| down.contains(&one.key));
        let copies = workloads.flat_map(|one| &mut one.clusters);
        for copy in copies.filter(|copy| copy.state == CopyState::Healthy) {
            (copy.state, copy.since) = (CopyState::Unconfirmed, None);
        }
    }

    /// Takes in which copies migrations start or stop right now: that these are not healthy yet is as it should be.
    pub(super) fn take_in_moves(&mut self, moving: &Moving) {
        for one in &mut self.workloads {
            let Some(clusters) = moving.get(&one.key) else {
                continue;
            };
            let copies = one.clusters.iter_mut();
            for copy in copies.filter(|copy| clusters.contains(&copy.cluster)) {
                if copy.state == CopyState::Unhealthy {
                    copy.state = CopyState::Moving;
                }
            }
        }
    }

    /// Returns the workloads with a copy that is not as it should be.
    pub fn unhealthy(&self) -> Vec<UnhealthyWorkload> {
        let unhealthy = self.workloads.iter().filter(|one| one.is_unhealthy());
        unhealthy
            .map(|one| {
                let clusters = one.clusters.iter().filter(|copy| copy.state.is_unhealthy());
                UnhealthyWorkload {
                    workload: one.key.clone(),
                    clusters: clusters.map(|copy| copy.cluster.clone()).collect(),
                }
            })
            .collect()
    }

    /// Returns how many workloads have a copy that is not as it should be.
    pub(super) fn unhealthy_count(&self) -> usize {
        self.workloads.iter().filter(|one| one.is_unhealthy()).count()
    }
}

/// A cluster that has said nothing yet counts as one that can be reached.
fn is_ready(cluster: &Value) -> bool {
    let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
    let mut all = conditions.into_iter().flatten();
    all.find(|condition| condition["type"] == "Ready")
        .is_none_or(|condition| condition["status"] == "True")
}

fn read<T: DeserializeOwned>(objects: &[impl Borrow<Value>]) -> Result<Vec<T>, serde_json::Error> {
    let read = |object: &Value| T::deserialize(object);
    objects.iter().map(|object| read(object.borrow())).collect()
}

impl WorkloadCopies {
    fn of(binding: &ResourceBinding, claims: &HashMap<&str, &Claim>) -> Self {
        let resource = &binding.spec.resource;
        let id = binding
            .metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(BINDING_ID));
        let claim = id.and_then(|id| claims.get(id.as_str()).copied());
        let status = binding.status.as_ref();
        let reports = status.map_or(&[][..], |status| &status.aggregated_status);
        let chosen: Vec<ClusterName> = binding
            .spec
            .synced_clusters()
            .into_iter()
            .map(|cluster| cluster.name)
            .collect();
        let report = |name: &ClusterName| reports.iter().find(|report| report.cluster_name == *name);
        let left = reports
            .iter()
            .filter(|report| !chosen.contains(&report.cluster_name));
        let copies = chosen
            .iter()
            .map(|name| MemberCopy::chosen(name, report(name), claim))
            .chain(left.map(MemberCopy::leaving));
        let applied = status.and_then(|status| {
            let mut all = status.conditions.iter();
            all.find(|condition| condition.type_ == "FullyApplied" && condition.status == "True")
        });
        Self {
            key: WorkloadKey::new(&resource.namespace, &resource.kind, &resource.name),
            claimed_by: claim.map(|claim| claim.spec.owner.to_string()),
            applied_since: applied.map(|condition| condition.last_transition_time.0),
            clusters: copies.collect(),
        }
    }

    fn order(&self) -> (bool, &WorkloadKey) {
        (!self.is_unhealthy(), &self.key)
    }

    /// Returns whether a copy isn't as it should be.
    pub(super) fn is_unhealthy(&self) -> bool {
        self.clusters.iter().any(|copy| copy.state.is_unhealthy())
    }
}

impl WorkloadKey {
    pub(super) fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the workload that an intent refers to, which is in its namespace.
    pub(super) fn of<I: Intent>(intent: &I, workload: &WorkloadRef) -> Self {
        Self::new(names(intent).0, &workload.kind, &workload.name)
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl UnhealthyWorkload {
    /// Returns the same in those of its clusters that are wanted, if there are any.
    fn only(mut self, wanted: impl Fn(&String) -> bool) -> Option<Self> {
        self.clusters.retain(wanted);
        (!self.clusters.is_empty()).then_some(self)
    }

    /// Returns the same as far as it was so before, too.
    pub fn as_before(self, before: &[Self]) -> Option<Self> {
        let before = before.iter().find(|one| one.workload == self.workload)?;
        self.only(|cluster| before.clusters.contains(cluster))
    }

    /// Returns the same without the copies that migrations start or stop right now.
    pub(super) fn at_rest(self, moving: &Moving) -> Option<Self> {
        match moving.get(&self.workload) {
            Some(clusters) => self.only(|cluster| !clusters.contains(cluster)),
            None => Some(self),
        }
    }
}

impl fmt::Display for UnhealthyWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.workload, self.clusters.join(", "))
    }
}

impl CopyState {
    pub(super) const fn is_unhealthy(self) -> bool {
        matches!(self, Self::Unhealthy | Self::NotApplied | Self::Unknown)
    }

    /// Returns the state in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Applied => "applied, health not known",
            Self::Unhealthy => "not healthy",
            Self::Moving => "moving, not healthy yet",
            Self::NotApplied => "not applied",
            Self::Unreported => "no status yet",
            Self::Held => "held",
            Self::Leaving => "leaving",
            Self::Unconfirmed => "not seen running yet",
            Self::Unknown => "not known: its cluster cannot be reached",
        }
    }
}

impl MemberCopy {
    fn chosen(name: &ClusterName, report: Option<&AggregatedStatus>, claim: Option<&Claim>) -> Self {
        let may_run = claim.is_none_or(|claim| claim.spec.shared || claim.spec.writer.as_ref() == Some(name));
        let state = match report {
            _ if !may_run => CopyState::Held,
            None => CopyState::Unreported,
            Some(report) if !report.applied => CopyState::NotApplied,
            Some(report) => match report.health {
                Some(Health::Healthy) => CopyState::Healthy,
                Some(Health::Unhealthy) => CopyState::Unhealthy,
                Some(Health::Unknown) | None => CopyState::Applied,
            },
        };
        let status = report.and_then(|report| report.status.as_ref());
        let message = match (state, report) {
            (CopyState::NotApplied, Some(report)) => Some(report.applied_message.clone()),
            (CopyState::Unhealthy, _) => status.and_then(own_words),
            _ => None,
        };
        Self {
            cluster: name.to_string(),
            state,
            message: message.filter(|text| !text.is_empty()).map(|text| kept(&text)),
            since: status.filter(|_| state == CopyState::Healthy).and_then(since),
        }
    }

    fn leaving(report: &AggregatedStatus) -> Self {
        Self {
            cluster: report.cluster_name.to_string(),
            state: CopyState::Leaving,
            message: None,
            since: None,
        }
    }
}

/// Returns what a status says of why its object isn't well: an operator's error, a condition that doesn't hold, a state, numbers.
fn own_words(status: &Value) -> Option<String> {
    let text = |pointer: &str| {
        let text = status.pointer(pointer).and_then(Value::as_str)?;
        Some(text.to_owned()).filter(|text| !text.is_empty())
    };
    text("/error")
        .map(|error| message_within(&error))
        .or_else(|| unmet_condition(status))
        .or_else(|| text("/message"))
        .or_else(|| text("/reason"))
        .or_else(|| text("/jobStatus/state").map(|state| format!("its job is {state}")))
        .or_else(|| text("/phase").map(|phase| format!("its phase is {phase}")))
        .or_else(|| ready_of(status))
}

/// Flink's operator writes its error as the JSON text of an exception.
fn message_within(error: &str) -> String {
    let read: Option<Value> = serde_json::from_str(error).ok();
    let message = read.as_ref().and_then(|read| read["message"].as_str());
    message.unwrap_or(error).to_owned()
}

fn is_about_readiness(condition: &Value) -> bool {
    let kind = condition["type"].as_str();
    kind.is_some_and(|kind| READY.contains(&kind))
}

fn unmet_condition(status: &Value) -> Option<String> {
    let conditions = status["conditions"].as_array()?;
    let mut unmet: Vec<&Value> = conditions
        .iter()
        .filter(|condition| condition["status"] == "False")
        .collect();
    unmet.sort_by_key(|condition| !is_about_readiness(condition));
    let first = unmet.first()?;
    let part = |field: &str| first[field].as_str().filter(|text| !text.is_empty());
    match (part("reason"), part("message")) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (Some(only), None) | (None, Some(only)) => Some(only.to_owned()),
        (None, None) => Some(format!("{} is False", part("type")?)),
    }
}

fn ready_of(status: &Value) -> Option<String> {
    let all = status["replicas"].as_u64()?;
    let ready = status["readyReplicas"].as_u64().unwrap_or_default();
    Some(format!("{ready} of {all} replicas ready"))
}

/// Since when a healthy copy says that it is: its condition, or the start of a Flink job, in milliseconds.
fn since(status: &Value) -> Option<Timestamp> {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut ready =
        conditions.filter(|condition| condition["status"] == "True" && is_about_readiness(condition));
    let at = ready.find_map(|condition| condition["lastTransitionTime"].as_str()?.parse().ok());
    at.or_else(|| {
        let start = status.pointer("/jobStatus/startTime")?.as_str()?;
        Timestamp::from_millisecond(start.parse().ok()?).ok()
    })
}

/// Returns words of others without secrets, on one line, and not without end.
fn kept(words: &str) -> String {
    let words = redact::text(words);
    let one_line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(MOST_WORDS) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NONE: &[Value] = &[];

    fn binding(clusters: &[&str], reports: Value) -> Value {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "orders-flinkdeployment", "namespace": "shop", "labels": {BINDING_ID: "b1"}},
            "spec": {
                "resource": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": "orders"},
                "clusters": clusters,
            },
            "status": {"aggregatedStatus": reports},
        })
    }

    fn claim(writer: Option<&str>) -> Value {
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim", "metadata": {"name": "c"},
            "spec": {
                "workload": "FlinkDeployment.flink.apache.org shop/orders", "bindingId": "b1", "attempt": 1, "seq": 1, "marker": "m",
                "owner": {"kind": "Migration", "namespace": "shop", "name": "orders-to-west", "uid": "u"},
                "writer": writer, "clusters": ["east", "west"],
            },
        })
    }

    fn states(copies: &Copies) -> Vec<(&str, CopyState, Option<&str>)> {
        let all = copies.workloads.iter().flat_map(|one| &one.clusters);
        all.map(|copy| (copy.cluster.as_str(), copy.state, copy.message.as_deref()))
            .collect()
    }

    #[test]
    fn a_copy_is_healthy_only_where_that_was_reported() {
        let reports = json!([
            {"clusterName": "east", "applied": true, "health": "Healthy", "status": {"jobStatus": {"startTime": "1772359200000"}}},
            {"clusterName": "west", "applied": true, "health": "Unknown"},
            {"clusterName": "north", "applied": false, "appliedMessage": "denied:\n no quota"},
            {"clusterName": "gone", "applied": true, "health": "Healthy"},
        ]);
        let copies = Copies::of(&[binding(&["east", "west", "north", "south"], reports)], NONE);
        assert_eq!(
            states(&copies),
            [
                ("east", CopyState::Healthy, None),
                ("west", CopyState::Applied, None),
                ("north", CopyState::NotApplied, Some("denied: no quota")),
                ("south", CopyState::Unreported, None),
                ("gone", CopyState::Leaving, None),
            ]
        );
        assert_eq!(
            copies.workloads[0].clusters[0].since.map(Timestamp::as_second),
            Some(1_772_359_200)
        );
        assert_eq!(copies.unhealthy_count(), 1);
    }

    #[test]
    fn a_copy_that_the_claim_lets_not_run_is_held_whatever_is_reported_of_it() {
        let reports = json!([
            {"clusterName": "east", "applied": true, "health": "Healthy"},
            {"clusterName": "west", "applied": true, "health": "Unhealthy"},
        ]);
        let both = [binding(&["east", "west"], reports)];
        let state = |writer| {
            states(&Copies::of(&both, &[claim(writer)]))
                .iter()
                .map(|one| one.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(state(Some("east")), [CopyState::Healthy, CopyState::Held]);
        assert_eq!(state(None), [CopyState::Held, CopyState::Held]);
    }

    #[test]
    fn what_karmada_reports_of_a_cluster_that_is_lost_or_of_a_job_that_was_told_to_stop_is_not_believed() {
        let reports = json!([
            {"clusterName": "east", "applied": true, "health": "Healthy"},
            {"clusterName": "west", "applied": true, "health": "Healthy"},
        ]);
        let cluster = |name: &str, ready: &str| json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let clusters = [
            cluster("east", "True"),
            cluster("west", "Unknown"),
            json!({"metadata": {"name": "north"}}),
        ];
        let mut copies =
            Copies::of(&[binding(&["east", "west", "north"], reports)], NONE).in_clusters(&clusters);
        let all = |copies: &Copies| states(copies).iter().map(|one| one.1).collect::<Vec<_>>();
        assert_eq!(
            all(&copies),
            [CopyState::Healthy, CopyState::Unknown, CopyState::Unreported]
        );
        assert_eq!(copies.unhealthy_count(), 1);
        copies.confirm(&BTreeSet::from([copies.workloads[0].key.clone()]));
        assert_eq!(
            all(&copies),
            [CopyState::Unconfirmed, CopyState::Unknown, CopyState::Unreported]
        );
    }

    #[test]
    fn a_copy_that_a_migration_starts_or_stops_is_moving_and_not_unhealthy() {
        let reports = json!([
            {"clusterName": "east", "applied": true, "health": "Unhealthy"},
            {"clusterName": "west", "applied": true, "health": "Unhealthy"},
        ]);
        let mut copies = Copies::of(&[binding(&["east", "west"], reports)], NONE);
        let said = |copies: &Copies| {
            let all = copies.unhealthy();
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(said(&copies), ["FlinkDeployment shop/orders in east, west"]);
        let key = copies.workloads[0].key.clone();
        let moving = |clusters: &[&str]| {
            let clusters = clusters.iter().map(|&cluster| cluster.to_owned()).collect();
            Moving::from([(key.clone(), clusters)])
        };
        let all = copies.unhealthy().remove(0);
        let rest = all.clone().at_rest(&moving(&["west"]));
        assert_eq!(
            rest.as_ref().map(ToString::to_string).as_deref(),
            Some("FlinkDeployment shop/orders in east")
        );
        assert_eq!(all.clone().at_rest(&moving(&["east", "west"])), None);
        let before: Vec<_> = rest.clone().into_iter().collect();
        assert_eq!((all.clone().as_before(&before), all.as_before(&[])), (rest, None));
        copies.take_in_moves(&moving(&["west"]));
        assert_eq!(said(&copies), ["FlinkDeployment shop/orders in east"]);
        copies.take_in_moves(&moving(&["east"]));
        assert_eq!((said(&copies), copies.unhealthy_count()), (Vec::new(), 0));
    }

    #[test]
    fn what_is_not_healthy_is_told_in_the_members_own_words() {
        let words = |status: Value| own_words(&status);
        let error =
            json!({"error": "{\"type\":\"x\",\"message\":\"Back-off pulling image \\\"orders:2\\\"\"}"});
        assert_eq!(
            words(error).as_deref(),
            Some("Back-off pulling image \"orders:2\"")
        );
        let conditions = json!({"conditions": [
            {"type": "Progressing", "status": "False", "reason": "Slow"},
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "too few"},
        ]});
        assert_eq!(
            words(conditions).as_deref(),
            Some("MinimumReplicasUnavailable: too few")
        );
        assert_eq!(
            words(json!({"replicas": 3, "readyReplicas": 1})).as_deref(),
            Some("1 of 3 replicas ready")
        );
        assert_eq!(words(json!({})), None);
    }

    #[test]
    fn a_binding_that_cannot_be_read_leaves_everything_unknown() {
        let copies = Copies::of(&[json!({"spec": 1})], NONE);
        assert!(copies.workloads.is_empty() && copies.unknown.is_some());
    }
}
