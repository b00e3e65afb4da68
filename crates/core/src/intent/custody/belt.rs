//! The belt: while state could be lost by it, nobody who takes a cluster out of the binding deletes the copy there. A copy that
//! is dropped runs on, by itself, until it is listed again: it counts as running, and everybody else stays held.

use serde_json::{Value, json};

use super::Due;
use crate::api::{Belt, Finding};
use crate::intent::effect::{Effect, add, exact, patch_binding, remove};
use crate::intent::pin;
use crate::intent::seen::{NotKnown, Seen};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ResourceBinding, Work, meta};

const PRESERVE: &str = "/spec/preserveResourcesOnDeletion";
const CONFLICT: &str = "/spec/conflictResolution";
const OVERWRITE: &str = "Overwrite";

/// Returns the finding that the belt was taken off after the Works had shown it. Karmada's detector writes its fields anew with
/// every change of the template and of the policy.
pub fn taken_off(binding: &ResourceBinding, belt: &Belt) -> Option<Finding> {
    let is_off = belt.shown && !belt.off && !is_belted(binding);
    is_off.then(|| {
        Finding::new(
            "PreservationTakenOff",
            "preserveResourcesOnDeletion was taken off the binding during the operation, and is set again: until the Works show it, a \
             cluster that leaves the binding loses its copy",
            "Karmada does so with every change of the template or of the policy: leave both as they are while the workload moves",
        )
    })
}

/// The binding says what the journal says of the belt.
///
/// `takes_up`: a copy that Karmada has let go is to be taken up again, as it is.
pub fn put_on(binding: &ResourceBinding, belt: &mut Belt, takes_up: bool) -> Result<(), Due> {
    let before = &binding.spec.conflict_resolution;
    let overwrites = match &belt.overwrites {
        None => takes_up.then(|| before.clone()),
        // Put back, by the tool or by the detector: what is there is somebody else's again.
        Some(noted) if !takes_up && noted == before => None,
        noted => noted.clone(),
    };
    if overwrites != belt.overwrites {
        belt.overwrites = overwrites;
        return Err(Due::Again);
    }
    match belted(binding, belt, takes_up) {
        Some(effect) => Err(Due::Act(vec![effect])),
        None => Ok(()),
    }
}

/// What Karmada does to a copy hangs on its Work, not on the binding.
pub fn is_shown<'w>(
    belt: &mut Belt,
    works: impl IntoIterator<Item = (&'w ClusterName, &'w Work)>,
) -> Result<(), Due> {
    if belt.off {
        return Ok(());
    }
    for (cluster, work) in works {
        let goes = work.metadata.deletion_timestamp.is_some();
        if !goes && work.spec.preserve_resources_on_deletion != Some(true) {
            return Err(Due::Wait(format!(
                "{cluster}: the Work to show that the copy there stays when the cluster leaves the binding"
            )));
        }
    }
    if belt.shown {
        return Ok(());
    }
    belt.shown = true;
    Err(Due::Again)
}

/// The journal says that the copy which leaves the binding next is to be deleted.
pub fn take_off(belt: &mut Belt) -> Result<(), Due> {
    if belt.off {
        return Ok(());
    }
    belt.off = true;
    Err(Due::Again)
}

/// No Work keeps its copy any more.
pub fn is_off<'w>(works: impl IntoIterator<Item = (&'w ClusterName, &'w Work)>) -> Result<(), Due> {
    let mut keeps = works.into_iter().filter(|(_, work)| {
        work.metadata.deletion_timestamp.is_none() && work.spec.preserve_resources_on_deletion == Some(true)
    });
    match keeps.next() {
        Some((cluster, _)) => Err(Due::Wait(format!(
            "{cluster}: the Work to show that the copy there goes when the cluster leaves the binding"
        ))),
        None => Ok(()),
    }
}

/// It was taken off for a copy that was to go, and is to be on for those that stay.
pub fn on_again(belt: &mut Belt) -> Result<(), Due> {
    if !belt.off {
        return Ok(());
    }
    (belt.off, belt.shown) = (false, false);
    Err(Due::Again)
}

