//! Of which copy the Events are read, because it is waited for and is not as it should be. Nothing is decided by them.

use jiff::Timestamp;

use super::{Phase, Snapshot};
use crate::api::ReplicaShiftStatus;
use crate::intent::replicas::Count;
use crate::intent::warnings::WARNS_AFTER;
use cutover_karmada::name::ClusterName;

/// Returns the cluster that is to have more replicas than are ready there, for so long that its Events are read.
pub fn troubled(status: &ReplicaShiftStatus, snapshot: &Snapshot, now: Timestamp) -> Option<ClusterName> {
    let journal = status.journal_in_force()?;
    let grows = match status.phase {
        Phase::Shifting => &journal.spec.to,
        Phase::RollingBack => journal.spec.from.cluster.as_ref()?,
        _ => return None,
    };
    let rests = journal.rests_since.or(journal.paused_since);
    let since = journal.step_since.filter(|_| rests.is_none())?;
    if now.duration_since(since) < WARNS_AFTER {
        return None;
    }
    let copy = snapshot.members.get(grows)?.get().ok()?.as_ref();
    let count = Count::of_copy(copy).ok()?;
    let wanted = journal.wanted.get(grows)?;
    // A roll-out that has come to a stop may keep enough of the old ones.
    (count.ready < *wanted || !count.settled).then(|| grows.clone())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::intent::{Read, Seen};
    use cutover_karmada::name::ObjectKey;

    #[test]
    fn the_events_of_the_side_that_grows_are_read_once_its_replicas_take_long() {
        let since: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let spec = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "blue"}, "to": "green",
        });
        let status = |phase: &str, more: serde_json::Value| -> ReplicaShiftStatus {
            let mut journal = json!({
                "spec": spec, "binding": {"name": "web-deployment", "uid": "b", "id": "i"}, "templateUid": "t",
                "seq": 1, "pinned": true, "listed": ["blue", "green"], "placement": "p", "templateReplicas": 4,
                "start": {"blue": 4}, "wanted": {"blue": 4, "green": 2}, "amount": 4, "goal": 2, "floor": 4,
                "stepSince": since, "fence": {},
            });
            for (field, value) in more.as_object().unwrap() {
                journal[field] = value.clone();
            }
            serde_json::from_value(json!({"phase": phase, "journal": journal})).unwrap()
        };
        let copy = |wanted: u32, ready: u32| {
            json!({
                "metadata": {"generation": 1}, "spec": {"replicas": wanted},
                "status": {"observedGeneration": 1, "replicas": wanted, "updatedReplicas": wanted, "availableReplicas": ready},
            })
        };
        let web = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let snapshot = |blue: u32, green: u32| {
            let read = Read { sent: 1, answered: 2 };
            let mut snapshot = Snapshot::unread(web.clone(), "not read in this test");
            let blue = ("blue".into(), Seen::known(Some(copy(4, blue)), read));
            let green = ("green".into(), Seen::known(Some(copy(2, green)), read));
            snapshot.members = [blue, green].into();
            snapshot
        };
        let (shifting, none) = (status("Shifting", json!({})), json!({}));
        let late = since + SignedDuration::from_secs(15);
        let green = Some(ClusterName::new("green"));
        assert_eq!(troubled(&shifting, &snapshot(4, 1), late), green);
        let early = since + SignedDuration::from_secs(14);
        assert_eq!(
            troubled(&shifting, &snapshot(4, 1), early),
            None,
            "most come up before"
        );
        assert_eq!(troubled(&shifting, &snapshot(4, 2), late), None, "all are ready");
        let rests = status("Shifting", json!({"restsSince": since}));
        assert_eq!(troubled(&rests, &snapshot(4, 1), late), None);
        let back = status("RollingBack", none);
        assert_eq!(
            troubled(&back, &snapshot(3, 1), late),
            Some(ClusterName::new("blue"))
        );
        let mut unseen = snapshot(4, 1);
        unseen.members.insert("green".into(), Seen::unknown("no route"));
        assert_eq!(troubled(&shifting, &unseen, late), None);
    }
}
