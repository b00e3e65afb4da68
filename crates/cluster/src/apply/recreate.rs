//! Lets an object go that can't be changed, so that it can be created anew: never one that wouldn't come back.
//!
//! Nothing is remembered. Once the old object is gone there is none, Git wants one, and it is created like any other,
//! by this process or by another one.

use serde_json::Value;

use super::super::object::meta;
use super::super::{Answer, Exactly, Lookup, Mode, Served, Written};
use super::Applied;
use super::outcome::{Failure, Outcome};
use super::refusal::failure;
use crate::connect::Cluster;
use cutover_core::api::{self, SYNC_MANAGER, claim_name};
use cutover_core::manifest::Manifest;
use cutover_core::plan::never_recreated;
use cutover_karmada::name::Gvk;

/// Deletes the live object if nothing speaks against it, which `already` having done so for this content does.
pub(super) async fn instead(
    cluster: &Cluster,
    served: &Served,
    manifest: &Manifest,
    already: bool,
    refused: Failure,
) -> Outcome {
    if already {
        return Outcome::Failed(Failure {
            message: format!(
                "{}; it was recreated already, and is refused again",
                refused.message
            ),
            hint: Some("something else changes the field: a webhook, or a controller".to_owned()),
            ..refused
        });
    }
    match let_go(cluster, served, manifest).await {
        Ok(uid) => Outcome::Recreating { uid },
        Err(No::Never(why)) => Outcome::Failed(Failure {
            message: format!("{}; {why}", refused.message),
            hint: Some("change it back, or give the new object another name".to_owned()),
            ..refused
        }),
        Err(No::NotNow(why)) => Outcome::overtaken(manifest, format!("it is not recreated now: {why}")),
        Err(No::Refused(outcome)) => outcome,
    }
}

/// What is refused stays as it is: with the live object, something would go that doesn't come back.
pub(super) fn spared(why: &str, refused: Failure) -> Outcome {
    Outcome::Failed(Failure {
        message: format!("{}; it is not recreated: {why}", refused.message),
        // What runs where may change without anybody telling.
        passing: true,
        ..refused
    })
}

enum No {
    Never(String),
    NotNow(String),
    /// The new object wouldn't be accepted.
    Refused(Outcome),
}

/// Deletes the live object; returns its uid.
async fn let_go(cluster: &Cluster, served: &Served, manifest: &Manifest) -> Result<String, No> {
    let key = &manifest.key;
    let read = cluster
        .reader()
        .get(served, key.namespace.as_deref(), &key.name)
        .await;
    let live = match read.answer {
        Answer::Found(live) => live,
        Answer::NotFound => return Err(No::NotNow("it is gone already".to_owned())),
        Answer::Unknown { why } => return Err(No::NotNow(why)),
    };
    if let Some(why) = never_recreated(&manifest.gvk, &live) {
        return Err(No::Never(why));
    }
    unclaimed(cluster, manifest).await?;
    accepted(cluster, served, manifest).await?;
    // What depends on it goes first. Of a template that is its binding, and with it all copies: a new template would
    // be taken for the old one as long as they are there.
    let deleted = cluster
        .writer(SYNC_MANAGER)
        .delete_with_dependents(served, &Exactly::of(&live), Mode::Write)
        .await;
    match deleted {
        Ok(Written::Done(_)) => Ok(meta(&live, "uid").unwrap_or_default().to_owned()),
        Ok(Written::Precondition(why)) => Err(No::NotNow(why)),
        Ok(Written::Exists(_)) => Err(No::NotNow("the answer cannot be understood".to_owned())),
        Err(error) => Err(No::Refused(failure(manifest, &error))),
    }
}

/// An intent may have taken the workload since it was looked at last.
async fn unclaimed(cluster: &Cluster, manifest: &Manifest) -> Result<(), No> {
    let claims = match cluster.lookup(&Gvk::new(api::API_VERSION, "Claim")).await {
        Ok(Lookup::Served(claims)) => claims,
        Ok(Lookup::NotServed) => return Ok(()),
        Err(error) => return Err(No::NotNow(error.to_string())),
    };
    let claim = cluster
        .reader()
        .get(&claims, None, &claim_name(&manifest.key))
        .await;
    match claim.answer {
        Answer::NotFound => Ok(()),
        Answer::Found(claim) => {
            let owner = |field: &str| claim["spec"]["owner"][field].as_str().unwrap_or_default();
            Err(No::NotNow(format!(
                "{} {}/{} holds it",
                owner("kind"),
                owner("namespace"),
                owner("name")
            )))
        }
        Answer::Unknown { why } => Err(No::NotNow(why)),
    }
}

/// Tries whether the new object would be accepted, under a name that is free.
async fn accepted(cluster: &Cluster, served: &Served, manifest: &Manifest) -> Result<(), No> {
    let mut object: Value = manifest.value.clone();
    object["metadata"]["name"] = stand_in(&manifest.key.name).into();
    let rehearsed = cluster
        .writer(SYNC_MANAGER)
        .take_over(served, &object, Mode::Rehearse)
        .await;
    match rehearsed {
        Ok(Applied::Done(_)) => Ok(()),
        Ok(Applied::Precondition(why)) => Err(No::NotNow(why)),
        Ok(Applied::Conflicts(_)) => Err(No::NotNow("its stand-in for the rehearsal exists".to_owned())),
        Err(error) => Err(No::Refused(failure(manifest, &error))),
    }
}

/// Returns a name of the same form that nobody has.
fn stand_in(name: &str) -> String {
    const SUFFIX: &str = "-cutover-rehearsal";
    let short: String = name.chars().take(63 - SUFFIX.len()).collect();
    format!("{}{SUFFIX}", short.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_has_a_name_that_any_kind_takes() {
        assert_eq!(stand_in("web"), "web-cutover-rehearsal");
        let long = format!("{}.{}", "a".repeat(44), "b".repeat(100));
        assert_eq!(stand_in(&long), format!("{}-cutover-rehearsal", "a".repeat(44)));
    }
}
