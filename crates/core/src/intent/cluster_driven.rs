//! Evacuations that a member cluster sets off: by a `NoExecute` taint, its deletion or a cordon.
//!
//! A cause is answered once. The answer stands in an annotation of cutover's own on the Cluster: it names the Evacuation before that is
//! created, and says afterwards that it may begin. What is created late, by a process that has been replaced, does nothing.

mod problems;
mod protection;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::child;
use super::driven::{self, OVERTAKEN_ANNOTATION, SYNC_ANNOTATION};
use super::effect::{add, entry_path, remove, set_entry};
use super::record::digest;
use super::taint_eviction::{deletion, described};
use crate::api::{
    self, CORDON_PREFIX, EvacuationSpec, Intent, MovesGate, MovesPhase, MovesSpec, Selection, TaintMatch,
    Unmovable, WAITS_ANNOTATION,
};
use crate::config::{EvacuationCause, Evacuations, EvacuationsMode};
use crate::profile::Immovable;
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, Placement, Taint, meta};
use problems::may_be_evicted;
pub use problems::{Problem, problems};
pub use protection::protections;

/// On a Cluster: which causes were answered, and by which Evacuation, as JSON.
pub const ANSWER_ANNOTATION: &str = "cutover.dev/evacuation-answer";
/// On an Evacuation that a cluster set off: the uid of that cluster, and the Evacuation's own name.
const CLUSTER_ANNOTATION: &str = "cutover.dev/cluster-uid";
/// On such an Evacuation: the digest of the spec that it was created with.
const SPEC_ANNOTATION: &str = "cutover.dev/asked-for";
/// For people: what of the cluster it was.
const BECAUSE_ANNOTATION: &str = "cutover.dev/because";

/// How much of the name of a cluster goes into the name of its Evacuation.
const PART: usize = 32;
const EVERY_CAUSE: [EvacuationCause; 3] = [
    EvacuationCause::NoExecute,
    EvacuationCause::Deletion,
    EvacuationCause::Cordon,
];

/// A workload with state, as far as this depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub key: ObjectKey,
    /// Where it runs.
    pub clusters: Vec<ClusterName>,
    /// From where it is being evicted: a copy may be there still.
    pub leaving: Vec<ClusterName>,
    /// What its policy says.
    pub placement: Placement,
    /// What Karmada's taint manager goes by.
    pub applied: Placement,
    /// The guard of a `FailoverPlan` stands.
    pub is_guarded: bool,
    /// Why neither a Migration nor a `FailoverPlan` keeps its state, where its kind is one of those.
    pub immovable: Option<&'static Immovable>,
}

/// What a decision is made on: everything as it is now.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub clusters: &'a [Value],
    pub evacuations: &'a [Value],
    pub workloads: &'a [Workload],
    pub settings: &'a Evacuations,
    /// What [`driven::sync_id`] says of the sync.
    pub sync: &'a str,
    pub now: Timestamp,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A Cluster gets another answer, or none, or it is protected from deletion, or no longer.
    Answer(Change),
    Create(Box<Value>),
    /// An Evacuation may begin, or is called off.
    Change(Change),
    /// An Evacuation goes. `patch` is empty.
    Delete(Change),
}

/// A change of an object, exactly as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub read: Box<Value>,
    pub patch: Vec<Value>,
    /// What it means, for people.
    pub what: String,
}

/// What was answered for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// The uid of the cluster.
    cluster: String,
    /// The causes that are answered.
    causes: Vec<String>,
    /// The sync that has answered.
    sync: String,
    /// What carries it out.
    evacuation: String,
    /// That was created, and may begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    created: bool,
}

/// Returns the next step of each cluster, and of each Evacuation whose cluster has left; to be asked again when they are done. None:
/// all is as it should be, or something else has to come first.
pub fn steps(view: &View<'_>) -> Vec<Step> {
    let orphans = view.evacuations.iter().map(|one| orphaned(view, one));
    let clusters = view.clusters.iter().filter_map(Member::of);
    let steps = clusters.map(|member| step(view, &member));
    orphans.chain(steps).flatten().collect()
}

