use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::PatchOp;
use crate::intent::effect::Effect;
use crate::intent::fence;
use crate::intent::pin::{Place, Rule};
use cutover_karmada::{Placement, Taint, meta};

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
        last_warning: None,
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

/// Karmada's taint manager goes by the first toleration that matches.
#[test]
fn a_taint_is_tolerated_for_ever_whatever_the_policy_tolerates_for_a_while() {
    let taint: Taint = serde_json::from_value(json!({"key": "maintenance", "effect": "NoExecute"})).unwrap();
    let a_while = json!({"key": "maintenance", "operator": "Exists", "tolerationSeconds": 60});
    let everything = json!({"operator": "Exists"});
    let with = |text: &str| {
        let mut binding = serde_json::to_value(binding(3, false)).unwrap();
        binding["metadata"]["annotations"] = json!({meta::APPLIED_PLACEMENT: text});
        serde_json::from_value::<ResourceBinding>(binding).unwrap()
    };
    let text = |binding: &ResourceBinding| {
        binding.metadata.annotations.as_ref().unwrap()[meta::APPLIED_PLACEMENT].clone()
    };
    let patched = |binding: &ResourceBinding, effect: Effect| {
        let Effect::PatchBinding { patch, .. } = effect else {
            panic!("{effect}");
        };
        let mut patched = serde_json::to_value(binding).unwrap();
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).unwrap();
        json_patch::patch(&mut patched, &patch).unwrap();
        serde_json::from_value::<ResourceBinding>(patched).unwrap()
    };
    for before in [
        json!({}),
        json!({"clusterTolerations": [a_while]}),
        json!({"clusterTolerations": [a_while, everything]}),
    ] {
        let binding = with(&before.to_string());
        let mut fence = crate::api::Fence::default();
        fence::record(&binding, &mut fence);
        let raised = patched(&binding, fence::raise(&binding, None));
        let placement: Placement = serde_json::from_str(&text(&raised)).unwrap();
        assert!(
            placement.tolerates_for_ever(&taint),
            "{before}: {}",
            text(&raised)
        );
        assert!(fence::failover_off(&raised).is_none(), "{before}");
        let restored = patched(&raised, fence::restored(&raised, &fence).unwrap());
        assert_eq!(text(&restored), text(&binding));
    }
    // As an earlier version left it.
    let binding = with(&json!({"clusterTolerations": [a_while]}).to_string());
    let mut fence = crate::api::Fence::default();
    fence::record(&binding, &mut fence);
    let raised = with(&json!({"clusterTolerations": [a_while, everything]}).to_string());
    let restored = patched(&raised, fence::restored(&raised, &fence).unwrap());
    assert_eq!(text(&restored), text(&binding));
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

const HOST: &str = "plan";

/// A claim of a plan that guards, in east.
fn guarded() -> Claim {
    let spec = serde_json::from_value(json!({
        "workload": "", "bindingId": "", "attempt": 1, "seq": 3, "marker": "plan.1.3", "writer": "east", "guards": true, "clusters": [],
        "owner": {"kind": "FailoverPlan", "namespace": "shop", "name": "web", "uid": HOST},
    }));
    Claim::new("claim", spec.unwrap())
}

fn rules(image: &str) -> Vec<crate::api::PinnedRule> {
    vec![
        Rule {
            place: Place::AllBut(Vec::new()),
            patches: vec![PatchOp::add("/spec/image", image)],
        }
        .into(),
    ]
}

/// The pin of the plan, with what a guest says.
fn pin_of_host(marker: &str, rules: &[crate::api::PinnedRule]) -> OverridePolicy {
    let token = pin::Token {
        may_run: pin::Writer::Only("east".into()),
        hold: vec![PatchOp::add("/spec/state", "suspended")],
        suspended: Vec::new(),
        suspend: Vec::new(),
        named: std::collections::BTreeMap::new(),
        carry: Vec::new(),
    };
    Pin {
        differences: rules.iter().map(Rule::from).collect(),
        owner_uid: HOST.into(),
        marker: marker.into(),
        says: Says::Token(token),
        ..pin(3, Vec::new())
    }
    .policy()
}

