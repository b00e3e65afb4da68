//! What two things do that come one after the other, or a word that comes late: the table of single ones (`cells.rs`) can't show it.

use std::sync::Arc;

use cutover_core::api::{Assumption, Fact, Phase, RollBackStage};
use cutover_core::intent::pin;
use cutover_karmada::name::ClusterName;
use cutover_sim::kinds::Migration;
use cutover_sim::ledger::{Origin, Violation};
use cutover_sim::{EAST, Event, Sim, WEST, member};
use jiff::SignedDuration;
use serde_json::{Value, json};

const ROUNDS: u32 = 400;
/// Long enough for what is sent to come about.
const A_WHILE: u32 = 20;

fn phase(sim: &Sim) -> Phase {
    sim.intent::<Migration>(0).unwrap().status.phase
}

/// Goes on until something is so, line by line.
fn comes_to(sim: &mut Sim, is_so: impl Fn(&Sim) -> bool) {
    for _ in 0..ROUNDS {
        while sim.turn(0) {
            if is_so(sim) {
                return;
            }
        }
        sim.round();
    }
    unreachable!("{}", sim.account());
}

/// A migration right after it has entered a phase, before its first effect there.
fn entering(wanted: Phase) -> Sim {
    let mut sim = Sim::new(&json!({})).unwrap();
    comes_to(&mut sim, |sim| phase(sim) == wanted);
    sim
}

fn runs_alone(sim: &Sim, cluster: &str) {
    assert_eq!(sim.writers(0), [&ClusterName::new(cluster)], "{}", sim.account());
}

fn ends(sim: &mut Sim, wanted: Phase, runs: &str) {
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(phase(sim), wanted, "{}", sim.account());
    runs_alone(sim, runs);
}

/// A person gives a word about the phase that it is in, offered or not.
fn says(sim: &mut Sim, fact: Fact, cluster: &str) {
    let intent = sim.intent_mut::<Migration>(0).unwrap();
    let (attempt, phase) = (intent.status.common.attempt, intent.status.phase);
    intent.spec.assume.push(Assumption {
        fact,
        cluster: ClusterName::new(cluster),
        attempt,
        phase,
        by: Some("a person".to_owned()),
    });
}

fn offers(sim: &Sim, fact: Fact, cluster: &str) -> bool {
    let wait = sim
        .intent::<Migration>(0)
        .unwrap()
        .status
        .common
        .waiting_for
        .clone();
    wait.is_some_and(|wait| {
        let mut offers = wait.offers.iter();
        offers.any(|offer| offer.fact == fact && offer.cluster.as_str() == cluster)
    })
}

fn is_seen(sim: &mut Sim, cluster: &str, seen: bool) {
    sim.member(cluster).unwrap().refuses = !seen;
}