/// Returns whether the next step depends on what runs in the clusters.
pub fn depends_on_workloads(clusters: &[Value], settings: &Evacuations) -> bool {
    let mut members = clusters.iter().filter_map(Member::of);
    members.any(|member| !member.causes(&settings.causes).is_empty())
}

/// Returns whether something may have to be done that no change of a Cluster or of an Evacuation tells of. `problems`: of that view.
pub fn is_open(view: &View<'_>, problems: &[Problem]) -> bool {
    let mut members = view.clusters.iter().filter_map(Member::of);
    let is_unanswered = |member: Member<'_>| {
        let answer = member.answer().and_then(Result::ok);
        let done = answer.filter(|answer| answer.created && answer.cluster == member.uid());
        let is_done = |cause: &String| done.as_ref().is_some_and(|done| done.causes.contains(cause));
        !member.causes(&view.settings.causes).iter().all(is_done)
            || may_be_evicted(view, &member)
            || protection::is_open(view, &member)
    };
    !problems.is_empty() || members.any(is_unanswered)
}

/// Returns the workloads in a cluster that the settings mean.
fn meant<'a>(view: &View<'a>, member: &Member<'_>) -> impl Iterator<Item = &'a Workload> {
    let (name, select) = (member.name(), Selection::from(view.settings.select.clone()));
    view.workloads.iter().filter(move |one| {
        let key = &one.key;
        one.clusters.contains(&name) && select.may_take(&key.group, &key.kind, key.namespace.as_deref())
    })
}

/// Returns what of a Cluster or an Evacuation decides: where that has not changed, nothing has.
pub fn signature(object: &Value) -> String {
    let of = |pointer| object.pointer(pointer).unwrap_or(&Value::Null);
    let moves = object.pointer("/status/moves").and_then(Value::as_array);
    let kept = [
        ANSWER_ANNOTATION,
        CLUSTER_ANNOTATION,
        OVERTAKEN_ANNOTATION,
        protection::PROTECTED_ANNOTATION,
        SYNC_ANNOTATION,
        WAITS_ANNOTATION,
    ];
    digest(&json!([
        protection::label(object),
        of("/metadata/uid"),
        of("/metadata/deletionTimestamp"),
        kept.map(|name| annotation(object, name)),
        of("/spec/taints"),
        of("/spec/cluster"),
        of("/spec/taint"),
        of("/spec/abort"),
        of("/status/phase"),
        of("/status/waitingFor/code"),
        of("/status/stays"),
        moves.is_some_and(|moves| moves.iter().any(is_under_way)),
    ]))
}

/// Returns whether a workload with state runs in a cluster that the causes would take out of it.
fn has_state_to_lose(view: &View<'_>, member: &Member<'_>) -> bool {
    let is_meant = |cause| view.settings.causes.contains(&cause);
    let all = is_meant(EvacuationCause::Deletion) && member.is_deleted()
        || is_meant(EvacuationCause::Cordon) && member.cluster.is_cordoned();
    let leaves = |workload: &Workload| {
        let mut taints = member.no_execute();
        all || taints.any(|taint| !workload.placement.tolerates_for_ever(taint))
    };
    meant(view, member).any(leaves)
}

fn step(view: &View<'_>, member: &Member<'_>) -> Option<Step> {
    let causes = member.causes(&view.settings.causes);
    let answer = match member.answer() {
        Some(Err(_)) if member.causes(&EVERY_CAUSE).is_empty() => return Some(member.forgets()),
        Some(Err(_)) => return None,
        Some(Ok(answer)) => Some(answer),
        None => None,
    };
    if causes.is_empty() {
        return called_off(view, member, answer.as_ref());
    }
    // What a cluster that had this name before has set off comes to its end first.
    if view.evacuations.iter().any(|one| member.is_of_former(one)) {
        return None;
    }
    // A Cluster that was restored has the annotations of another one.
    let answer = answer.filter(|answer| answer.cluster == member.uid());
    match answer {
        None => first_answer(view, member, &causes, None),
        Some(answer) if !answer.created && answer.sync == view.sync => carry_out(view, member, answer),
        Some(answer) => follow(view, member, answer, causes),
    }
}

