//! Migrations that a change of placement in Git sets off: which ones, under what names, and when Git has overtaken one.
//!
//! A policy that would take a live stateful workload out of its cluster is refused by [`super::gate`]. Where its sync sets migrations
//! off by itself, each workload that it would move gets a Migration instead. Until that is committed it holds the policy
//! ([`super::hold_back`]); then the gate lets the policy out, if it costs no other workload its state, and the Migration ends.
//!
//! The same goes for a policy that is deleted, or selects a workload no more, where another one takes it up: the workload is moved to where
//! that one places it, and the deletion is what is held until it is there.

mod choice;

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::child;
use super::effect::{add, segment};
use super::gate::{Fate, Ground, Loss, Refusal, Tenant, Write};
use super::record::digest;
use crate::api::{
    self, Intent, MigrationSpec, Phase, PolicyName, SOURCE_ANNOTATION, WaitCode, WaitingFor, WorkloadRef,
};
use crate::config::{Migrations, MigrationsMode};
use crate::profile::{self, Profile};
use choice::Choice;
use cutover_karmada::name::{ClusterName, GroupKind, Gvk, ObjectKey};
use cutover_karmada::{PropagationSpec, ResourceSelector};

/// On a policy, or on the template of a workload: whether changes of placement set migrations off, `auto` or `manual`.
pub const MODE_ANNOTATION: &str = "cutover.dev/migrations";

/// What has a push ask for Migrations by itself: shown where a change is held back and no annotation is against that.
pub const SETTING: &str = "a push asks for it by itself with gate: {migrations: {mode: Auto}} in cutover.yaml, or the annotation \
     cutover.dev/migrations: auto";

/// On an intent that a change set off: the sync that did, or that has taken a Migration over since, as a digest of its repository and its
/// name.
pub(super) const SYNC_ANNOTATION: &str = "cutover.dev/set-off-by";
/// The policy whose change it is: namespace and name as JSON.
const POLICY_ANNOTATION: &str = "cutover.dev/policy";
/// The policy that takes the workload up with that change, if it isn't its own: namespace and name as JSON.
const SUCCESSOR_ANNOTATION: &str = "cutover.dev/successor";
/// The digest of the placement that Git asked for; by earlier versions of the selectors, too.
const PLACEMENT_ANNOTATION: &str = "cutover.dev/placement";
/// That placement itself, as JSON, where the workload stays with its policy: what is applied once more when Git has changed meanwhile.
const AGREED_ANNOTATION: &str = "cutover.dev/agreed-placement";

/// On such an intent: it is rolled back because what set it off is so no more, and why; `true` by earlier versions.
pub(super) const OVERTAKEN_ANNOTATION: &str = "cutover.dev/overtaken";

/// Why a Migration is rolled back whose placement isn't Git's.
pub const OVERTAKEN: &str = "Git now asks for another placement";
/// Why a Migration is rolled back whose policy, or the one that was to take its workload up, has left Git.
pub const LEFT: &str = "the policy whose placement it carries out is not in Git any more";
/// Why a Migration is rolled back whose workload would stay with another policy, though Git asks for nothing else.
pub const PLACED_OTHERWISE: &str = "the policy that was to claim the workload does not claim it";
/// Why a Migration is rolled back that would only wait for another one.
pub const COMES_AFTER: &str = "another Migration of the workload comes first";

/// How many bytes of JSON a placement may take that is noted.
const MOST_OF_A_PLACEMENT: usize = 16 * 1024;
/// How many characters of a reason that a Migration gives are shown.
const MOST_OF_A_REASON: usize = 200;
/// How much of the name of a workload goes into the name of its Migration.
const PART: usize = 32;

/// A move that a change of placement calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub workload: WorkloadRef,
    pub namespace: String,
    /// The uid of the template: when that goes, what was set off for it goes too.
    pub uid: String,
    pub from: ClusterName,
    pub to: ClusterName,
    /// The clusters that the placement leaves open, of which `to` was chosen: a move to any of them is what it asks for.
    pub open: Vec<ClusterName>,
    /// The policy that takes it up, if that isn't its own.
    pub successor: Option<PolicyName>,
}

