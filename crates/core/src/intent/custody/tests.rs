use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::PatchOp;
use crate::intent::pin::{Place, Rule};

const UID: &str = "uid";

fn workload() -> ObjectKey {
    ObjectKey {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    }
}

fn owner(uid: &str) -> ClaimOwner {
    ClaimOwner {
        kind: "Rollout".into(),
        namespace: "shop".into(),
        name: "web".into(),
        uid: uid.into(),
    }
}

fn custody<'a>(claim: Option<&'a Claim>, pin: Option<&'a OverridePolicy>) -> Custody<'a> {
    Custody {
        owner: owner(UID),
        attempt: 1,
        workload: Cow::Owned(workload()),
        claim: Ok(claim),
        pin: Ok(pin),
        versions: Ok(Arc::default()),
    }
}

fn state(seq: u64, pinned: bool, repairing: bool) -> PinState {
    PinState {
        seq,
        pinned,
        repairing,
        ..PinState::default()
    }
}

fn pin(seq: u64, patches: Vec<PatchOp>) -> Pin {
    let says = Says::Differences(vec![Rule {
        place: Place::AllBut(Vec::new()),
        patches,
    }]);
    let state = state(seq, false, false);
    custody(None, None).compile(&state, "apps/v1", says).unwrap()
}

fn claim(uid: &str, marker: &str) -> Claim {
    let spec = serde_json::from_value(json!({
        "workload": "", "bindingId": "", "owner": owner(uid), "attempt": 1, "seq": 1, "marker": marker, "clusters": [],
    }));
    Claim::new("claim", spec.unwrap())
}

#[test]
fn a_pin_that_others_touched_is_told_from_one_that_is_still_to_be_written() {
    let wanted = pin(2, Vec::new());
    let edited = pin(2, vec![PatchOp::add("/spec/replicas", 0)]);
    let stands = |live: Option<&Pin>, state: PinState| {
        let live = live.map(Pin::policy);
        custody(None, live.as_ref()).standing(&wanted, &state).unwrap()
    };
    assert_eq!(stands(Some(&wanted), state(2, true, false)), Standing::InForce);
    assert_eq!(stands(Some(&wanted), state(2, false, false)), Standing::Confirmed);
    assert_eq!(stands(Some(&wanted), state(2, true, true)), Standing::Confirmed);
    assert_eq!(stands(None, state(2, false, false)), Standing::Due);
    assert_eq!(stands(None, state(2, true, false)), Standing::Tampered);
    assert_eq!(stands(Some(&edited), state(2, true, false)), Standing::Tampered);
    assert_eq!(stands(Some(&edited), state(2, true, true)), Standing::Due);
    let earlier = pin(1, Vec::new());
    assert_eq!(stands(Some(&earlier), state(2, true, false)), Standing::Due);
    let blank = PinWrite::new(&wanted, None, Authority::Nobody).unwrap();
    let begun = |state| {
        custody(None, Some(blank.policy()))
            .standing(&wanted, &state)
            .unwrap()
    };
    assert_eq!(begun(state(2, false, false)), Standing::Due);
    assert_eq!(begun(state(2, true, false)), Standing::Tampered);
    let later = pin(3, Vec::new());
    assert_eq!(stands(Some(&later), state(2, true, false)), Standing::Tampered);
}

#[test]
fn a_pin_is_taken_off_by_the_intent_that_wrote_it_and_by_no_other() {
    let own = pin(2, Vec::new()).policy();
    let relabel = |policy: &OverridePolicy| {
        let mut policy = policy.clone();
        let labels = policy.metadata.labels.as_mut().unwrap();
        labels.insert(pin::OWNER_LABEL.into(), "other".into());
        policy
    };
    let relabelled = relabel(&own);
    let others = relabel(
        &Pin {
            marker: pin::marker("other", 1, 2),
            ..pin(2, Vec::new())
        }
        .policy(),
    );
    let blank = PinWrite::new(&pin(2, Vec::new()), None, Authority::Nobody).unwrap();
    let others_blank = relabel(blank.policy());
    let (mine, theirs) = (claim(UID, ""), claim("other", ""));
    let takes = |claim: Option<&Claim>, pin: &OverridePolicy| match custody(claim, Some(pin)).unpin() {
        Ok(()) => false,
        Err(Due::Act(effects)) => matches!(effects[..], [Effect::WritePin(_)]),
        other => panic!("{other:?}"),
    };
    for claim in [Some(&mine), Some(&theirs), None] {
        assert!(takes(claim, &own));
        assert!(takes(claim, &relabelled), "its marker says whose it is");
        assert!(!takes(claim, &others));
    }
    assert!(
        takes(Some(&mine), &others_blank),
        "nobody else writes one under this claim"
    );
    assert!(!takes(Some(&theirs), &others_blank));
    let mut bare = others.clone();
    bare.metadata.labels.as_mut().unwrap().remove(pin::OWNER_LABEL);
    assert!(
        takes(Some(&mine), &bare),
        "only the holder of the claim answers for it"
    );
    assert!(!takes(Some(&theirs), &bare) && !takes(None, &bare));
    let mut lent = mine.clone();
    lent.spec.lender = Some(owner("other"));
    assert!(
        takes(Some(&lent), &others),
        "the lender's pin goes with the claim"
    );
    let mut unknown = custody(None, Some(&own));
    unknown.claim = Err(NotKnown("no answer".into()));
    assert!(matches!(unknown.unpin(), Err(Due::Wait(_))));
}