/// Answers a cause that nothing was answered to yet. `old`: what was answered to others.
fn first_answer(
    view: &View<'_>,
    member: &Member<'_>,
    causes: &[String],
    old: Option<&Answer>,
) -> Option<Step> {
    let of_cutover = || view.evacuations.iter().filter(|one| member.set_off(one));
    // What was called off comes to its end first: it speaks of a cause that has been away.
    if of_cutover().any(is_deleted) {
        return None;
    }
    if let Some(off) = of_cutover().find(|one| is_overtaken(one)) {
        return has_ended(off).then(|| gone(off, "it was cancelled, and another cause now applies"));
    }
    // What was created late speaks of another cause, perhaps under other settings.
    if let Some(late) = of_cutover().find(|one| is_held(one)) {
        return Some(gone(late, "it was created late"));
    }
    let turns_back = |one: &&Value| is_turning_back(one) && member.is_emptied_by(one);
    if view.evacuations.iter().any(|one| turns_back(&one)) {
        return None;
    }
    let answer = |evacuation: &str, created| Answer {
        cluster: member.uid().to_owned(),
        causes: member.all_answered(causes, old),
        sync: view.sync.to_owned(),
        evacuation: evacuation.to_owned(),
        created,
    };
    if let Some(there) = under_way(view, member) {
        let name = name_of(there);
        return Some(member.says(
            &answer(name, true),
            format!("Evacuation {name} empties it already"),
        ));
    }
    if !member.cluster.is_ready() || !has_state_to_lose(view, member) {
        return None;
    }
    // Its cordon goes with it, and comes again with the next one.
    if let Some(old) = of_cutover().find(|one| has_ended(one)) {
        return Some(gone(old, "another cause now applies"));
    }
    let name = format!("{}-{}", driven::timed(&member.stem(), view.now), member.tag());
    Some(member.says(
        &answer(&name, false),
        format!("Evacuation {name} is to empty it for {}", causes.join(", ")),
    ))
}

/// Carries out an answer that this sync has given.
fn carry_out(view: &View<'_>, member: &Member<'_>, answer: Answer) -> Option<Step> {
    let name = answer.evacuation.clone();
    let named = view.evacuations.iter().find(|one| name_of(one) == name);
    if let Some(there) = named {
        if member.set_off(there) && is_held(there) {
            // Not what it says by now: an API server adds defaults, a webhook may change it.
            let is_as_asked = || annotation(there, SPEC_ANNOTATION) == Some(&*digest_of(&spec(view, member)));
            return if is_deleted(there) {
                None
            } else if is_as_asked() {
                Some(let_go(there))
            } else {
                Some(gone(there, "its spec differs from the current settings"))
            };
        }
        let done = Answer {
            created: true,
            ..answer
        };
        return Some(member.says(&done, format!("Evacuation {name} empties it")));
    }
    // Another one may have come since the answer was given.
    if let Some(other) = under_way(view, member) {
        let name = name_of(other).to_owned();
        let done = Answer {
            created: true,
            evacuation: name.clone(),
            ..answer
        };
        return Some(member.says(&done, format!("Evacuation {name} empties it already")));
    }
    if !member.cluster.is_ready() || !has_state_to_lose(view, member) {
        return None;
    }
    Some(Step::Create(Box::new(evacuation(view, member, &answer))))
}

/// Takes in how the causes of an answered cluster have changed.
fn follow(view: &View<'_>, member: &Member<'_>, answer: Answer, causes: Vec<String>) -> Option<Step> {
    // One that was created late: by a process that stood still, for an answer that is there no more.
    let is_late = |one: &&Value| {
        let is_another = answer.created || name_of(one) != answer.evacuation;
        member.set_off(one) && is_held(one) && !is_deleted(one) && is_another
    };
    if let Some(late) = view.evacuations.iter().find(is_late) {
        return Some(gone(late, "another one has been created for the same cause"));
    }
    let is_news = causes.iter().any(|cause| !answer.causes.contains(cause));
    let named = |one: &&Value| name_of(one) == answer.evacuation && counts(one);
    if is_news && !view.evacuations.iter().any(|one| named(&one)) {
        return first_answer(view, member, &causes, Some(&answer));
    }
    let causes = member.all_answered(&causes, Some(&answer));
    if answer.sync != view.sync || answer.causes == causes {
        return None;
    }
    let what = format!("it is emptied for {}", causes.join(", "));
    Some(member.says(&Answer { causes, ..answer }, what))
}