/// The change of a policy that sets something off.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// What [`sync_id`] says of the sync.
    pub sync: &'a str,
    /// Its repository and branch.
    pub source: &'a str,
    /// The one that changes, or goes.
    pub policy: &'a PolicyName,
    /// What places the workloads then, as Git has it: that policy, or the one that takes them up.
    pub wanted: &'a Value,
}

/// Returns what tells a sync of one repository from all others.
pub fn sync_id(repository: &str, name: &str) -> String {
    digest(&json!([repository, name]))
}

/// Returns the moves that a refused write of a policy calls for, or why a person has to decide. `spec`: as the policy will be; `None`: it
/// is deleted. `to_be`: the policy that will place a workload when all of Git is carried out; `goes`: whether one that has a workload is
/// deleted by then, or lets it go.
pub fn called_for(
    ground: &Ground,
    refusal: &Refusal,
    (policy, spec): (&PolicyName, Option<&PropagationSpec>),
    settings: &Migrations,
    mut to_be: impl FnMut(&Tenant) -> Option<PolicyName>,
    goes: impl Fn(&Tenant, &PolicyName) -> bool,
) -> Result<Vec<Called>, String> {
    let (mut choice, tenants) = (Choice::new(ground), tenants_by_workload(ground));
    let each = refusal.losses.iter().map(|loss| {
        let tenant = *tenants
            .get(&loss.workload)
            .ok_or("it is not known how it runs now")?;
        let of = |why: String| format!("{}: {why}", loss.workload);
        if refusal.immovable(loss).is_some() {
            return Err(of("no profile says how it is moved".to_owned()));
        }
        if let Some(unmet) = unmet(ground, tenant).map_err(of)? {
            return Err(of(unmet));
        }
        let (by, then) = ground
            .placing(tenant, (policy, spec), settings.preemption, |own| {
                goes(tenant, own)
            })
            .map_err(of)?
            .ok_or_else(|| of("no policy would place it".to_owned()))?;
        if !loss.is_by(then) {
            return Err(of("it is not known what would place it".to_owned()));
        }
        let successor = successor(policy, (by, then), tenant, &mut to_be).map_err(of)?;
        called(loss, tenant, (then, successor), &mut choice).map_err(of)
    });
    let called: Vec<Called> = each.collect::<Result<_, _>>()?;
    // Of a policy that changes some workloads may be its own, and others come to it.
    let mut takers = called
        .iter()
        .map(|called| called.successor.as_ref().unwrap_or(policy));
    if let Some(first) = takers.next()
        && takers.any(|other| other != first)
    {
        return Err("several policies would claim its workloads".to_owned());
    }
    Ok(called)
}

/// Returns why the profile of a workload refuses to move it as it is, and what to do then.
fn unmet(ground: &Ground, tenant: &Tenant) -> Result<Option<String>, String> {
    let resource = &tenant.binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    // Of several, or of one that can't be used, Preflight says what is wrong.
    if profile::ambiguous(ground.knowledge.to_be(), &gvk).is_some() {
        return Ok(None);
    }
    let Ok(Some(found)) = profile::find(ground.knowledge.to_be(), None, &gvk) else {
        return Ok(None);
    };
    let name = found.metadata.name.as_deref().unwrap_or_default();
    let profile = Profile::compile(name, &found.spec).map_err(|error| error.to_string())?;
    let unmet = profile
        .unmet(&tenant.template)
        .map_err(|error| error.to_string())?;
    Ok(unmet.first().map(|lacks| {
        let hint = lacks
            .hint
            .as_ref()
            .map_or_else(String::new, |hint| format!(" ({hint})"));
        format!("it cannot be moved as it is: {}{hint}", lacks.message)
    }))
}

