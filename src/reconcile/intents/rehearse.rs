//! Has the target try the copy that it is to get first, held as it will be; it keeps nothing of it.

use super::{Parts, served};
use crate::api::{INTENT_MANAGER, Migration, MigrationStatus};
use crate::cluster::Error;
use crate::intent::migration::first_copy;
use crate::intent::world::Rehearsal;
use crate::intent::{Read, Seen, World};

/// Asks the target. What isn't answered isn't known.
pub(super) async fn in_target(
    parts: &Parts,
    intent: &Migration,
    status: &MigrationStatus,
    world: &World,
) -> Seen<Rehearsal> {
    let uid = intent.metadata.uid.as_deref().unwrap_or_default();
    let copy = match first_copy(uid, status.attempt, &intent.spec, world) {
        Ok(copy) => copy,
        Err(unknown) => return Seen::unknown(unknown.0),
    };
    let sent = parts.cluster.tick();
    let answer = match copy {
        None => Ok(Rehearsal::NotAsked),
        Some(copy) => match served(&parts.cluster, &intent.spec.workload.gvk()).await {
            Err(error) => Err(error.to_string()),
            Ok(served) => {
                let to = &intent.spec.to;
                let tried = parts.cluster.try_in(to, &served, &copy, INTENT_MANAGER).await;
                tried.map_or_else(|error| judge(&error), |_| Ok(Rehearsal::Accepted))
            }
        },
    };
    let answered = parts.cluster.tick();
    match answer {
        Ok(rehearsal) => Seen::known(rehearsal, Read { sent, answered }),
        Err(why) => Seen::unknown(why),
    }
}

/// Tells a refusal of the copy from one of the question, and both from no answer.
fn judge(error: &Error) -> Result<Rehearsal, String> {
    let why = error.to_string();
    let Some(status) = error.status() else {
        return Err(why);
    };
    // What RBAC says, of the proxy or in the member; quotas and admission refuse with the same code.
    let not_allowed = status.code == 401
        || status.code == 403
            && status.message.contains(": User \"")
            && status.message.contains("\" cannot ");
    let not_tried = status.code == 400 && status.message.contains("does not support dry run")
        || matches!(status.code, 405 | 501);
    let no_namespace = status.code == 404
        && status
            .details
            .as_ref()
            .is_some_and(|details| details.kind == "namespaces" || details.kind == "clusters");
    match status.code {
        _ if not_allowed || not_tried => Ok(Rehearsal::NotPossible(why)),
        // They come by themselves, or are the business of other checks.
        _ if no_namespace => Err(why),
        409 | 429 => Err(why),
        400..=499 => Ok(Rehearsal::Refused(why)),
        _ => Err(why),
    }
}
