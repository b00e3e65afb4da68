//! What the ledger makes of a record, one sentence a test.

use super::*;

fn orders() -> ObjectKey {
    ObjectKey {
        group: "flink.apache.org".into(),
        kind: "FlinkDeployment".into(),
        namespace: Some("streaming".into()),
        name: "orders".into(),
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap()
}

fn writer(cluster: &str) -> Writer {
    Writer {
        cluster: cluster.into(),
        uid: format!("{cluster}-uid"),
    }
}

fn start(ledger: &Ledger, cluster: &str, millis: i64, group: Group, origin: Origin) {
    ledger.writer_started(Start {
        workload: orders(),
        writer: writer(cluster),
        group,
        at: at(millis),
        handle_given: None,
        restored_from: origin,
        writes: 0,
        by_itself: false,
    });
}

fn stop(ledger: &Ledger, cluster: &str, millis: i64) {
    ledger.writer_stopped(&orders(), &writer(cluster), at(millis));
}

/// Everything that a run has written since the beginning of the record is in the handle.
fn taken(ledger: &Ledger, cluster: &str, millis: i64, handle: &str, writes: u64) {
    ledger.handle_taken(&orders(), &writer(cluster), at(millis), handle, writes);
}

/// Each start that lost something: where, how many writes, and whose.
fn losses(ledger: &Ledger) -> Vec<(String, u64, Vec<Writer>)> {
    let lost = ledger.verdict().lost_state.into_iter();
    lost.map(|lost| (lost.writer.cluster.to_string(), lost.writes, lost.of))
        .collect()
}

fn handle(name: &str) -> Origin {
    Origin::Handle(name.into())
}

#[test]
fn a_migration_with_state_is_clean_and_its_downtime_is_the_gap() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    taken(&ledger, "east", 500, "s1", 500);
    stop(&ledger, "east", 500);
    start(&ledger, "west", 900, Group::Stateful, handle("s1"));
    let verdict = ledger.verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!(verdict.max_writers_at_once, 1);
    let gap = &verdict.gaps[0];
    assert_eq!(
        (&gap.before, &gap.after, gap.duration()),
        (&writer("east"), &writer("west"), SignedDuration::from_millis(400))
    );
    assert_eq!(verdict.downtime(&orders()), SignedDuration::from_millis(400));
    assert_eq!(verdict.runs[1].until, None);
}

#[test]
fn two_that_can_write_at_once_are_an_overlap_even_when_reported_out_of_order() {
    let ledger = Ledger::new();
    start(&ledger, "west", 300, Group::Stateful, handle("s1"));
    ledger.writer_stopped(&orders(), &writer("east"), at(450));
    start(&ledger, "east", 0, Group::Stateful, handle("s1"));
    let verdict = ledger.verdict();
    assert_eq!(verdict.max_writers_at_once, 2);
    let overlap = &verdict.overlaps[0];
    assert_eq!((overlap.from, overlap.until), (at(300), Some(at(450))));
    assert_eq!(overlap.who, [writer("east"), writer("west")]);
}

#[test]
fn a_stop_at_the_instant_of_a_start_is_no_overlap() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    start(&ledger, "west", 10, Group::Stateful, handle("s1"));
    ledger.writer_stopped(&orders(), &writer("east"), at(10));
    assert_eq!(ledger.verdict().overlaps, []);
}

#[test]
fn starting_empty_after_somebody_ran_loses_all_that_was_written() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    stop(&ledger, "east", 5);
    start(&ledger, "west", 10, Group::Stateful, Origin::Empty);
    assert_eq!(losses(&ledger), [("west".to_owned(), 5, vec![writer("east")])]);
    assert_eq!(ledger.verdict().lost_state[0].newest, None);
}

#[test]
fn starting_from_an_older_handle_loses_what_was_written_since() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, handle("from elsewhere"));
    taken(&ledger, "east", 5, "s1", 5);
    taken(&ledger, "east", 6, "s2", 6);
    stop(&ledger, "east", 6);
    start(&ledger, "west", 10, Group::Stateful, handle("s1"));
    assert_eq!(losses(&ledger), [("west".to_owned(), 1, vec![writer("east")])]);
    assert_eq!(ledger.verdict().lost_state[0].newest.as_deref(), Some("s2"));
}

/// The handle is the newest that anybody has, and yet not the newest state.
#[test]
fn the_newest_handle_is_not_the_newest_state_when_its_copy_ran_on() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    taken(&ledger, "east", 500, "s1", 500);
    stop(&ledger, "east", 500);
    start(&ledger, "west", 600, Group::Stateful, handle("s1"));
    stop(&ledger, "west", 900);
    start(&ledger, "west", 1000, Group::Stateful, handle("s1"));
    assert_eq!(losses(&ledger), [("west".to_owned(), 300, vec![writer("west")])]);
}