/// Returns the policy that takes a workload up, where its own goes or lets it go, it has none, or another one preempts; `None`: its own one
/// stays. An error where it isn't the one that Git will have it end with. `policy`: the one that is written; `by`: what places it then.
fn successor(
    policy: &PolicyName,
    (by, then): (&PolicyName, &PropagationSpec),
    tenant: &Tenant,
    to_be: impl FnOnce(&Tenant) -> Option<PolicyName>,
) -> Result<Option<PolicyName>, String> {
    match &tenant.owner {
        Some(own) if own == by && by == policy => return Ok(None),
        Some(own) if own != policy && by != policy => {
            return Err(format!("{own} has claimed it, and {by} would claim it"));
        }
        _ => {}
    }
    if then.activation_preference.is_some() {
        return Err(format!(
            "{by} is lazy: it is not known when it would claim the workload"
        ));
    }
    match to_be(tenant) {
        Some(to_be) if to_be == *by => Ok(Some(to_be)),
        Some(to_be) => Err(format!("{to_be}, which is to be created, would claim it")),
        None => Err(format!("it is not known whether {by} would claim it")),
    }
}

fn called(
    loss: &Loss,
    tenant: &Tenant,
    (spec, successor): (&PropagationSpec, Option<PolicyName>),
    choice: &mut Choice<'_>,
) -> Result<Called, String> {
    let Fate::Moves { stops, starts } = &loss.fate else {
        return Err("a Migration cannot carry that out".to_owned());
    };
    if tenant.in_hand.is_some() {
        return Err("an intent has claimed it, and goes first".to_owned());
    }
    let ([from], [_]) = (stops.as_slice(), tenant.binding.spec.clusters.as_slice()) else {
        return Err("it runs in several clusters".to_owned());
    };
    let namespace = loss.workload.namespace.clone();
    let namespace =
        namespace.ok_or("cutover does not create a Migration of a workload without a namespace")?;
    let resource = &tenant.binding.spec.resource;
    Ok(Called {
        workload: WorkloadRef {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            name: resource.name.clone(),
        },
        namespace,
        uid: tenant.template["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        from: from.clone(),
        to: choice.of(tenant, spec, from, starts)?,
        open: starts.clone(),
        successor,
    })
}

/// Of a thousand workloads each is looked up once.
fn tenants_by_workload(ground: &Ground) -> HashMap<&ObjectKey, &Tenant> {
    let tenants = ground.tenants.iter();
    tenants.map(|tenant| (&tenant.workload, tenant)).collect()
}

/// Checks that a refused change of a policy sets off a Migration for every workload that it would move. An error says whose annotation
/// is against it; `None`: the settings of the sync are.
pub fn check_automatic(
    settings: &Migrations,
    policy: &Value,
    ground: &Ground,
    refusal: &Refusal,
) -> Result<(), Option<String>> {
    let tenants = tenants_by_workload(ground);
    let mut all = Ok(());
    for loss in &refusal.losses {
        let template = tenants.get(&loss.workload).map(|tenant| &tenant.template);
        if is_automatic(settings, policy, template) {
            continue;
        }
        let says = |whose: &str| format!("the annotation {MODE_ANNOTATION} of {whose} does not say auto");
        if template.and_then(mode_of).is_some() {
            let together = if refusal.losses.len() > 1 {
                ", and the workloads of a policy move together"
            } else {
                ""
            };
            return Err(Some(says(&loss.workload.to_string()) + together));
        }
        all = Err(mode_of(policy).map(|_| says("the policy")));
    }
    all
}

/// Returns whether the placement that committed Migrations have carried out is applied before the one that Git asks for by now: they end
/// with it, and the other one would be held back for as long as they don't. An error says why it can't be applied.
///
/// `accepted`: what the annotation says of the policy as Git has it; `moved`: the workloads of these Migrations.
pub fn goes_first(
    ground: &Ground,
    policy: &PolicyName,
    (agreed, wanted): (&PropagationSpec, &PropagationSpec),
    accepted: Option<&str>,
    moved: &[ObjectKey],
) -> Result<bool, String> {
    let is_moved = |workload: &ObjectKey| moved.contains(workload);
    let waits = |tenant: &Tenant| tenant.in_hand.is_some() && is_moved(&tenant.workload);
    if !ground.tenants.iter().any(waits) {
        return Ok(false);
    }
    let write = |spec: &PropagationSpec| Write::Policy(policy.clone(), Some(Box::new(spec.clone())));
    let mut then = ground.clone();
    // Git asks for it no more: no annotation accepts what it costs, and what may have state is not moved for it.
    let passed = then.pass(&write(agreed), None);
    let doubts = passed.map_err(|refusal| refusal.to_string())?;
    if let Some(told) = doubts.told() {
        return Err(told);
    }
    let is_held = |refusal: Refusal| refusal.losses.iter().any(|loss| is_moved(&loss.workload));
    let goes_first = then.judge(&write(wanted), accepted).is_err_and(is_held);
    let is_there = |tenant: &Tenant| tenant.binding.spec.placement.as_ref() == Some(&agreed.placement);
    let mut waiting = ground.tenants.iter().filter(|tenant| waits(tenant));
    if goes_first && agreed.activation_preference.is_some() && !waiting.all(is_there) {
        return Err(format!(
            "{policy} is lazy, and the placement would reach the workload only when its template changes: take \
             activationPreference off it"
        ));
    }
    Ok(goes_first)
}

/// Returns whether a change of a policy sets off the Migration of a workload: the workload's annotation counts before the
/// policy's, and that before what the sync says.
pub fn is_automatic(settings: &Migrations, policy: &Value, template: Option<&Value>) -> bool {
    let said = [template, Some(policy)].into_iter().flatten().find_map(mode_of);
    said.unwrap_or(settings.mode) == MigrationsMode::Auto
}

/// Returns what an object says about migrations; an unknown word counts as manual.
fn mode_of(object: &Value) -> Option<MigrationsMode> {
    Some(match annotation(object, MODE_ANNOTATION)? {
        "auto" => MigrationsMode::Auto,
        _ => MigrationsMode::Manual,
    })
}

/// Returns the Migration that would carry a move out, as a plan shows it: under a name without the time.
pub fn planned(called: &Called, settings: &Migrations) -> Value {
    let mut planned = json!({
        "apiVersion": api::API_VERSION,
        "kind": "Migration",
        "metadata": {"namespace": called.namespace, "name": stem(&called.workload.name, called.to.as_str())},
        "spec": spec(called, settings),
    });
    let annotations = successor_annotation(called);
    if !annotations.is_empty() {
        planned["metadata"]["annotations"] = json!(annotations);
    }
    planned
}

/// Returns the Migration that carries a move out.
pub fn migration(called: &Called, cause: Cause<'_>, settings: &Migrations, now: Timestamp) -> Value {
    let mut annotations = successor_annotation(called);
    annotations.extend([
        (SYNC_ANNOTATION, cause.sync.to_owned()),
        (SOURCE_ANNOTATION, cause.source.to_owned()),
        (POLICY_ANNOTATION, key_text(cause.policy)),
        (PLACEMENT_ANNOTATION, placement_digest(cause.wanted)),
    ]);
    annotations.extend(agreed_annotation(called, cause.wanted));
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Migration",
        "metadata": {
            "namespace": called.namespace,
            "name": timed(&stem(&called.workload.name, called.to.as_str()), now),
            "ownerReferences": [{
                "apiVersion": called.workload.api_version, "kind": called.workload.kind,
                "name": called.workload.name, "uid": called.uid, "blockOwnerDeletion": false,
            }],
            "annotations": annotations,
        },
        "spec": spec(called, settings),
    })
}