#[test]
fn a_source_that_is_not_seen_keeps_the_token_until_it_is() {
    let mut sim = entering(Phase::Capture);
    is_seen(&mut sim, EAST, false);
    sim.go_on(A_WHILE);
    runs_alone(&sim, EAST);
    is_seen(&mut sim, EAST, true);
    ends(&mut sim, Phase::Completed, WEST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_source_is_not_stopped_for_a_target_that_is_not_seen() {
    let mut sim = entering(Phase::Capture);
    is_seen(&mut sim, WEST, false);
    for _ in 0..A_WHILE {
        sim.round();
        runs_alone(&sim, EAST);
    }
}

#[test]
fn a_pause_stops_no_source_that_nobody_sees() {
    let mut sim = entering(Phase::Capture);
    is_seen(&mut sim, EAST, false);
    sim.actors[0].pause(true);
    sim.go_on(A_WHILE);
    runs_alone(&sim, EAST);
    is_seen(&mut sim, EAST, true);
    sim.actors[0].pause(false);
    ends(&mut sim, Phase::Completed, WEST);
}

#[test]
fn a_source_that_was_never_told_to_stop_is_let_be_when_it_is_called_off() {
    let mut sim = entering(Phase::Capture);
    let before = sim.members[0].copy(0);
    is_seen(&mut sim, EAST, false);
    sim.go_on(2);
    sim.actors[0].abort();
    for _ in 0..A_WHILE {
        sim.round();
        runs_alone(&sim, EAST);
    }
    is_seen(&mut sim, EAST, true);
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.members[0].copy(0), before, "the same run\n{}", sim.account());
    let downtime = sim.intent::<Migration>(0).unwrap().status.downtime_ms;
    assert_eq!(downtime, None, "none was told to stop");
}

/// A person vouches that nothing runs in a target which is seen again, and running, before that is read.
#[test]
fn a_word_that_comes_after_the_copy_was_seen_again_makes_no_second_writer() {
    let mut sim = entering(Phase::Verify);
    sim.go_on(1);
    runs_alone(&sim, WEST);
    Event::CutOff(WEST).happens(&mut sim);
    sim.actors[0].abort();
    sim.go_on(A_WHILE);
    // Seen again, and Karmada doesn't reach it.
    sim.member(WEST).unwrap().is_seen = true;
    says(&mut sim, Fact::Stopped, WEST);
    sim.go_on(2);
    sim.member(WEST).unwrap().is_seen = false;
    sim.go_on(2);
    // What is asked next takes the first word for granted.
    says(&mut sim, Fact::From, EAST);
    sim.go_on(A_WHILE);
    assert!(sim.writers(0).len() <= 1, "{}", sim.account());
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_source_that_is_recreated_on_the_way_back_is_told() {
    let mut sim = entering(Phase::Capture);
    sim.go_on(1);
    sim.play_until(ROUNDS, |sim| phase(sim) == Phase::Handoff);
    sim.actors[0].abort();
    let is_back = |sim: &Sim| {
        let status = &sim.intent::<Migration>(0).unwrap().status;
        let back = status
            .journal
            .as_ref()
            .and_then(|journal| journal.roll_back.as_ref());
        back.is_some_and(|back| back.stage == RollBackStage::Returned)
            && sim.writers(0) == [&ClusterName::new(EAST)]
    };
    assert!(sim.play_until(ROUNDS, is_back), "{}", sim.account());
    // It has written since, and its new copy begins from the handle of before.
    sim.plane.git.is_down = true;
    sim.go_on(2);
    if sim.is_over() {
        return;
    }
    Event::CopyDeleted(EAST).happens(&mut sim);
    sim.plane.git.is_down = false;
    sim.go_on(A_WHILE);
    let findings = sim.actors[0].findings();
    assert!(
        findings.iter().any(|finding| finding.code == "CopyMadeAnew"),
        "{}",
        sim.account()
    );
    assert!(offers(&sim, Fact::From, EAST), "{}", sim.account());
    says(&mut sim, Fact::From, EAST);
    ends(&mut sim, Phase::Aborted, EAST);
}

#[test]
fn a_pin_that_holds_nobody_any_more_is_put_back_and_told() {
    let mut sim = entering(Phase::Verify);
    sim.go_on(1);
    sim.actors[0].abort();
    let is_given_back = |sim: &Sim| stage(sim) == Some(RollBackStage::Taken) && sim.writers(0).is_empty();
    assert!(sim.play_until(ROUNDS, is_given_back), "{}", sim.account());
    comes_to(&mut sim, |sim| journal(sim).writer.is_some());
    Event::PinLoosened.happens(&mut sim);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let findings = sim.actors[0].findings();
    assert!(
        findings.iter().any(|finding| finding.code == "SingleWriterLapse"),
        "{}",
        sim.account()
    );
}

/// A word that was asked for while the target could not be seen comes late, and one look later fails.
#[test]
fn an_old_word_undoes_no_commit() {
    for fact in [Fact::To, Fact::Settle] {
        let mut sim = entering(Phase::Cleanup);
        sim.plane.git.is_down = true;
        is_seen(&mut sim, WEST, false);
        sim.go_on(A_WHILE);
        is_seen(&mut sim, WEST, true);
        says(&mut sim, fact, if fact == Fact::To { EAST } else { WEST });
        sim.go_on(2);
        is_seen(&mut sim, WEST, false);
        sim.go_on(2);
        runs_alone(&sim, WEST);
        is_seen(&mut sim, WEST, true);
        sim.plane.git.is_down = false;
        ends(&mut sim, Phase::Completed, WEST);
        let findings = sim.actors[0].findings();
        assert!(
            findings.iter().all(|finding| finding.code != "Settled"),
            "{}",
            sim.account()
        );
    }
}

fn journal(sim: &Sim) -> &cutover_core::api::Journal {
    sim.intent::<Migration>(0)
        .unwrap()
        .status
        .journal
        .as_ref()
        .unwrap()
}

fn stage(sim: &Sim) -> Option<RollBackStage> {
    journal(sim).roll_back.as_ref().map(|back| back.stage)
}

/// The operator of a source that was proved stopped fails, and its status does not say any more that it has stopped.
fn says_no_more_that_it_has_stopped(sim: &mut Sim, change: impl Fn(&mut Value)) {
    let copy = &mut sim.member(EAST).unwrap().copies[0];
    let object = Arc::make_mut(copy.object.as_mut().unwrap());
    object["status"]["jobManagerDeploymentStatus"] = "DEPLOYING".into();
    change(object);
}

#[test]
fn an_operator_that_fails_after_the_stop_takes_nothing_from_the_target() {
    for phase in [Phase::Handoff, Phase::Verify] {
        let mut sim = entering(phase);
        let has_token = |sim: &Sim| journal(sim).writer.as_ref() == Some(&ClusterName::new(WEST));
        assert!(sim.play_until(ROUNDS, has_token), "{}", sim.account());
        assert!(sim.play_until(ROUNDS, |sim| !sim.writers(0).is_empty()));
        says_no_more_that_it_has_stopped(&mut sim, |_| {});
        ends(&mut sim, Phase::Completed, WEST);
        assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
    }
}

/// Another order may have come in between, or another cluster shows what a backup has of it.
#[test]
fn a_source_that_may_be_another_one_since_its_stop_is_not_taken_for_stopped() {
    for is_replaced in [false, true] {
        let mut sim = entering(Phase::Verify);
        says_no_more_that_it_has_stopped(&mut sim, |object| {
            if !is_replaced {
                let generation = object["metadata"]["generation"].as_i64().unwrap();
                object["metadata"]["generation"] = (generation + 1).into();
            }
        });
        if is_replaced {
            let clusters = Arc::make_mut(&mut sim.plane.clusters);
            let east = clusters.get_mut(&ClusterName::new(EAST)).unwrap();
            east.metadata.uid = Some("another".to_owned());
        }
        let is_committed = |sim: &Sim| matches!(phase(sim), Phase::Cleanup | Phase::Completed);
        assert!(!sim.play_until(ROUNDS, is_committed), "{}", sim.account());
    }
}

/// On the way back from a target that can't start, whose source nobody sees: the target has the token.
fn kept() -> Sim {
    let mut sim = entering(Phase::Handoff);
    sim.member(WEST).unwrap().reads_no_handle = true;
    let has_token = |sim: &Sim| {
        let pin = sim.plane.workloads[0].pin.as_ref().unwrap();
        let marker = pin::marker(sim.actors[0].uid(), 1, journal(sim).pin.seq);
        journal(sim).writer.as_ref() == Some(&ClusterName::new(WEST))
            && pin::marker_of(pin) == Some(marker.as_str())
    };
    while !has_token(&sim) {
        assert!(
            sim.turn(0) || {
                sim.round();
                true
            }
        );
    }
    is_seen(&mut sim, EAST, false);
    sim.actors[0].abort();
    assert!(
        sim.play_until(ROUNDS, |sim| stage(sim) == Some(RollBackStage::Kept)),
        "{}",
        sim.account()
    );
    sim
}

#[test]
fn a_pause_stops_no_source_that_was_not_told_to_stop_yet() {
    let mut sim = entering(Phase::Capture);
    sim.actors[0].pause(true);
    for _ in 0..A_WHILE {
        sim.round();
        runs_alone(&sim, EAST);
    }
    sim.actors[0].pause(false);
    ends(&mut sim, Phase::Completed, WEST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

/// Where an admission fence refuses Works without the marker of the claim, the source's can be written as long as it runs.
#[test]
fn the_claim_expects_no_other_marker_than_the_pin_while_the_source_is_not_stopped() {
    let mut sim = entering(Phase::Capture);
    is_seen(&mut sim, EAST, false);
    for _ in 0..A_WHILE {
        sim.round();
        let orders = &sim.plane.workloads[0];
        let pin = serde_json::to_string(&orders.pin.as_ref().unwrap().spec.override_rules).unwrap();
        let marker = &orders.claim.as_ref().unwrap().spec.marker;
        assert!(pin.contains(marker.as_str()), "{marker}\n{}", sim.account());
    }
}

#[test]
fn the_time_in_which_the_source_still_ran_is_no_downtime() {
    let mut sim = entering(Phase::Capture);
    is_seen(&mut sim, EAST, false);
    let before = sim.now;
    sim.go_on(A_WHILE);
    let held_back = sim.now.duration_since(before).as_millis();
    is_seen(&mut sim, EAST, true);
    ends(&mut sim, Phase::Completed, WEST);
    let downtime = sim.intent::<Migration>(0).unwrap().status.downtime_ms.unwrap();
    assert!(
        i128::from(downtime) < held_back,
        "{downtime} {held_back}\n{}",
        sim.account()
    );
}

/// A person lets the target stay, because the source is lost; the source comes back, gets the token, and one look at it fails.
#[test]
fn an_old_word_for_the_target_stops_no_source_that_has_the_token_again() {
    let mut sim = kept();
    says(&mut sim, Fact::To, WEST);
    sim.go_on(2);
    is_seen(&mut sim, EAST, true);
    let is_back = |sim: &Sim| {
        stage(sim) == Some(RollBackStage::Returned) && sim.writers(0) == [&ClusterName::new(EAST)]
    };
    assert!(sim.play_until(ROUNDS, is_back), "{}", sim.account());
    // And once more, late, when it is not asked for.
    Event::OperatorFrozen(EAST).happens(&mut sim);
    says(&mut sim, Fact::To, WEST);
    sim.go_on(2);
    sim.member(EAST).unwrap().is_frozen = false;
    is_seen(&mut sim, EAST, false);
    for _ in 0..A_WHILE {
        sim.round();
        runs_alone(&sim, EAST);
    }
    is_seen(&mut sim, EAST, true);
    ends(&mut sim, Phase::Aborted, EAST);
}

#[test]
fn a_target_that_can_not_start_beside_a_lost_source_may_start_from_nothing() {
    let mut sim = kept();
    Event::Gone(EAST).happens(&mut sim);
    sim.go_on(4 * A_WHILE);
    assert!(
        offers(&sim, Fact::Stopped, EAST) || offers(&sim, Fact::FromNothing, WEST),
        "{}",
        sim.account()
    );
    says(&mut sim, Fact::Stopped, EAST);
    sim.go_on(8 * A_WHILE);
    assert!(offers(&sim, Fact::FromNothing, WEST), "{}", sim.account());
    says(&mut sim, Fact::FromNothing, WEST);
    sim.go_on(A_WHILE);
    runs_alone(&sim, WEST);
    assert!(offers(&sim, Fact::To, WEST), "{}", sim.account());
    says(&mut sim, Fact::To, WEST);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    runs_alone(&sim, WEST);
    let findings = sim.actors[0].findings();
    assert!(
        findings.iter().any(|finding| finding.code == "StateGivenUp"),
        "{}",
        sim.account()
    );
}

/// Flink's operator works on an object at most 5 times in 15 s, and may begin its next pass 30 s later. What it says of something else
/// meanwhile is no reason to ask for what the target wrote to be given up.
#[test]
fn a_target_whose_operator_is_only_late_is_not_given_up() {
    const LATE: SignedDuration = SignedDuration::from_secs(25);
    let mut sim = entering(Phase::Verify);
    sim.go_on(1);
    let member = sim.member(WEST).unwrap();
    member.is_frozen = true;
    let object = member.copies[0].object.as_mut().unwrap();
    let mut says = (**object).clone();
    says["status"]["error"] = json!("the last savepoint failed");
    *object = Arc::new(says);
    let began = sim.now;
    sim.actors[0].abort();
    while sim.now.duration_since(began) < LATE {
        sim.round();
        assert!(!offers(&sim, Fact::From, EAST), "{}", sim.account());
    }
    assert_eq!(stage(&sim), Some(RollBackStage::Taken), "{}", sim.account());
    let is_asked = |sim: &Sim| offers(sim, Fact::From, EAST);
    assert!(sim.play_until(ROUNDS, is_asked), "{}", sim.account());
    sim.member(WEST).unwrap().is_frozen = false;
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

/// Each return is longer than the one before, and a healthy target is stopped for a source only after it was watched for a while.
#[test]
fn a_source_that_comes_and_goes_does_not_stop_a_healthy_target_each_time() {
    let mut sim = entering(Phase::Verify);
    sim.go_on(1);
    is_seen(&mut sim, EAST, false);
    sim.actors[0].abort();
    assert!(
        sim.play_until(ROUNDS, |sim| stage(sim) == Some(RollBackStage::Kept)),
        "{}",
        sim.account()
    );
    sim.go_on(A_WHILE);
    for _ in 0..5 {
        is_seen(&mut sim, EAST, true);
        sim.go_on(2);
        is_seen(&mut sim, EAST, false);
        for _ in 0..4 {
            sim.round();
            runs_alone(&sim, WEST);
        }
    }
    is_seen(&mut sim, EAST, true);
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn what_was_said_of_a_target_that_is_seen_again_is_not_said_in_the_end() {
    let mut sim = entering(Phase::Cleanup);
    is_seen(&mut sim, WEST, false);
    sim.go_on(A_WHILE);
    sim.plane.git.is_down = true;
    says(&mut sim, Fact::Settle, WEST);
    while !sim.actors[0]
        .findings()
        .iter()
        .any(|finding| finding.code == "Settled")
    {
        sim.turn(0);
    }
    is_seen(&mut sim, WEST, true);
    sim.go_on(A_WHILE);
    sim.plane.git.is_down = false;
    ends(&mut sim, Phase::Completed, WEST);
    let findings = sim.actors[0].findings();
    assert!(
        findings.iter().all(|finding| finding.code != "Settled"),
        "{}",
        sim.account()
    );
}

/// What it wrote is in its cluster alone: it runs again from that, and is not stopped once more.
#[test]
fn a_target_that_stops_without_a_state_handle_keeps_the_workload() {
    let mut sim = entering(Phase::Verify);
    sim.go_on(1);
    sim.member(WEST).unwrap().falls_back = true;
    sim.actors[0].abort();
    assert!(
        sim.play_until(ROUNDS, |sim| stage(sim) == Some(RollBackStage::Kept)),
        "{}",
        sim.account()
    );
    sim.go_on(A_WHILE);
    for _ in 0..4 * A_WHILE {
        runs_alone(&sim, WEST);
        sim.round();
    }
    assert!(offers(&sim, Fact::From, EAST), "{}", sim.account());
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

/// A person ends it without a look, and gives the workload back before that is done: nothing of the end is left out for the first word.
#[test]
fn whoever_gives_the_workload_back_has_not_settled_it() {
    let mut sim = entering(Phase::Cleanup);
    sim.plane.git.is_down = true;
    is_seen(&mut sim, WEST, false);
    sim.go_on(A_WHILE);
    says(&mut sim, Fact::Settle, WEST);
    while !sim.actors[0]
        .findings()
        .iter()
        .any(|finding| finding.code == "Settled")
    {
        sim.turn(0);
    }
    says(&mut sim, Fact::To, EAST);
    assert!(
        sim.play_until(ROUNDS, |sim| phase(sim) == Phase::RollingBack),
        "{}",
        sim.account()
    );
    let findings = sim.actors[0].findings();
    assert!(
        findings.iter().all(|finding| finding.code != "Settled"),
        "{}",
        sim.account()
    );
}

/// Nothing shows any more what is in force, and the state handle of the target is with the tool alone.
#[test]
fn a_source_that_leaves_karmada_on_the_way_back_ends_it_on_a_word() {
    let mut sim = entering(Phase::Verify);
    sim.go_on(2);
    sim.actors[0].abort();
    comes_to(&mut sim, |sim| {
        let is_alone = sim.plane.workloads[0].listed() == [ClusterName::new(EAST)];
        is_alone && stage(sim) == Some(RollBackStage::Returned)
    });
    sim.settle();
    Event::GoneAndUnjoined(EAST).happens(&mut sim);
    sim.go_on(A_WHILE);
    assert!(offers(&sim, Fact::Stopped, EAST), "{}", sim.account());
    says(&mut sim, Fact::Stopped, EAST);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let ended = &sim.intent::<Migration>(0).unwrap().status;
    assert_eq!(ended.phase, Phase::Aborted, "{}", sim.account());
    let told = ended.common.findings.iter().map(|finding| &finding.message);
    let is_told = |message: &String| message.contains("is not handed over");
    assert_eq!(
        told.filter(|message| is_told(message)).count(),
        1,
        "{}",
        sim.account()
    );
}

/// A source whose operator starts it from no other handle than its own; the target has taken over.
fn before_recreating() -> Sim {
    let mut sim = entering(Phase::Hold);
    let intent = sim.intent_mut::<Migration>(0).unwrap();
    let journal = intent.status.journal.as_mut().unwrap();
    let profile = Arc::make_mut(&mut journal.profile);
    profile.restart_from.clear();
    profile.recreate_for_handle = true;
    let target_runs = |sim: &Sim| sim.writers(0) == [&ClusterName::new(WEST)];
    assert!(sim.play_until(ROUNDS, target_runs), "{}", sim.account());
    sim
}

/// On the way back to such a source: it is about to be created again.
fn recreating() -> Sim {
    let mut sim = before_recreating();
    sim.actors[0].abort();
    comes_to(&mut sim, is_recreating);
    sim
}

/// An edit of the template reaches the source's held copy, whose operator says nothing more about it.
fn source_is_edited(sim: &mut Sim) {
    sim.member(EAST).unwrap().is_frozen = true;
    Event::TemplateEdited.happens(sim);
    sim.go_on(A_WHILE);
}

fn is_recreating(sim: &Sim) -> bool {
    stage(sim) == Some(RollBackStage::Recreating)
}

fn is_listed(sim: &Sim) -> bool {
    sim.plane.workloads[0].listed().contains(&ClusterName::new(EAST))
}

fn is_to_be_let_go(sim: &Sim) -> bool {
    journal(sim).fence.belt.as_ref().is_some_and(|belt| belt.off)
}

/// The uid of the source's copy, where there is one.
fn source_uid(sim: &Sim) -> Option<String> {
    sim.members[0].copy(0).map(|(_, uid)| uid)
}

#[test]
fn the_pin_is_upheld_while_git_is_waited_for_before_a_source_is_created_again() {
    let mut sim = recreating();
    sim.plane.git.is_down = true;
    Event::PinDeleted.happens(&mut sim);
    sim.settle();
    assert_eq!(sim.writers(0).len(), 2, "{}", sim.account());
    sim.go_on(A_WHILE);
    assert!(sim.writers(0).is_empty(), "{}", sim.account());
}

/// What the target has written since is taken along; of what the source has written a person is asked where it can still be seen.
#[test]
fn a_pin_that_is_removed_while_a_source_is_created_again_loses_nothing_unasked() {
    type Step = (&'static str, fn(&Sim) -> bool, bool);
    let steps: [Step; 7] = [
        ("begun", is_listed, true),
        (
            "to be taken out",
            |sim| !journal(sim).clusters.contains(&ClusterName::new(EAST)),
            true,
        ),
        ("to be let go", is_to_be_let_go, true),
        ("taken out", |sim| !is_listed(sim), false),
        ("gone", |sim| source_uid(sim).is_none(), false),
        (
            "listed again",
            |sim| source_uid(sim).is_none() && is_listed(sim),
            true,
        ),
        (
            "created again",
            |sim| source_uid(sim).is_some_and(|uid| Some(uid) != journal(sim).source_uid),
            true,
        ),
    ];
    for (step, is_there, is_asked) in steps {
        let mut sim = recreating();
        comes_to(&mut sim, |sim| is_recreating(sim) && is_there(sim));
        Event::PinDeleted.happens(&mut sim);
        sim.settle();
        sim.go_on(A_WHILE);
        let asks = offers(&sim, Fact::From, EAST);
        assert_eq!(asks, is_asked, "{step}\n{}", sim.account());
        if is_asked {
            says(&mut sim, Fact::From, WEST);
        }
        ends(&mut sim, Phase::Aborted, EAST);
        let is_told = |sim: &Sim| {
            let mut findings = sim.actors[0].findings().iter();
            findings.any(|finding| finding.code == "SingleWriterLapse")
        };
        assert!(is_told(&sim), "{step}\n{}", sim.account());
        let is_old = |violation: &Violation| {
            matches!(violation, Violation::Lost { by, from: Origin::Handle(handle), .. }
                if by.0.as_str() == EAST && handle.contains(WEST))
        };
        let is_old = sim.ledgers[0].violations.iter().any(is_old);
        assert!(!is_old && sim.breaches.is_empty(), "{step}\n{}", sim.account());
    }
}

#[test]
fn a_healthy_target_is_not_stopped_for_a_source_that_could_not_be_created_again() {
    let mut sim = before_recreating();
    source_is_edited(&mut sim);
    sim.actors[0].abort();
    sim.go_on(A_WHILE);
    runs_alone(&sim, WEST);
    assert!(offers(&sim, Fact::To, WEST), "{}", sim.account());
    says(&mut sim, Fact::To, WEST);
    ends(&mut sim, Phase::Completed, WEST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_person_may_delete_the_copy_of_a_source_that_is_to_be_created_again() {
    let mut sim = recreating();
    source_is_edited(&mut sim);
    let wait = sim.actors[0].waiting_for().unwrap();
    assert!(
        wait.reason.contains("delete the copy in east"),
        "{}",
        sim.account()
    );
    Event::CopyDeleted(EAST).happens(&mut sim);
    sim.member(EAST).unwrap().is_frozen = false;
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn the_copy_that_was_created_again_is_the_source_from_then_on() {
    let mut sim = recreating();
    let before = source_uid(&sim);
    comes_to(&mut sim, |sim| stage(sim) == Some(RollBackStage::Returned));
    assert_ne!(source_uid(&sim), before, "{}", sim.account());
    assert_eq!(journal(&sim).source_uid, source_uid(&sim), "{}", sim.account());
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

/// Pods of it may still run on the node: only a person can know.
#[test]
fn a_source_with_a_lost_node_is_created_again_on_a_word() {
    let mut sim = recreating();
    let node = member::NODES[0];
    sim.member(EAST).unwrap().set_node(node, false);
    let intent = sim.intent_mut::<Migration>(0).unwrap();
    let nodes = &mut intent.status.journal.as_mut().unwrap().nodes;
    let ran_on = nodes.entry(ClusterName::new(EAST)).or_default();
    ran_on.insert(format!("{EAST}-{node}"));
    sim.go_on(A_WHILE);
    assert!(offers(&sim, Fact::Stopped, EAST), "{}", sim.account());
    says(&mut sim, Fact::Stopped, EAST);
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn where_the_old_copy_of_a_source_does_not_go_a_person_may_let_the_workload_stay() {
    let mut sim = recreating();
    comes_to(&mut sim, |sim| !is_listed(sim));
    sim.member(EAST).unwrap().is_steered = false;
    let may_stay = |sim: &Sim| offers(sim, Fact::To, WEST);
    assert!(sim.play_until(ROUNDS, may_stay), "{}", sim.account());
    assert!(sim.writers(0).is_empty(), "{}", sim.account());
    says(&mut sim, Fact::To, WEST);
    sim.go_on(A_WHILE);
    runs_alone(&sim, WEST);
    sim.member(EAST).unwrap().is_steered = true;
    ends(&mut sim, Phase::Completed, WEST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_look_at_the_source_that_fails_keeps_its_copy_and_gives_up_nothing_of_a_lost_target() {
    let mut sim = recreating();
    comes_to(&mut sim, is_to_be_let_go);
    is_seen(&mut sim, EAST, false);
    comes_to(&mut sim, |sim| stage(sim) == Some(RollBackStage::Taken));
    is_seen(&mut sim, EAST, true);
    is_seen(&mut sim, WEST, false);
    sim.go_on(A_WHILE);
    let binding = sim.plane.workloads[0].binding.as_ref().unwrap();
    let preserve = binding.typed.spec.preserve_resources_on_deletion;
    assert_eq!(preserve, Some(true), "{}", sim.account());
    Event::Gone(WEST).happens(&mut sim);
    sim.go_on(A_WHILE);
    assert!(offers(&sim, Fact::Stopped, WEST), "{}", sim.account());
    says(&mut sim, Fact::Stopped, WEST);
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_foreign_object_in_place_of_the_source_is_waited_for() {
    let mut sim = recreating();
    comes_to(&mut sim, |sim| source_uid(sim).is_none());
    let foreign = json!({
        "metadata": {
            "name": "orders", "namespace": "shop", "uid": "foreign", "generation": 1, "labels": {}, "annotations": {},
        },
        "spec": {"job": {"state": "suspended"}},
    });
    sim.member(EAST).unwrap().copies[0].object = Some(Arc::new(foreign));
    sim.go_on(A_WHILE);
    let steps = |sim: &Sim| {
        let status = &sim.intent::<Migration>(0).unwrap().status;
        status.common.steps.len()
    };
    let before = steps(&sim);
    sim.go_on(A_WHILE);
    assert_eq!(steps(&sim), before, "{}", sim.account());
    let wait = sim.actors[0].waiting_for().unwrap();
    assert!(
        wait.reason.contains("a person must remove it there"),
        "{}",
        sim.account()
    );
    sim.member(EAST).unwrap().copies[0].object = None;
    ends(&mut sim, Phase::Aborted, EAST);
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}