/// Returns what brings a binding's belt to what the journal says; `None`: it is so. A copy that Karmada has let go is taken up
/// as it is only by a binding that says Overwrite: `takes_up` says that there is one. As long as there is none it stays off, for
/// it would also overwrite what is somebody else's.
pub(in crate::intent) fn belted(binding: &ResourceBinding, belt: &Belt, takes_up: bool) -> Option<Effect> {
    let spec = &binding.spec;
    let mut patch = Vec::new();
    let mut why = "keep the copies of clusters that leave the binding";
    if is_belted(binding) == belt.off {
        patch.push(if belt.off { let_go(belt) } else { preserved() });
        if belt.off {
            why = "let the copy go that leaves the binding";
        }
    }
    match &belt.overwrites {
        Some(_) if takes_up && spec.conflict_resolution != OVERWRITE => {
            patch.push(add(CONFLICT, json!(OVERWRITE)));
            why = "take up the copy that was dropped";
        }
        Some(before) if !takes_up && spec.conflict_resolution == OVERWRITE => {
            patch.push(as_before(before));
            why = "overwrite nothing any more";
        }
        _ => {}
    }
    if patch.is_empty() {
        return None;
    }
    Some(patch_binding(why, binding, exact(binding, patch)))
}

/// Returns whether copies of clusters that leave a binding are kept.
pub(in crate::intent) fn is_belted(binding: &ResourceBinding) -> bool {
    binding.spec.preserve_resources_on_deletion == Some(true)
}

/// Takes off the belt of an intent that nobody carries out any more: Preflight refuses bindings that have it by themselves. Its
/// journal, which knew what `conflictResolution` was before, is gone; what the policy says of it, Karmada's detector writes.
pub(in crate::intent) fn belt_left(
    binding: &ResourceBinding,
    policy_says: &Seen<String>,
) -> Result<Option<Effect>, NotKnown> {
    let mut operations = Vec::new();
    if is_belted(binding) {
        operations.push(remove(PRESERVE));
    }
    if overwrites(binding) && policy_says.get()? != OVERWRITE {
        operations.push(as_before(policy_says.get()?));
    }
    if operations.is_empty() {
        return Ok(None);
    }
    let why = "let the copy that leaves the binding be deleted, and stop overwriting";
    Ok(Some(patch_binding(why, binding, exact(binding, operations))))
}

/// Returns whether a binding has Karmada take up, as it is, what is somebody else's in a member.
pub fn overwrites(binding: &ResourceBinding) -> bool {
    binding.spec.conflict_resolution == OVERWRITE
}

/// Notes what the binding says before the belt is put on.
pub(in crate::intent) fn belt(binding: &ResourceBinding) -> Belt {
    Belt {
        preserve: binding.spec.preserve_resources_on_deletion,
        ..Belt::default()
    }
}

/// The operation that puts it on.
pub(in crate::intent) fn preserved() -> Value {
    add(PRESERVE, json!(true))
}

fn let_go(belt: &Belt) -> Value {
    match belt.preserve.filter(|preserve| !preserve) {
        Some(preserve) => add(PRESERVE, json!(preserve)),
        None => remove(PRESERVE),
    }
}

fn as_before(before: &str) -> Value {
    if before.is_empty() {
        remove(CONFLICT)
    } else {
        add(CONFLICT, json!(before))
    }
}

/// Returns whether Karmada has let go a copy that the pin of an intent was on: it runs on as it was, and nothing reaches it.
pub fn is_dropped(copy: &Value, uid: &str) -> bool {
    let stays = copy.pointer("/metadata/deletionTimestamp").is_none();
    stays && !is_karmadas(copy) && was_under_pin(copy, uid)
}

/// Returns whether an object in a member is Karmada's to write.
pub fn is_karmadas(copy: &Value) -> bool {
    copy.pointer("/metadata/labels")
        .is_some_and(|labels| labels[meta::MANAGED] == "true")
}

/// Returns whether a copy has been under the pin of an intent. Karmada takes its own marks off a copy that it lets go.
pub fn was_under_pin(copy: &Value, uid: &str) -> bool {
    let marker = copy.pointer("/metadata/annotations/cutover.dev~1pin");
    let marker = marker.and_then(Value::as_str);
    marker.is_some_and(|marker| pin::sequence(marker, uid).is_some())
}
