//! What real runs have sent (`crates/sim/recordings`: of the sandbox, made by `tests/all/recordings.rs`, and of real control planes), the
//! simulation sends as well, in the same order.

use std::path::Path;

use cutover_karmada::PurgeMode;
use cutover_sim::recording::Recording;
use cutover_sim::{EAST, Event, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 600;

/// Goes on until something is so. Everybody else is quick: what a line has set off is over before the next one.
fn goes_on(sim: &mut Sim, is_so: impl Fn(&Sim) -> bool) {
    for _ in 0..ROUNDS {
        loop {
            if is_so(sim) {
                return;
            }
            if !sim.turn(0) {
                break;
            }
            sim.settle();
        }
        sim.round();
    }
    unreachable!("{}", sim.account());
}

/// Plays what a recording is of. `fails_over`: its policy says when Karmada's failover is to move it.
fn played(of: &str, fails_over: bool) -> Sim {
    let mut sim = if of == "failover" {
        let mut sim = Sim::with_orders(&[EAST, WEST]);
        sim.guard(0, &json!({})).unwrap();
        sim
    } else {
        Sim::new(&json!({})).unwrap()
    };
    if fails_over {
        let mut policy = sim.plane.workloads[0].policy.as_ref().unwrap().json.clone();
        let application = json!({"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"});
        policy["spec"]["failover"] = json!({"application": application});
        if of == "failover" {
            policy["spec"]["failover"]["cluster"] =
                json!({"purgeMode": "Gracefully", "gracePeriodSeconds": 600});
        }
        assert!(sim.plane.put_policy(0, policy));
        sim.settle();
    }
    match of {
        "move" => {}
        "abort-in-verify" => {
            goes_on(&mut sim, |sim| sim.actors[0].phase() == "Verify");
            sim.actors[0].abort();
        }
        "failover" => {
            goes_on(&mut sim, Sim::is_over);
            Event::Evicted(EAST, PurgeMode::Gracefully).happens(&mut sim);
            sim.settle();
            goes_on(&mut sim, |sim| sim.actors[0].phase() == "Evicted");
        }
        other => unreachable!("nothing is known of {other}"),
    }
    goes_on(&mut sim, Sim::is_over);
    sim.go_on(20);
    let runs = if of == "abort-in-verify" { EAST } else { WEST };
    assert_eq!(sim.writers(0)[0].as_str(), runs);
    sim
}

#[test]
fn what_real_runs_have_sent_the_simulation_sends_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut differences = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let (_, of) = name.split_once('_').unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let recorded = Recording::parse(&text);
        let sim = played(of, text.contains("restore failover"));
        let here = Recording::of(sim.sent.iter().map(String::as_str));
        if let Some(difference) = recorded.difference(&here) {
            differences.push(format!("{name}: {difference}\n{}", here.text("here")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