/// What says on a Migration which policy Preflight has to judge.
fn successor_annotation(called: &Called) -> BTreeMap<&'static str, String> {
    let successor = called.successor.iter();
    successor
        .map(|successor| (SUCCESSOR_ANNOTATION, key_text(successor)))
        .collect()
}

/// What says on a Migration what its policy is to say when it is committed.
fn agreed_annotation(called: &Called, wanted: &Value) -> Option<(&'static str, String)> {
    let stays = called.successor.is_none();
    let placement = wanted.pointer("/spec/placement").filter(|_| stays)?.to_string();
    (placement.len() <= MOST_OF_A_PLACEMENT).then_some((AGREED_ANNOTATION, placement))
}

/// Returns the policy that takes a workload up with the change that has set its Migration off, if that isn't its own. `meta`: the
/// Migration's.
pub fn successor_in(meta: &ObjectMeta) -> Option<PolicyName> {
    policy_named(meta, SUCCESSOR_ANNOTATION)
}

/// Returns the policy whose change has set a Migration off. `meta`: the Migration's.
pub(super) fn policy_in(meta: &ObjectMeta) -> Option<PolicyName> {
    policy_named(meta, POLICY_ANNOTATION)
}

fn policy_named(meta: &ObjectMeta, annotation: &str) -> Option<PolicyName> {
    named(
        meta.annotations.as_ref()?.get(annotation)?,
        meta.namespace.as_deref(),
    )
}