fn wait_of(due: Result<(), Due>) -> String {
    match due {
        Err(Due::Wait(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// The claim as a write leaves it.
fn written(due: Result<(), Due>) -> Claim {
    match due {
        Err(Due::Act(effects)) => match &effects[..] {
            [Effect::ReplaceClaim { spec, .. }] => Claim::new("claim", spec.clone()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_guest_goes_on_only_when_the_pin_in_force_says_exactly_what_it_says() {
    let host = guarded();
    let says = |claim: &Claim, pin: &OverridePolicy, image: &str| {
        let custody = custody(Some(claim), Some(pin));
        custody.guest(None).unwrap().unwrap().says(&rules(image))
    };
    let empty = pin_of_host("plan.1.3", &[]);
    let asked = written(says(&host, &empty, "web:1"));
    let said = &asked.spec.differences[UID];
    assert_eq!((&said.owner, &said.rules), (&owner(UID), &rules("web:1")));
    assert_eq!(asked.spec.owner, host.spec.owner, "the plan stays the owner");
    assert_eq!(
        (&asked.spec.marker, &asked.spec.included),
        (&host.spec.marker, &BTreeMap::new())
    );
    assert!(wait_of(says(&asked, &empty, "web:1")).contains("to take the change"));
    let mut taken = asked.clone();
    taken.spec.marker = "plan.1.4".into();
    taken.spec.included = included(&taken.spec.differences);
    assert!(wait_of(says(&taken, &empty, "web:1")).contains("to write its pin"));
    // A pin of that marker from which somebody has taken the rules, and one with the rules of another marker.
    assert!(wait_of(says(&taken, &pin_of_host("plan.1.4", &[]), "web:1")).contains("to write its pin"));
    let late = pin_of_host("plan.1.3", &rules("web:1"));
    assert!(wait_of(says(&taken, &late, "web:1")).contains("to write its pin"));
    let in_force = pin_of_host("plan.1.4", &rules("web:1"));
    assert!(says(&taken, &in_force, "web:1").is_ok());
    // Another wording begins anew.
    let again = written(says(&taken, &in_force, "web:2"));
    assert!(wait_of(says(&again, &in_force, "web:2")).contains("to take the change"));
}

#[test]
fn a_guest_enters_only_a_claim_that_rests_and_has_no_other_guest() {
    let enters = |change: &dyn Fn(&mut ClaimSpec)| {
        let mut claim = guarded();
        change(&mut claim.spec);
        may_enter(&claim, UID).is_ok()
    };
    assert!(enters(&|_| {}));
    assert!(!enters(&|spec| spec.guards = false), "it fails over");
    assert!(!enters(&|spec| spec.writer = None), "nobody may run it");
    assert!(!enters(&|spec| spec.marker.clear()), "the pin comes off");
    assert!(
        !enters(&|spec| spec.owner.kind = "Migration".into()),
        "it is lent"
    );
    let said = || Differences {
        owner: owner("other"),
        rules: Vec::new(),
    };
    assert!(!enters(&|spec| drop(
        spec.differences.insert("other".into(), said())
    )));
    assert!(!enters(&|spec| drop(
        spec.included.insert("other".into(), String::new())
    )));
}

#[test]
fn a_guest_that_leaves_waits_until_no_work_is_made_with_what_it_said() {
    let clusters = [ClusterName::from("east")];
    let leaves = |claim: Option<&Claim>, marker: &str| {
        let work: Work = serde_json::from_value(json!({
            "metadata": {"name": "web"}, "spec": {"workload": {"manifests": [
                {"metadata": {"name": "web", "annotations": {MARKER_ANNOTATION: marker}}},
            ]}},
        }))
        .unwrap();
        let live = pin_of_host("plan.1.4", &[]);
        let custody = custody(claim, Some(&live));
        let works = [(clusters[0].clone(), work)];
        let host = guarded().spec.owner;
        custody.leave(
            Some(&host),
            &clusters,
            works.iter().map(|(name, work)| (name, work)),
        )
    };
    let mut claim = guarded();
    let said = Differences {
        owner: owner(UID),
        rules: rules("web:1"),
    };
    claim.spec.differences.insert(UID.into(), said);
    claim.spec.included = included(&claim.spec.differences);
    let mut left = written(leaves(Some(&claim), "plan.1.3"));
    assert!(left.spec.differences.is_empty() && !left.spec.included.is_empty());
    assert!(wait_of(leaves(Some(&left), "plan.1.3")).contains("out of its pin"));
    left.spec.included.clear();
    left.spec.marker = "plan.1.4".into();
    assert!(wait_of(leaves(Some(&left), "plan.1.3")).contains("marker"));
    assert!(leaves(Some(&left), "plan.1.4").is_ok());
    assert!(wait_of(leaves(None, "plan.1.4")).contains("the claim of FailoverPlan"));
}

/// Its own pin would hold nobody.
#[test]
fn a_guest_never_claims_for_itself_what_a_plan_has_guarded() {
    let host = guarded().spec.owner;
    assert!(matches!(
        custody(None, None).guest(Some(&host)),
        Err(Due::Wait(_))
    ));
    assert!(matches!(custody(None, None).guest(None), Ok(None)));
    let lent = claim("migration", "m");
    assert!(matches!(
        custody(Some(&lent), None).guest(Some(&host)),
        Err(Due::Wait(_))
    ));
}

/// Who may run it is read from the hold: a guest may say something everywhere but in one cluster, too.
#[test]
fn a_rule_of_a_guest_about_every_cluster_but_one_lets_that_one_not_run() {
    let rule: crate::api::PinnedRule = Rule {
        place: Place::AllBut(vec!["west".into()]),
        patches: vec![PatchOp::add("/spec/state", "suspended")],
    }
    .into();
    let live = pin_of_host("plan.1.3", &[rule]);
    assert!(names(&live, HOST, &"east".into()));
    assert!(!names(&live, HOST, &"west".into()));
}

#[test]
fn whoever_owns_a_claim_leaves_what_guests_say_and_recreates_a_lost_one_with_it() {
    let said = |image: &str| Differences {
        owner: owner("guest"),
        rules: rules(image),
    };
    let terms = || Terms {
        guests: BTreeMap::from([("guest".to_owned(), said("web:1"))]),
        ..Terms::default()
    };
    let mut live = claim(UID, "");
    live.spec.differences.insert("guest".into(), said("web:2"));
    let spec = custody(Some(&live), None).spec(&state(1, true, false), terms());
    assert_eq!(spec.differences["guest"], said("web:2"));
    assert_eq!(
        spec.included,
        included(&terms().guests),
        "the pin includes what the journal has"
    );
    let anew = custody(None, None).spec(&state(1, true, false), terms());
    assert_eq!(anew.differences["guest"], said("web:1"));
}

#[test]
fn a_claim_of_before_has_no_guests() {
    let read = claim(UID, "uid.1.1");
    assert!(read.spec.differences.is_empty() && read.spec.included.is_empty());
    let written = serde_json::to_value(&read.spec).unwrap();
    assert!(written.get("differences").is_none() && written.get("included").is_none());
}
