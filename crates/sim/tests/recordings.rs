//! What real runs have sent (`crates/sim/recordings`: of the sandbox, made by `tests/all/recordings.rs`, and of real control planes), the
//! simulation sends as well, in the same order.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use cutover_sim::recording::Recording;
use cutover_sim::{EAST, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 600;

/// Plays what a recording is of.
fn played(of: &str) -> Sim {
    let mut sim = Sim::new(&json!({})).unwrap();
    let mut policy = sim.plane.workloads[0].policy.as_ref().unwrap().json.clone();
    policy["spec"]["failover"] =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"}});
    assert!(sim.plane.put_policy(0, policy));
    sim.settle();
    match of {
        "move" => {}
        "abort-in-verify" => {
            let verifies = |sim: &Sim| sim.actors[0].phase() == "Verify";
            assert!(sim.play_until(ROUNDS, verifies), "{}", sim.account());
            sim.actors[0].abort();
        }
        other => unreachable!("nothing is known of {other}"),
    }
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let runs = if of == "move" { WEST } else { EAST };
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
        let recorded = Recording::parse(&std::fs::read_to_string(&file).unwrap());
        let sim = played(of);
        let here = Recording::of(sim.sent.iter().map(String::as_str));
        if let Some(difference) = recorded.difference(&here) {
            differences.push(format!("{name}: {difference}\n{}", here.text("here")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