fn spec(called: &Called, settings: &Migrations) -> MigrationSpec {
    MigrationSpec {
        from: Some(called.from.clone()),
        verify: settings.verify.clone().unwrap_or_default(),
        on_failure: settings.on_failure,
        window: settings.window.clone(),
        ..MigrationSpec::of(called.workload.clone(), None, called.to.clone())
    }
}

/// Returns how a Migration that no file asks for is named, but for the time.
pub(super) fn stem(workload: &str, to: &str) -> String {
    let part = |name| child::part(name, PART);
    format!("{}-to-{}", part(workload), part(to))
}

/// A name is not used twice: the record of an earlier one of that name would answer for it.
pub(super) fn timed(stem: &str, now: Timestamp) -> String {
    format!("{stem}-{}", now.strftime("%Y%m%d-%H%M%S"))
}

fn key_text(policy: &PolicyName) -> String {
    json!([policy.namespace, policy.name]).to_string()
}

/// Reads which policy a Migration of a namespace names. It counts only if it may select a workload of that namespace: whoever may edit
/// Migrations in one namespace has no say about the policies of another one.
fn named(key_text: &str, of: Option<&str>) -> Option<PolicyName> {
    let (namespace, name): (Option<String>, String) = serde_json::from_str(key_text).ok()?;
    let may_select = namespace.is_none() || namespace.as_deref() == of;
    may_select.then_some(PolicyName { namespace, name })
}

/// A Migration that a change of a policy set off.
#[derive(Clone, Debug)]
pub struct Driven<'a> {
    migration: &'a Value,
    /// The one that changes, or goes.
    pub policy: PolicyName,
    /// The one that takes the workload up when the other one goes.
    pub successor: Option<PolicyName>,
}

impl<'a> Driven<'a> {
    /// Returns how a Migration was set off; `None`: a file asks for it, or it names a policy that cannot have done so.
    pub fn of(migration: &'a Value) -> Option<Self> {
        let read = |text| named(text, migration["metadata"]["namespace"].as_str());
        let successor = match annotation(migration, SUCCESSOR_ANNOTATION) {
            Some(text) => Some(read(text)?),
            None => None,
        };
        Some(Self {
            migration,
            policy: read(annotation(migration, POLICY_ANNOTATION)?)?,
            successor,
        })
    }

    /// Returns whether a sync set it off, or has taken it over: that one says what becomes of it.
    pub fn is_by(&self, sync: &str) -> bool {
        annotation(self.migration, SYNC_ANNOTATION) == Some(sync)
    }