/// The causes are gone: so is the answer, and then what it has set off. What another sync has set off is called off where no cause of any
/// sort is left.
fn called_off(view: &View<'_>, member: &Member<'_>, answer: Option<&Answer>) -> Option<Step> {
    let is_free = member.causes(&EVERY_CAUSE).is_empty();
    let is_ours = |sync: Option<&str>| is_free || sync == Some(view.sync);
    if answer.is_some_and(|answer| answer.cluster != member.uid() || is_ours(Some(&answer.sync))) {
        return Some(member.forgets());
    }
    let set_off = view.evacuations.iter().filter(|one| member.set_off(one));
    let mut ours = set_off.filter(|one| is_ours(annotation(one, SYNC_ANNOTATION)));
    ours.find_map(|one| {
        let because = annotation(one, BECAUSE_ANNOTATION).unwrap_or("what set it off");
        let why = format!("{because} of {} is gone", member.name());
        if is_deleted(one) {
            None
        } else if !has_begun(one) || has_ended(one) {
            Some(gone(one, &why))
        } else {
            (!is_overtaken(one)).then(|| turned_back(one, &why))
        }
    })
}

/// What was set off for a cluster that has left goes as soon as nothing of it is on its way: there is nothing to turn back to. Until
/// then nothing more begins, whatever has joined under that name.
fn orphaned(view: &View<'_>, evacuation: &Value) -> Option<Step> {
    let of = cluster_of(evacuation)?;
    let is_there = |cluster: &Value| cluster.pointer("/metadata/uid").and_then(Value::as_str) == Some(of);
    if view.clusters.iter().any(is_there) || is_deleted(evacuation) {
        return None;
    }
    let moves = evacuation.pointer("/status/moves").and_then(Value::as_array);
    let is_at_rest = !has_begun(evacuation)
        || has_ended(evacuation)
        || !moves.is_some_and(|moves| moves.iter().any(is_under_way));
    if is_at_rest {
        return Some(gone(evacuation, "the cluster has left"));
    }
    let pause = || vec![add("/spec/paused", json!(true))];
    let is_paused = evacuation.pointer("/spec/paused") == Some(&json!(true));
    (!is_paused).then(|| {
        Step::Change(changed(
            evacuation,
            pause(),
            "the cluster has left: nothing more begins",
        ))
    })
}

/// A member cluster as it was read.
struct Member<'a> {
    read: &'a Value,
    cluster: Cluster,
}

impl<'a> Member<'a> {
    fn of(read: &'a Value) -> Option<Self> {
        let cluster = Cluster::deserialize(read).ok()?;
        Some(Self { read, cluster })
    }

    fn name(&self) -> ClusterName {
        ClusterName::from(self.cluster.metadata.name.as_deref().unwrap_or_default())
    }

    fn uid(&self) -> &str {
        self.cluster.metadata.uid.as_deref().unwrap_or_default()
    }

    fn is_deleted(&self) -> bool {
        self.cluster.metadata.deletion_timestamp.is_some()
    }

    /// Returns the taints that people, or their policies, evict with.
    fn no_execute(&self) -> impl Iterator<Item = &Taint> {
        const OF_KARMADA: [&str; 3] = [
            meta::TAINT_NOT_READY,
            meta::TAINT_UNREACHABLE,
            meta::TAINT_TERMINATING,
        ];
        self.cluster.spec.taints.iter().filter(|taint| {
            let is_own = taint.key.starts_with(CORDON_PREFIX);
            taint.effect == "NoExecute" && !is_own && !OF_KARMADA.contains(&taint.key.as_str())
        })
    }

    /// Returns what of it is a cause, each in words that tell it from every other.
    fn causes(&self, meant: &[EvacuationCause]) -> Vec<String> {
        let mut causes = Vec::new();
        if meant.contains(&EvacuationCause::Deletion) {
            causes.extend(deletion(&self.cluster));
        }
        if meant.contains(&EvacuationCause::NoExecute) {
            causes.extend(self.no_execute().map(|taint| match &taint.time_added {
                Some(since) => format!("{} since {}", described(taint), since.0),
                None => described(taint),
            }));
        }
        if meant.contains(&EvacuationCause::Cordon) && self.cluster.is_cordoned() {
            causes.push("its cordon".to_owned());
        }
        causes.sort();
        causes
    }