#[test]
fn what_is_lost_is_counted_once() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    stop(&ledger, "east", 100);
    start(&ledger, "west", 200, Group::Stateful, Origin::Empty);
    taken(&ledger, "west", 300, "s1", 100);
    stop(&ledger, "west", 300);
    start(&ledger, "east", 400, Group::Stateful, handle("s1"));
    assert_eq!(losses(&ledger), [("west".to_owned(), 100, vec![writer("east")])]);
}

/// Each of two has gone on from the same state: to keep one is to give up what the other wrote.
#[test]
fn of_two_branches_the_one_that_nobody_goes_on_from_is_lost() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    taken(&ledger, "east", 100, "s1", 100);
    stop(&ledger, "east", 100);
    start(&ledger, "west", 200, Group::Stateful, handle("s1"));
    taken(&ledger, "west", 500, "s2", 400);
    stop(&ledger, "west", 500);
    start(&ledger, "east", 600, Group::Stateful, handle("s1"));
    assert_eq!(losses(&ledger), [("east".to_owned(), 300, vec![writer("west")])]);
    taken(&ledger, "east", 650, "s3", 150);
    stop(&ledger, "east", 650);
    start(&ledger, "west", 700, Group::Stateful, handle("s2"));
    assert_eq!(losses(&ledger)[1], ("west".to_owned(), 50, vec![writer("east")]));
}

#[test]
fn one_that_writes_on_beside_its_successor_loses_what_it_writes() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    taken(&ledger, "east", 100, "s1", 100);
    start(&ledger, "west", 100, Group::Stateful, handle("s1"));
    stop(&ledger, "east", 140);
    taken(&ledger, "west", 300, "s2", 300);
    stop(&ledger, "west", 300);
    start(&ledger, "east", 400, Group::Stateful, handle("s2"));
    let verdict = ledger.verdict();
    assert_eq!((verdict.overlaps.len(), verdict.overlaps[0].lost), (1, 40));
    assert_eq!(verdict.lost_state, [], "it is told once");
}

#[test]
fn a_job_repeats_by_itself_what_it_did_since_its_checkpoint_and_nothing_else_is_in_order() {
    for (from, lost) in [("chk-3", 0), ("s1", 200)] {
        let ledger = Ledger::new();
        start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
        taken(&ledger, "east", 500, "s1", 500);
        ledger.handle_retained(&orders(), &writer("east"), at(700), "chk-3", 600);
        stop(&ledger, "east", 700);
        start(&ledger, "west", 1000, Group::Stateful, handle(from));
        taken(&ledger, "west", 1100, "s2", 700);
        stop(&ledger, "west", 1100);
        start(&ledger, "east", 1200, Group::Stateful, handle("s2"));
        let writes: u64 = losses(&ledger).iter().map(|(_, writes, _)| writes).sum();
        assert_eq!(writes, lost, "{from}: {}", ledger.verdict());
    }
}

#[test]
fn a_process_that_is_restarted_with_an_older_handle_loses_by_itself() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    stop(&ledger, "east", 50);
    ledger.writer_started(Start {
        workload: orders(),
        writer: writer("east"),
        group: Group::Stateful,
        at: at(60),
        handle_given: None,
        restored_from: Origin::Empty,
        writes: 0,
        by_itself: true,
    });
    let lost = ledger.verdict().lost_state;
    assert!(lost[0].by_itself && lost[0].writes == 50, "{lost:?}");
}

#[test]
fn a_volume_has_what_was_written_to_it_and_another_one_has_not() {
    let ledger = Ledger::new();
    start(
        &ledger,
        "east",
        0,
        Group::Stateful,
        Origin::Volume("east/data".into()),
    );
    stop(&ledger, "east", 50);
    start(
        &ledger,
        "east",
        60,
        Group::Stateful,
        Origin::Volume("east/data".into()),
    );
    stop(&ledger, "east", 80);
    assert_eq!(losses(&ledger), []);
    start(
        &ledger,
        "west",
        90,
        Group::Stateful,
        Origin::Volume("west/data".into()),
    );
    assert_eq!(losses(&ledger), [("west".to_owned(), 70, vec![writer("east")])]);
}

#[test]
fn stateless_copies_may_run_side_by_side() {
    let ledger = Ledger::new();
    start(&ledger, "east", 0, Group::Stateless, Origin::Empty);
    start(&ledger, "west", 5, Group::Stateless, Origin::Empty);
    let verdict = ledger.verdict();
    assert!(verdict.is_clean());
    assert_eq!(
        (verdict.max_writers_at_once, verdict.max_stateless_at_once),
        (0, 2)
    );
}

#[test]
fn the_timeline_reads_in_the_order_of_time() {
    let ledger = Ledger::new();
    start(&ledger, "west", 900, Group::Stateful, handle("s1"));
    start(&ledger, "east", 0, Group::Stateful, Origin::Empty);
    let timeline = ledger.to_string();
    let lines: Vec<_> = timeline.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "0.000s  east (east-uid)  FlinkDeployment streaming/orders  can write, from empty state",
            "0.900s  west (west-uid)  FlinkDeployment streaming/orders  can write, from s1",
        ]
    );
}