    /// Returns the repository and branch of the sync that set it off; earlier versions did not note them.
    pub fn source(&self) -> Option<&'a str> {
        annotation(self.migration, SOURCE_ANNOTATION)
    }

    /// Returns whether another sync of its repository and branch set it off, and it still matters what Git says about it: it has not
    /// ended, or has failed.
    pub fn may_be_taken_over(&self, sync: &str, source: &str) -> bool {
        let matters = !has_ended(self.migration) || self.has_failed();
        matters && self.source() == Some(source) && !self.is_by(sync)
    }

    /// Returns the patch by which a sync takes it over.
    pub fn take_over(&self, sync: &str) -> [Value; 1] {
        let annotation = format!("/metadata/annotations/{}", segment(SYNC_ANNOTATION));
        [add(&annotation, json!(sync))]
    }

    /// Returns how people name it.
    pub fn name(&self) -> String {
        key_of(self.migration).map_or_else(String::new, |key| key.to_string())
    }

    pub fn phase(&self) -> Phase {
        phase_of(self.migration)
    }

    /// Returns which version of it this is.
    pub fn version(&self) -> &'a str {
        self.migration["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
    }

    /// Returns whether it has neither ended nor passed its commit point.
    pub fn is_under_way(&self) -> bool {
        !self.phase().is_terminal() && self.phase() != Phase::Cleanup
    }

    /// Returns whether it has touched anything, or may have. One that has ended need not say it any more.
    pub fn has_begun(&self) -> bool {
        let journal = self.migration.pointer("/status/journal");
        journal.is_some_and(Value::is_object)
    }

    /// Returns whether it counts against the moves that may be under way at once. One that only waits for the policy does not; nor does
    /// one that has touched nothing and goes on when a person says so: whoever lets it begin decides that one more is under way.
    pub fn takes_a_turn(&self) -> bool {
        let is_untouched = matches!(self.phase(), Phase::Pending | Phase::Preflight);
        let code = self.migration.pointer("/status/waitingFor/code");
        let code = code.and_then(|code| WaitCode::deserialize(code).ok());
        let rests = is_untouched && code.is_some_and(WaitCode::is_for_a_person);
        self.is_under_way() && !rests && returned_to(self.migration).is_none()
    }

    /// Returns where it stands and what it waits for, in one line.
    pub fn described(&self) -> String {
        let wait = WaitingFor::deserialize(&self.migration["status"]["waitingFor"]);
        let waits = wait.map_or_else(
            |_| String::new(),
            |wait| format!(" and {}", one_line(&wait.phrase())),
        );
        format!("{} is in {}{waits}", self.name(), self.phase())
    }

    /// Returns since when it waits for something.
    pub fn waits_since(&self) -> Option<&'a str> {
        self.migration.pointer("/status/waitingFor/since")?.as_str()
    }

    /// Returns whether it is committed and offers no word, by which a person might bring the workload back: a placement may be all
    /// that it needs to end.
    pub fn awaits_placement(&self) -> bool {
        let offers = self.migration.pointer("/status/waitingFor/offers");
        let asks = offers
            .and_then(Value::as_array)
            .is_some_and(|offers| !offers.is_empty());
        self.phase() == Phase::Cleanup && !asks
    }

    /// Returns the placement that it was set off for, of the policy that has the workload; `None`: that isn't noted in full, or another
    /// policy takes the workload up.
    pub fn agreed(&self) -> Option<Value> {
        if self.successor.is_some() {
            return None;
        }
        let placement: Value = serde_json::from_str(annotation(self.migration, AGREED_ANNOTATION)?).ok()?;
        let said = annotation(self.migration, PLACEMENT_ANNOTATION)?;
        (placement.is_object() && said == digest(&placement)).then_some(placement)
    }

    /// Returns whether it moves a workload as called for, by the same placement: where that leaves several clusters open, to any of
    /// them. What would be chosen now may be another one.
    pub fn answers(&self, called: &Called, wanted: &Value) -> bool {
        let is_open = |to: &Value| called.open.iter().any(|open| to == open.as_str());
        self.is_asked_for_by(called, wanted) && self.migration.pointer("/spec/to").is_some_and(is_open)
    }

    /// Returns whether it was to move a workload as called for and has not: a failure answers for its placement, whichever clusters
    /// that leaves open by now.
    pub fn has_failed_for(&self, called: &Called, wanted: &Value) -> bool {
        self.has_failed() && self.is_asked_for_by(called, wanted)
    }

    fn is_asked_for_by(&self, called: &Called, wanted: &Value) -> bool {
        is_about(self.migration, called)
            && self.migration.pointer("/spec/from") == Some(&json!(called.from))
            && self.is_by_placement(wanted)
    }

    /// Returns whether Git now asks for another placement, or for none of this workload. `wanted`: the policy as Git has it, or the one
    /// that takes the workload up; `template`: the workload's, where it can be seen.
    pub fn is_overtaken(&self, wanted: &Value, template: Option<&Value>) -> bool {
        let selectors = || Vec::<ResourceSelector>::deserialize(&wanted["spec"]["resourceSelectors"]);
        let is_left_out = |template| {
            selectors().is_ok_and(|selectors| ResourceSelector::closest(&selectors, template).is_none())
        };
        !self.is_by_placement(wanted) || template.is_some_and(is_left_out)
    }

    /// Returns whether a policy says what it was set off for.
    pub fn is_by_placement(&self, wanted: &Value) -> bool {
        let of = |pointer| wanted.pointer(pointer).unwrap_or(&Value::Null);
        let placement = of("/spec/placement");
        let earlier = || digest(&json!([placement, of("/spec/resourceSelectors")]));
        let said = annotation(self.migration, PLACEMENT_ANNOTATION);
        said == Some(&placement_digest(wanted)) || said == Some(&earlier())
    }

    /// Returns the workload that it moves.
    pub fn workload(&self) -> Option<ObjectKey> {
        Some(self.named()?.key(self.namespace()))
    }

    /// Returns the same, as it is named.
    pub fn named(&self) -> Option<WorkloadRef> {
        WorkloadRef::deserialize(&self.migration["spec"]["workload"]).ok()
    }

    pub fn namespace(&self) -> Option<&'a str> {
        self.migration["metadata"]["namespace"].as_str()
    }

    /// Returns whether another one comes first with the same workload, so that this one would only wait for it, and hold its policy
    /// back meanwhile. Two are there where the creation of the first was answered late.
    pub fn comes_after(&self, other: &Self) -> bool {
        let order = |driven: &Self| {
            let of = |pointer| driven.migration.pointer(pointer).and_then(Value::as_str);
            let is_committed = driven.phase() == Phase::Cleanup;
            (
                !is_committed,
                of("/metadata/creationTimestamp").map(str::to_owned),
                driven.name(),
            )
        };
        self.workload() == other.workload()
            && !has_ended(other.migration)
            && !other.asks_to_abort()
            && order(other) < order(self)
    }

    pub fn asks_to_abort(&self) -> bool {
        self.migration.pointer("/spec/abort") == Some(&Value::Bool(true))
    }

    /// Returns the patch that rolls it back, and says why.
    pub fn turn_back(&self, why: &str) -> [Value; 2] {
        [add("/spec/abort", json!(true)), Self::overtaken(why)]
    }

    /// Returns the patch that notes of one that has ended that Git has asked for something else since, and for what: when it asks for
    /// this one again, that is news.
    pub fn note_overtaken(&self, why: &str) -> [Value; 1] {
        [Self::overtaken(why)]
    }

    fn overtaken(why: &str) -> Value {
        let annotation = format!("/metadata/annotations/{}", segment(OVERTAKEN_ANNOTATION));
        add(&annotation, json!(why))
    }

    /// Returns whether it ended without having moved the workload, by itself or by a person.
    pub fn has_failed(&self) -> bool {
        let phase = self.phase();
        phase.is_terminal() && phase != Phase::Completed && !is_turned_back(self.migration)
    }
}