    fn answer(&self) -> Option<Result<Answer, serde_json::Error>> {
        annotation(self.read, ANSWER_ANNOTATION).map(serde_json::from_str)
    }

    fn says(&self, answer: &Answer, what: String) -> Step {
        let text = serde_json::to_string(answer).unwrap_or_default();
        let patch = set_entry(self.read, "annotations", ANSWER_ANNOTATION, &text);
        Step::Answer(self.change(vec![patch], what))
    }

    fn forgets(&self) -> Step {
        let patch = remove(&entry_path("annotations", ANSWER_ANNOTATION));
        Step::Answer(self.change(vec![patch], "nothing evicts from it any more".to_owned()))
    }

    fn change(&self, patch: Vec<Value>, what: String) -> Change {
        Change {
            read: Box::new(self.read.clone()),
            patch,
            what,
        }
    }

    /// Returns whether an Evacuation was set off for this very cluster.
    fn set_off(&self, evacuation: &Value) -> bool {
        cluster_of(evacuation) == Some(self.uid())
    }

    /// Returns whether an Evacuation was set off for another cluster that had this name.
    fn is_of_former(&self, evacuation: &Value) -> bool {
        cluster_of(evacuation).is_some_and(|of| of != self.uid())
            && evacuation.pointer("/spec/cluster").and_then(Value::as_str) == Some(self.name().as_str())
    }

    /// Returns the causes that are answered now: these, and those that were and still stand, whichever sync meant them.
    fn all_answered(&self, causes: &[String], old: Option<&Answer>) -> Vec<String> {
        let stand = self.causes(&EVERY_CAUSE);
        let old = old.into_iter().flat_map(|old| &old.causes);
        let kept = old.filter(|cause| stand.contains(cause));
        let mut all: Vec<String> = kept.chain(causes).cloned().collect();
        all.sort();
        all.dedup();
        all
    }

    /// Returns whether an Evacuation, whoever asked for it, is about this cluster.
    fn is_emptied_by(&self, evacuation: &Value) -> bool {
        let in_force = evacuation.pointer("/status/journal/spec");
        let Some(spec) = in_force.or_else(|| evacuation.get("spec")) else {
            return false;
        };
        if let Some(cluster) = spec["cluster"].as_str() {
            return cluster == self.name().as_str();
        }
        let taint = spec
            .get("taint")
            .and_then(|taint| TaintMatch::deserialize(taint).ok());
        let mut taints = self.cluster.spec.taints.iter();
        taint.is_some_and(|taint| taints.any(|there| taint.matches(there)))
    }

    fn stem(&self) -> String {
        format!("evacuate-{}", child::part(self.name().as_str(), PART))
    }

    /// Tells clusters apart whose Evacuations would have one name: with long names.
    fn tag(&self) -> String {
        digest(&json!([self.uid(), self.name()]))
            .chars()
            .take(4)
            .collect()
    }
}

/// Returns an Evacuation that is under way, or about to be, and empties a cluster.
fn under_way<'a>(view: &View<'a>, member: &Member<'_>) -> Option<&'a Value> {
    // What was created late begins nothing.
    let begins = |one: &Value| !(is_set_off(one) && is_held(one));
    let mut all = view.evacuations.iter();
    all.find(|one| counts(one) && begins(one) && member.is_emptied_by(one))
}

/// Returns what the Evacuation of a cluster says when it is created: it does nothing before it is let go.
fn spec(view: &View<'_>, member: &Member<'_>) -> EvacuationSpec {
    let settings = view.settings;
    let asks = settings.mode == EvacuationsMode::Ask;
    EvacuationSpec {
        cluster: Some(member.name()),
        taint: None,
        cordon: true,
        // Nothing comes back for as long as the cause is there: then this Evacuation is deleted.
        keep_cordoned: true,
        moves: MovesSpec {
            select: settings.select.clone().into(),
            to: settings.to.clone(),
            max_parallel: settings.max_parallel,
            max_failures: settings.max_failures,
            unmovable: Unmovable::Retry,
            verify: settings.verify.clone().unwrap_or_default(),
            approval: asks.then(|| MovesGate {
                before: vec![MovesPhase::Moving],
            }),
            window: settings.window.clone(),
            paused: true,
            ..MovesSpec::default()
        },
    }
}

