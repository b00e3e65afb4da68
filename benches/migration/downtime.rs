//! How long nobody writes while a job moves, by the job's own records: moved by cutover, and by a person's script, in turn.

use std::io::Write;
use std::time::{Duration, Instant};

use cutover::sandbox::WorldOptions;
use cutover::sandbox::ledger::{Gap, Ledger};
use cutover::sandbox::member::Timings;
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Runtime;

use super::chain::Cost;
use super::controller::{Controller, Entry, What};
use super::place::until;
use super::{by_hand, clear, completes, migrate, place, running, runs, stamps};

/// The parts of a time in which nobody writes, in milliseconds.
struct Parts {
    whole: f64,
    /// Until cutover reads that the copy has stopped and its pods are gone: the job's own time, and the delay of the read.
    stops: f64,
    /// From there to the pin that lets the target run: cutover's.
    hands_over: f64,
    /// From there to the first write: Karmada's, and the job's own.
    starts: f64,
}

pub fn row(count: usize, timings: Timings) {
    let (world, place) = place(WorldOptions {
        timings,
        ..WorldOptions::default()
    });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let [one, other] = place.pair();
        let (mut by_tool, mut by_script, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tool, mut script) = (runs(&place, "by-tool").await, runs(&place, "by-script").await);
        let controller = Controller::start(&place.control.kubeconfig).await;
        for number in 0..count {
            let to = if tool == one { other } else { one };
            let name = format!("move-{number}");
            let begun = Instant::now();
            migrate(&place, &name, "by-tool", to, &json!({})).await;
            completes(&place, &name).await;
            to.clone_into(&mut tool);
            let gap = gap(&place.ledger, "by-tool", number).await;
            let trace = controller.trace();
            by_tool.push(parts(&gap, &trace, &name));
            costs.push(Cost::of(&trace, &name, begun, begun.elapsed()));

            let to = if script == one { other } else { one };
            by_hand::migrate(&place, "by-script", &script, to).await;
            let gap = self::gap(&place.ledger, "by-script", number).await;
            by_script.push(millis(gap.duration()));
            running(&place, "by-script").await;
            to.clone_into(&mut script);
        }
        println!("\n| {count} moves each, ms without a writer | p50 | p99 |\n|---|---|---|");
        let show = |what: &str, all: Vec<f64>| println!("| {what} | {} |", quantiles(all));
        show("a person's script", by_script);
        show("cutover", by_tool.iter().map(|parts| parts.whole).collect());
        let part = |of: fn(&Parts) -> f64| by_tool.iter().map(of).collect();
        show("of which until it is seen stopped", part(|parts| parts.stops));
        show("of which from there to the pin", part(|parts| parts.hands_over));
        show(
            "of which from there to the first write",
            part(|parts| parts.starts),
        );
        let (path, mut file) = stamps("migration-downtime.jsonl");
        for cost in &costs {
            writeln!(file, "{}", serde_json::to_string(cost).unwrap()).unwrap();
        }
        println!("\nstamps: {}", path.display());
    });
    clear(&world, place);
}

/// Waits for the ledger to have that many times in which nobody wrote, and returns the last.
async fn gap(ledger: &Ledger, job: &str, before: usize) -> Gap {
    let all = || {
        let gaps = ledger.verdict().gaps;
        let own = gaps.into_iter().filter(|gap| gap.workload.name == job);
        own.collect::<Vec<_>>()
    };
    until("the job writes again", async || all().len() > before).await;
    all().swap_remove(before)
}

fn parts(gap: &Gap, trace: &[Entry], intent: &str) -> Parts {
    // The ledger has the time of day, the trace that of the machine.
    let (now, today) = (Instant::now(), Timestamp::now());
    let day = |at: Instant| today - Duration::from_secs_f64(now.duration_since(at).as_secs_f64());
    let last = |is_it: &dyn Fn(&What) -> bool, before: Instant| {
        let mut trace = trace.iter().rev().filter(|entry| entry.at <= before);
        trace.find(|entry| is_it(&entry.what)).unwrap().at
    };
    let pin = last(
        &|what| {
            matches!(what, What::Wrote { intent: of, what, .. }
                if of.name == intent && what.starts_with("Handoff: pin"))
        },
        now,
    );
    let looks = format!("/migrations/{intent}");
    let look = last(
        &|what| matches!(what, What::Asked { method, path, .. } if method == "GET" && path.ends_with(&looks)),
        pin,
    );
    let after = |at: Instant| millis(day(at).duration_since(gap.from));
    Parts {
        whole: millis(gap.duration()),
        stops: after(look),
        hands_over: after(pin) - after(look),
        starts: millis(gap.duration()) - after(pin),
    }
}

fn millis(time: jiff::SignedDuration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn quantiles(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    let at = |part: f64| all[((all.len() - 1) as f64 * part).round() as usize];
    format!("{:.0} | {:.0}", at(0.5), at(0.99))
}