/// Migrations by the namespace and name of their workloads: of a thousand moves that a policy calls for, each is compared with few.
#[derive(Debug)]
pub struct MigrationsByWorkload<'a>(HashMap<(Option<&'a str>, Option<&'a str>), Vec<&'a Value>>);

impl<'a> MigrationsByWorkload<'a> {
    pub fn of(migrations: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut by_workload: HashMap<_, Vec<_>> = HashMap::new();
        for migration in migrations {
            let namespace = migration["metadata"]["namespace"].as_str();
            let name = migration["spec"]["workload"]["name"].as_str();
            by_workload.entry((namespace, name)).or_default().push(migration);
        }
        Self(by_workload)
    }

    /// Returns those, whoever asked for them, that are about the workload that is to move.
    pub fn about<'s>(&'s self, called: &'s Called) -> impl Iterator<Item = &'a Value> + use<'s, 'a> {
        let key = (
            Some(called.namespace.as_str()),
            Some(called.workload.name.as_str()),
        );
        let named = self.0.get(&key).into_iter().flatten().copied();
        named.filter(|migration| is_about(migration, called))
    }
}

fn is_about(migration: &Value, called: &Called) -> bool {
    is_of(migration, &called.workload, Some(&called.namespace))
}

/// Returns whether a Migration is about a workload, in whichever version.
pub(super) fn is_of(migration: &Value, of: &WorkloadRef, namespace: Option<&str>) -> bool {
    let workload = &migration["spec"]["workload"];
    // Of many Migrations few are about one workload: names are compared first, as they are.
    workload["name"] == of.name.as_str()
        && workload["kind"] == of.kind.as_str()
        && migration["metadata"]["namespace"].as_str() == namespace
        && WorkloadRef::deserialize(workload).is_ok_and(|named| named.gvk().group == of.gvk().group)
}