fn digest_of(spec: &EvacuationSpec) -> String {
    digest(&json!(spec))
}

fn evacuation(view: &View<'_>, member: &Member<'_>, answer: &Answer) -> Value {
    let spec = spec(view, member);
    json!({
        "apiVersion": api::API_VERSION,
        "kind": api::Evacuation::KIND,
        "metadata": {
            "name": answer.evacuation,
            "annotations": {
                SYNC_ANNOTATION: view.sync,
                CLUSTER_ANNOTATION: format!("{} {}", member.uid(), answer.evacuation),
                BECAUSE_ANNOTATION: answer.causes.join(", "),
                SPEC_ANNOTATION: digest_of(&spec),
                WAITS_ANNOTATION: "true",
            },
        },
        "spec": spec,
    })
}

fn let_go(evacuation: &Value) -> Step {
    Step::Change(changed(evacuation, child::let_go(evacuation), "it may begin"))
}

fn turned_back(evacuation: &Value, why: &str) -> Step {
    let at = entry_path("annotations", OVERTAKEN_ANNOTATION);
    let patch = vec![add("/spec/abort", json!(true)), add(&at, json!(why))];
    Step::Change(changed(evacuation, patch, why))
}

fn gone(evacuation: &Value, why: &str) -> Step {
    Step::Delete(changed(evacuation, Vec::new(), why))
}

fn changed(evacuation: &Value, patch: Vec<Value>, why: &str) -> Change {
    Change {
        read: Box::new(evacuation.clone()),
        patch,
        what: format!("Evacuation {}: {why}", name_of(evacuation)),
    }
}

/// Returns whether a change of a member cluster has set an intent off: no file asks for it.
fn is_set_off(evacuation: &Value) -> bool {
    cluster_of(evacuation).is_some()
}

/// Returns whether the annotations of an Evacuation of this name say the same.
pub(super) fn is_noted_in(annotations: &BTreeMap<String, String>, name: &str) -> bool {
    let noted = annotations.get(CLUSTER_ANNOTATION);
    noted.is_some_and(|noted| uid_in(noted, name).is_some())
}

/// Returns the uid of the cluster that has set an Evacuation off. A copy under another name is a person's.
fn cluster_of(evacuation: &Value) -> Option<&str> {
    uid_in(annotation(evacuation, CLUSTER_ANNOTATION)?, name_of(evacuation))
}

fn uid_in<'a>(annotation: &'a str, of: &str) -> Option<&'a str> {
    let (uid, name) = annotation.split_once(' ')?;
    (name == of).then_some(uid)
}

/// Returns whether an Evacuation is to be reckoned with.
fn counts(evacuation: &Value) -> bool {
    !has_ended(evacuation)
        && !is_deleted(evacuation)
        && !is_overtaken(evacuation)
        && !is_turning_back(evacuation)
}

/// Returns whether a person has called an Evacuation off that has not ended.
fn is_turning_back(evacuation: &Value) -> bool {
    evacuation.pointer("/spec/abort") == Some(&json!(true)) && !has_ended(evacuation)
}

fn is_held(evacuation: &Value) -> bool {
    annotation(evacuation, WAITS_ANNOTATION).is_some()
}

fn is_overtaken(evacuation: &Value) -> bool {
    annotation(evacuation, OVERTAKEN_ANNOTATION).is_some()
}

fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn has_ended(evacuation: &Value) -> bool {
    phase_of(evacuation).is_terminal()
}

fn has_begun(evacuation: &Value) -> bool {
    !matches!(phase_of(evacuation), MovesPhase::Pending | MovesPhase::Preflight)
}

fn phase_of(evacuation: &Value) -> MovesPhase {
    let phase = evacuation.pointer("/status/phase");
    phase
        .and_then(|phase| MovesPhase::deserialize(phase).ok())
        .unwrap_or_default()
}

fn is_under_way(one: &Value) -> bool {
    matches!(one["state"].as_str(), Some("Starting" | "Moving"))
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

#[cfg(test)]
mod tests;