#[test]
fn the_claim_gives_up_its_marker_before_the_pin_goes() {
    let (own, mine) = (pin(2, Vec::new()).policy(), claim(UID, "uid.1.2"));
    let Err(Due::Act(effects)) = custody(Some(&mine), Some(&own)).unpin() else {
        panic!("nothing is written");
    };
    let [Effect::ReplaceClaim { spec, .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert!(spec.marker.is_empty() && spec.owner.uid == UID);
}

const SINCE: &str = "2026-01-01T00:00:00Z";

fn waits(reason: &str) -> WaitingFor {
    WaitingFor {
        code: crate::api::WaitCode::default(),
        reason: reason.to_owned(),
        offers: Vec::new(),
        approval: None,
        since: SINCE.parse().unwrap(),
        until: None,
        then: None,
    }
}

fn after(seconds: i64, wait: &mut Option<WaitingFor>) -> Patience<'_> {
    Patience {
        wait,
        now: SINCE.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds),
        limit: SignedDuration::from_secs(10),
    }
}

fn joined(names: &[&str]) -> BTreeMap<ClusterName, Cluster> {
    let cluster = |name: &&str| {
        (
            (*name).into(),
            Cluster::new(name, cutover_karmada::ClusterSpec::default()),
        )
    };
    names.iter().map(cluster).collect()
}

#[test]
fn a_work_that_stays_away_is_sent_for_each_time_after_a_longer_wait() {
    let clusters = [ClusterName::from("east")];
    let mut pin = state(2, true, false);
    let mut look = |seconds: i64, joined: &BTreeMap<ClusterName, Cluster>| {
        let mut wait = Some(waits(&Unmarked::NoWork(&clusters[0]).wait()));
        let due = markers_or_resend(
            &clusters,
            joined,
            |_| None,
            "uid.1.2",
            &mut pin,
            after(seconds, &mut wait),
        );
        (matches!(due, Err(Due::Again)), pin.seq, wait.is_none())
    };
    let there = joined(&["east"]);
    assert_eq!(look(9, &there), (false, 2, false));
    assert_eq!(look(10, &there), (true, 3, true));
    assert_eq!(look(19, &there), (false, 3, false));
    assert_eq!(look(20, &there), (true, 4, true));
    assert_eq!(look(600, &joined(&["west"])), (false, 4, false), "it never comes");
}

#[test]
fn what_says_more_of_a_late_copy_waits_for_it_as_well() {
    let mut pin = state(2, true, false);
    let mut wait = Some(waits("the target to stop: east: carries uid.1.1, not uid.1.2"));
    let late = || ["east: carries uid.1.1, not uid.1.2".to_owned()];
    assert!(send_again(["west: carries".to_owned()], &mut pin, after(60, &mut wait)).is_ok());
    assert!(send_again(late(), &mut pin, after(9, &mut wait)).is_ok());
    assert!(matches!(
        send_again(late(), &mut pin, after(10, &mut wait)),
        Err(Due::Again)
    ));
    assert_eq!((pin.seq, pin.resent), (3, 1));
}

fn binding(generation: i64, suspended: bool) -> ResourceBinding {
    serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"namespace": "shop", "name": "web", "uid": "b", "generation": generation},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "suspension": {"scheduling": suspended},
        },
    }))
    .unwrap()
}

/// Finding 9: what suspends scheduling says at which generation it was decided on.
#[test]
fn scheduling_goes_on_only_at_a_generation_at_which_no_suspension_was_decided_on() {
    let unread = Seen::unknown("unread");
    let leases = Seen::unknown("unread");
    let scheduler = Scheduler {
        uid: UID,
        attempt: 1,
        canary: &unread,
        leases: &leases,
        no_canary: false,
        chooses: false,
        now: SINCE.parse().unwrap(),
    };
    let fence = |suspending| crate::api::Fence {
        suspending,
        ..crate::api::Fence::default()
    };
    let next = |binding: &ResourceBinding, suspending| match scheduler.resume(binding, &fence(suspending)) {
        Ok(()) => "goes on".to_owned(),
        Err(Due::Act(effects)) => effects[0].to_string(),
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(next(&binding(3, false), None), "goes on");
    assert_eq!(next(&binding(3, false), Some(3)), "binding: suspend scheduling");
    assert_eq!(next(&binding(4, true), Some(3)), "binding: resume scheduling");
    assert_eq!(next(&binding(5, false), Some(3)), "goes on");
}