/// Returns whether a Migration is past its commit point and has not come to its end.
pub fn is_committed(migration: &Value) -> bool {
    phase_of(migration) == Phase::Cleanup
}

/// Returns whether a Migration has come to its end.
pub fn has_ended(migration: &Value) -> bool {
    phase_of(migration).is_terminal()
}

/// Returns the cluster to which a person gave a committed move's workload back, and which is the writer again: it ends when a placement
/// keeps the workload there.
pub fn returned_to(migration: &Value) -> Option<&str> {
    let of = |field: &str| migration.pointer(&format!("/status/journal/{field}"))?.as_str();
    let is_back = phase_of(migration) == Phase::RollingBack
        && of("rollBack/fromPhase") == Some("Cleanup")
        && of("rollBack/stage") == Some("Returned");
    of("source").filter(|source| is_back && of("writer") == Some(source))
}

/// Returns whether a Migration brings the workload back to where it was.
pub(super) fn is_rolling_back(migration: &Value) -> bool {
    phase_of(migration) == Phase::RollingBack
}

fn phase_of(migration: &Value) -> Phase {
    let phase = migration.pointer("/status/phase").cloned();
    phase
        .and_then(|phase| serde_json::from_value(phase).ok())
        .unwrap_or_default()
}

/// Returns the key of a Migration.
pub fn key_of(migration: &Value) -> Option<ObjectKey> {
    GroupKind::new(api::GROUP, api::Migration::KIND).key_of(migration)
}

/// Returns whether a Migration is rolled back because Git asked for something else: then it leaves nothing unapplied.
pub fn is_turned_back(migration: &Value) -> bool {
    annotation(migration, OVERTAKEN_ANNOTATION).is_some()
}

/// Returns why cutover asked for the abort of an intent with these annotations, or who may annotate it says that it did: one line of a
/// sentence's length. `None`: it didn't.
pub fn why_overtaken(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let why = annotations?.get(OVERTAKEN_ANNOTATION)?;
    if why == "true" {
        return Some(OVERTAKEN);
    }
    Some(one_line(why))
}

fn one_line(text: &str) -> &str {
    let line = text.split(char::is_control).find(|line| !line.trim().is_empty());
    let line = line.map_or("", str::trim);
    let end = line.char_indices().nth(MOST_OF_A_REASON).map(|(end, _)| end);
    end.and_then(|end| line.get(..end)).unwrap_or(line)
}

/// What of a policy decides where something goes. What else it selects is no other placement of what it has.
fn placement_digest(policy: &Value) -> String {
    digest(policy.pointer("/spec/placement").unwrap_or(&Value::Null))
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

#[cfg(test)]
mod tests;
